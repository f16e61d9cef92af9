//! What a trainer gives beside its steps: scores of a reward model, and its critic; and what it is
//! given: batches, buffers, and names of samples.
mod common;

use common::{model, options, pipeline, scored_group};
use rl::{Dtype, Status};
use std::time::Duration;

#[test]
fn reward_model_scores_every_sample() {
    let mut options = options();
    let engine = rl::Engine::new(&model(&options, rl::Use::Generate), None).unwrap();
    let batch = scored_group(&engine);
    let plain = rl::Trainer::new(&model(&options, rl::Use::Train), None).unwrap();
    assert_eq!(plain.scores(&batch).unwrap_err().status, Status::FailedPrecondition);
    for key in ["pipeline.prompts_per_step", "pipeline.samples_per_prompt"] {
        options.unset(key).unwrap();
    }
    options.set("algo.objective", "reward_model").unwrap();
    let trainer = rl::Trainer::new(&model(&options, rl::Use::Train), &options).unwrap();
    assert_eq!(trainer.scores(&batch).unwrap(), [0.0; common::GROUP]); // its head is still zero
}

/// Samples of the host: three tokens each, in groups of two.
fn given(ids: &[[i32; 3]]) -> Vec<rl::Sample<'_>> {
    let mut samples = Vec::new();
    for (i, ids) in ids.iter().enumerate() {
        let mut made = rl::Sample::new(ids, 2);
        made.ordinal = i as u64 / 2;
        made.slot = i as u32 % 2;
        made.reward = Some(0.0);
        made.tag = "made here";
        samples.push(made);
    }
    samples
}

#[test]
fn batches_of_the_host_are_joined_and_carried_as_bytes() {
    let ids = [[1, 2, 3], [1, 2, 4], [1, 2, 5]];
    let mut made = rl::Batch::new(&given(&ids)).unwrap();
    made.set_reward(2, 4.0).unwrap();
    let turned = made.select(&[2, 0]).unwrap();
    let none = made.select(&[]).unwrap();
    let both = rl::Batch::concat(&[&turned, &none, &made]).unwrap();
    let mut bytes = both.to_bytes().unwrap();
    let got = rl::Batch::from_bytes(&bytes).unwrap();
    let answers: Vec<_> = got.samples().unwrap().iter().map(|s| (s.ids[2], s.reward)).collect();
    let wanted = [(5, 4.0), (3, 0.0), (3, 0.0), (4, 0.0), (5, 4.0)];
    assert_eq!(answers, wanted.map(|(id, reward)| (id, Some(reward))));
    assert!(none.is_empty() && got.sample(0).unwrap().tag == "made here");
    assert_eq!(made.select(&[3]).unwrap_err().status, Status::OutOfRange);
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(rl::Batch::from_bytes(&bytes).unwrap_err().status, Status::DataLoss);
    assert_eq!(rl::Batch::from_bytes(&[]).unwrap_err().status, Status::DataLoss);
}

#[test]
fn buffer_discards_groups_and_counts_them() {
    let mut options = options();
    options.set("pipeline.samples_per_prompt", "2").unwrap();
    let buffer = rl::Buffer::new(&options, 16).unwrap();
    let ids = [[1, 2, 3]; 5];
    for sample in given(&ids) {
        buffer.put(&sample).unwrap(); // of ordinals 0, 1 and, in part, 2
    }
    let groups = |ordinals| rl::Discard { ordinals, ..rl::Discard::default() };
    assert_eq!(buffer.discard(&groups(Some(&[]))).unwrap(), 0);
    assert_eq!(buffer.discard(&groups(Some(&[1, 9]))).unwrap(), 2);
    let partial = rl::Discard { incomplete_only: true, ..rl::Discard::default() };
    assert_eq!(buffer.discard(&partial).unwrap(), 1);
    let more = rl::Groups { min: 2, ..rl::Groups::default() };
    assert!(matches!(buffer.take(&more, Some(Duration::ZERO)).unwrap(), rl::Outcome::Timeout));
    assert_eq!(buffer.discard(&rl::Discard::default()).unwrap(), 2);
    let stats = buffer.stats().unwrap();
    assert_eq!((stats.put, stats.dropped, stats.samples), (5, 5, 0));
}

#[test]
fn request_names_its_samples() {
    let engine = rl::Engine::new(&model(&options(), rl::Use::Generate), None).unwrap();
    let request = rl::Request {
        tag: "row 7",
        ordinal: Some(7),
        sample_id: Some(900),
        slot: 3,
        ..rl::Request::new(&[1, 2])
    };
    assert_eq!(engine.submit(&request).unwrap(), 900);
    assert_eq!(engine.submit(&request).unwrap_err().status, Status::FailedPrecondition);
    assert!(engine.run().unwrap().is_ready());
    let batch = engine.take().unwrap().ready().unwrap();
    let sample = batch.sample(0).unwrap();
    assert_eq!((sample.sample_id, sample.ordinal, sample.slot, sample.tag), (900, 7, 3, "row 7"));
    let prompt = rl::Prompt { ordinal: Some(9), sample_id: Some(950), ..rl::Prompt::new(&[1, 2]) };
    let info = rl::Conversation::start(&engine, &prompt).unwrap().info().unwrap();
    assert_eq!((info.sample_id, info.ordinal), (950, 9));
}

#[test]
fn critic_is_a_model_on_disk() {
    let mut options = options();
    let policy = model(&options, rl::Use::Train);
    let without = rl::Trainer::new(&policy, &options).unwrap();
    let dir = std::env::temp_dir().join(format!("rl-critic-{}", std::process::id()));
    let error = without.save_critic(&dir, Dtype::F32, false).unwrap_err();
    assert_eq!(error.status, Status::FailedPrecondition);
    options.set("algo.advantage", "gae").unwrap();
    let trainer = rl::Trainer::new(&policy, &options).unwrap();
    trainer.save_critic(&dir, Dtype::F32, false).unwrap();
    let again = trainer.save_critic(&dir, Dtype::F32, false).unwrap_err();
    assert_eq!(again.status, Status::AlreadyExists);
    let config = std::fs::read_to_string(dir.join("config.json")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(config.contains("SequenceClassification"), "{config}");
    let (_model, loop_without) = pipeline(1);
    let error = loop_without.save_critic(&dir, Dtype::F32, false).unwrap_err();
    assert_eq!(error.status, Status::FailedPrecondition);
}

#[test]
fn step_in_two_halves_takes_the_gradients_of_the_host() {
    let options = common::options();
    let model = common::model(&options, rl::Use::Parts);
    let engine = rl::Engine::new(&model, &options).unwrap();
    let batch = common::scored_group(&engine);
    let mut trainer = rl::Trainer::new(&model, &options).unwrap();
    let before = model.digest().unwrap();
    trainer.backward(&batch, None, rl::Totals::default()).unwrap();
    let mut values = trainer.gradient("").unwrap().as_slice::<f32>().unwrap().to_vec();
    assert_eq!(trainer.gradient("model.norm.weight").unwrap().info().unwrap().shape, [64]);
    values[0] = f32::NAN;
    trainer.set_gradient("", &values).unwrap();
    let refused = trainer.set_gradient("", &values[1..]).unwrap_err();
    assert_eq!(refused.status, rl::Status::InvalidArgument);
    trainer.apply().unwrap();
    assert_eq!(model.digest().unwrap(), before, "a step that is not finite is skipped");
    let whole = rl::Totals { tokens: 1000, sequences: 100 };
    trainer.backward(&batch, None, whole).unwrap();
    trainer.apply().unwrap();
    assert_ne!(model.digest().unwrap(), before);
    assert_eq!(trainer.apply().err().unwrap().status, rl::Status::FailedPrecondition);
}

#[test]
fn trainer_goes_on_from_its_checkpoint() {
    let dir = std::env::temp_dir().join(format!("rl_trainer_{}", std::process::id()));
    let options = common::options();
    let model = common::model(&options, rl::Use::Parts);
    let engine = rl::Engine::new(&model, &options).unwrap();
    let batch = common::scored_group(&engine);
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    let step = || {
        trainer.step(&batch, None).unwrap();
        model.digest().unwrap()
    };
    let first = step();
    assert!(trainer.save(&dir, "row 17", 2, false).unwrap().ends_with("step_000001"));
    let again = trainer.save(&dir, "", 0, false).unwrap_err();
    assert_eq!(again.status, rl::Status::AlreadyExists);
    let second = step();
    assert_eq!(trainer.load(&dir).unwrap(), "row 17");
    assert_eq!(model.digest().unwrap(), first);
    assert_eq!(step(), second);
    trainer.set_options(&options).unwrap();
    trainer.cancel().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn forwards_need_no_trainer() {
    let options = common::options();
    let runtime = rl::Runtime::new(&options).unwrap();
    let model = rl::Model::open(&runtime, &options, rl::Use::Parts).unwrap();
    let served = rl::Model::open(&runtime, &options, rl::Use::Forward).unwrap();
    let engine = rl::Engine::new(&model, &options).unwrap();
    let batch = common::scored_group(&engine);
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    for output in [rl::Output::Logprobs, rl::Output::Entropies] {
        let a = served.forward(output, &batch, None).unwrap();
        let b = trainer.forward_batch(output, &batch, None).unwrap();
        assert_eq!(a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
    }
    let rows = served.forward(rl::Output::Logits, &batch, Some(&[4, 0])).unwrap();
    assert_eq!(rows.info().unwrap().shape[0], 2);
    let refused = model.forward(rl::Output::Logprobs, &batch, None).unwrap_err();
    assert_eq!(refused.status, rl::Status::FailedPrecondition);
}

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
    let groups = |ordinals| rl::Discard::default().ordinals(ordinals);
    assert_eq!(buffer.discard(&groups(Some(&[]))).unwrap(), 0);
    assert_eq!(buffer.discard(&groups(Some(&[1, 9]))).unwrap(), 2);
    let partial = rl::Discard::default().incomplete_only(true);
    assert_eq!(buffer.discard(&partial).unwrap(), 1);
    let more = rl::Groups::default().min(2);
    assert!(matches!(buffer.take(&more, Some(Duration::ZERO)).unwrap(), rl::Outcome::Timeout));
    assert_eq!(buffer.discard(&rl::Discard::default()).unwrap(), 2);
    let stats = buffer.stats().unwrap();
    assert_eq!((stats.put, stats.dropped, stats.samples), (5, 5, 0));
}

#[test]
fn request_names_its_samples() {
    let engine = rl::Engine::new(&model(&options(), rl::Use::Generate), None).unwrap();
    let request = rl::Request::new(&[1, 2]).tag("row 7").ordinal(Some(7)).slot(3);
    let request = request.sample_id(Some(900));
    assert_eq!(engine.submit(&request).unwrap(), 900);
    assert_eq!(engine.submit(&request).unwrap_err().status, Status::FailedPrecondition);
    assert!(engine.run().unwrap().is_ready());
    let batch = engine.take().unwrap().ready().unwrap();
    let sample = batch.sample(0).unwrap();
    assert_eq!((sample.sample_id, sample.ordinal, sample.slot, sample.tag), (900, 7, 3, "row 7"));
    let prompt = rl::Content::new(&[1, 2]).ordinal(Some(9)).sample_id(Some(950)).tag("a chat");
    let conversation = rl::Conversation::new(&engine, prompt.clone()).unwrap();
    let info = conversation.info().unwrap();
    assert_eq!((info.sample_id, info.ordinal, info.num_ids), (950, 9, 2));
    assert_eq!(conversation.append(prompt).unwrap_err().status, Status::InvalidArgument);
    conversation.append(&[3]).unwrap();
    conversation.generate(&rl::Turn::default()).unwrap();
    assert!(conversation.info().unwrap().generating);
    assert!(engine.run().unwrap().is_ready());
    let info = conversation.info().unwrap();
    assert_eq!((info.num_turns, info.generating), (1, false));
    assert_eq!(conversation.sample().unwrap().sample(0).unwrap().tag, "a chat");
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
    trainer.backward(&batch).unwrap();
    let mut values = trainer.gradient("").unwrap().as_slice::<f32>().unwrap().to_vec();
    assert_eq!(trainer.gradient("model.norm.weight").unwrap().info().unwrap().shape, [64]);
    values[0] = f32::NAN;
    trainer.set_gradient("", &values).unwrap();
    let refused = trainer.set_gradient("", &values[1..]).unwrap_err();
    assert_eq!(refused.status, rl::Status::InvalidArgument);
    trainer.apply().unwrap();
    assert_eq!(model.digest().unwrap(), before, "a step that is not finite is skipped");
    let part = rl::Step::new(&batch).advantages(Some(&[1.0, 0.0, 0.0, -1.0]));
    trainer.backward(part.total_tokens(1000).total_sequences(100)).unwrap();
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
        trainer.step(&batch).unwrap();
        model.digest().unwrap()
    };
    let first = step();
    let checkpoint = rl::Checkpoint::new(&dir).state("row 17").keep_last(2);
    assert!(trainer.save(&checkpoint).unwrap().ends_with("step_000001"));
    let again = trainer.save(&checkpoint).unwrap_err();
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
        let input = rl::Forward::of_batch(output, &batch);
        let (a, b) = (served.forward(&input).unwrap(), trainer.forward(&input).unwrap());
        assert_eq!(a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
    }
    let logits = rl::Forward::of_batch(rl::Output::Logits, &batch).rows(Some(&[4, 0]));
    assert_eq!(served.forward(&logits).unwrap().info().unwrap().shape[0], 2);
    let (sample, logprobs) = (batch.sample(0).unwrap(), rl::Output::Logprobs);
    let sequence = rl::Forward::of_ids(logprobs, sample.ids).num_prompt(sample.num_prompt);
    assert_eq!(served.forward(&sequence).unwrap().as_slice::<f32>().unwrap(), sample.logprobs);
    let refused = model.forward(&sequence).unwrap_err();
    assert_eq!(refused.status, rl::Status::FailedPrecondition);
}

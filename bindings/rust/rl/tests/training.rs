//! What a trainer gives beside its steps: scores of a reward model, and its critic.
mod common;

use common::{model, options, pipeline, scored_group};
use rl::{Dtype, Status};

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

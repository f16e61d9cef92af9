//! A tiny model and what the tests make from it. It has no tokenizer: prompts are token ids.
#![allow(dead_code)] // each test program uses some of it

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

pub const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixtures/models/llama");
pub const GROUP: usize = 4;

pub fn options() -> rl::Options {
    let mut options = rl::Options::new().unwrap();
    for (key, value) in [
        ("model.path", MODEL),
        ("engine.max_num_seqs", "8"),
        ("engine.max_model_len", "32"),
        ("pipeline.prompts_per_step", "2"),
        ("pipeline.samples_per_prompt", "4"),
        ("sampling.max_new_tokens", "6"),
        ("optimizer.lr", "1e-3"),
        ("runtime.seed", "7"),
        ("runtime.threads", "1"),
    ] {
        options.set(key, value).unwrap();
    }
    options
}

pub fn model(options: &rl::Options, usage: rl::Use) -> rl::Model {
    let runtime = rl::Runtime::new(options).unwrap();
    rl::Model::open(&runtime, options, usage).unwrap()
}

/// A group of samples with rewards 0, 1, 2, 3.
pub fn scored_group(engine: &rl::Engine) -> rl::Batch {
    engine.submit(&rl::Request::new(&[1, 2, 3, 4]).num_samples(GROUP as u64)).unwrap();
    assert!(engine.run().unwrap().is_ready());
    let mut batch = engine.take().unwrap().ready().unwrap();
    for i in 0..batch.len() {
        batch.set_reward(i, i as f64).unwrap();
    }
    batch
}

/// A pipeline of `steps` steps that is fed by the host, started.
pub fn pipeline(steps: u64) -> (rl::Model, rl::Pipeline) {
    let mut options = options();
    options.set_u64("pipeline.total_steps", steps).unwrap();
    let model = model(&options, rl::Use::Pipeline);
    let pipeline = rl::Pipeline::new(&model, &options).unwrap();
    for i in 0..2 * steps as i32 {
        let tag = format!("row \u{3c0} {i}");
        assert!(pipeline.feed_ids(&[1, 2 + i % 7, 3], &tag, Some(Duration::ZERO)).unwrap());
    }
    pipeline.finish_feed().unwrap();
    (model, pipeline)
}

/// The toy reward: the share of even ids.
pub fn score(pipeline: &rl::Pipeline, event: &rl::Event) {
    let sample = event.sample().unwrap();
    let even = sample.answer().iter().filter(|&id| id % 2 == 0).count();
    pipeline.score(sample.sample_id, even as f64 / sample.answer().len() as f64).unwrap();
}

/// Counts how often it was dropped.
pub struct CountDrop(pub Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

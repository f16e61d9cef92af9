//! Objects end in any order and on any thread.
mod common;

use common::{model, options, pipeline, score, scored_group};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn is_shared<T: Send + Sync + 'static>() {}

#[test]
fn every_object_may_be_used_by_every_thread() {
    is_shared::<rl::Options>();
    is_shared::<rl::Runtime>();
    is_shared::<rl::Plan>();
    is_shared::<rl::Model>();
    is_shared::<rl::Engine>();
    is_shared::<rl::Conversation>();
    is_shared::<rl::Batch>();
    is_shared::<rl::Sample<'static>>();
    is_shared::<rl::Buffer>();
    is_shared::<rl::Trainer>();
    is_shared::<rl::Pipeline>();
    is_shared::<rl::Event>();
    is_shared::<rl::EventQueue>();
    is_shared::<rl::Profiler>();
    is_shared::<rl::Tensor>();
    is_shared::<rl::Dlpack>();
    is_shared::<rl::Error>();
}

/// One object of each kind, made from one another.
fn objects() -> Vec<Box<dyn Any + Send>> {
    let options = options();
    let runtime = rl::Runtime::new(&options).unwrap();
    let model = rl::Model::open(&runtime, &options, rl::Use::Parts).unwrap();
    let engine = rl::Engine::new(&model, &options).unwrap();
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    let batch = scored_group(&engine);
    let event = trainer.step(&batch).unwrap();
    vec![
        Box::new(options),
        Box::new(runtime),
        Box::new(model),
        Box::new(engine),
        Box::new(trainer),
        Box::new(batch),
        Box::new(event),
    ]
}

#[test]
fn objects_may_be_dropped_in_any_order() {
    let count = objects().len();
    for first in 0..count {
        let mut rest = objects();
        rest.rotate_left(first);
        rest.into_iter().for_each(drop);
        let mut rest = objects();
        rest.rotate_left(first);
        rest.into_iter().rev().for_each(drop);
    }
}

#[test]
fn objects_may_be_dropped_on_another_thread() {
    let all = objects();
    thread::spawn(move || drop(all)).join().unwrap();
}

#[test]
fn a_run_waits_for_what_computes() {
    let mut options = options();
    options.set("runtime.busy_timeout_ns", "1h").unwrap();
    let runtime = rl::Runtime::new(&options).unwrap();
    let open = |usage| rl::Model::open(&runtime, &options, usage).unwrap();
    let engine = rl::Engine::new(&open(rl::Use::Generate), None).unwrap();
    engine.submit(&rl::Request::new(&[1, 2, 3, 4])).unwrap();
    let model = open(rl::Use::Pipeline);
    options.set_u64("pipeline.total_steps", 1).unwrap();
    let pipeline = rl::Pipeline::new(&model, &options).unwrap();
    for id in [5, 6] {
        assert!(pipeline.feed_ids(&[1, 2, id], "", Some(Duration::ZERO)).unwrap());
    }
    pipeline.finish_feed().unwrap();
    pipeline.start().unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(engine.run().unwrap().is_ready());
            ended.store(true, Ordering::SeqCst);
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!ended.load(Ordering::SeqCst));
        for event in pipeline.events() {
            let event = event.unwrap();
            if event.kind() == rl::EventKind::Score {
                score(&pipeline, &event);
            }
        }
    });
    assert_eq!(engine.take().unwrap().ready().unwrap().len(), 1);
}

#[test]
fn parts_work_after_what_they_were_made_from() {
    let options = options();
    let model = model(&options, rl::Use::Parts); // its runtime is gone
    let engine = rl::Engine::new(&model, None).unwrap();
    drop(model);
    drop(options);
    let batch = scored_group(&engine);
    drop(engine);
    let samples = batch.samples().unwrap();
    assert_eq!(samples.len(), common::GROUP);
    for (i, sample) in samples.iter().enumerate() {
        assert_eq!((sample.slot, sample.prompt()), (i as u32, &[1, 2, 3, 4][..]));
        assert_eq!(sample.logprobs.len(), sample.answer().len());
        assert_eq!(sample.versions.len(), sample.answer().len());
        assert_eq!(sample.text, "");
    }
}

#[test]
fn one_thread_takes_events_and_another_scores() {
    let (model, pipeline) = pipeline(3);
    pipeline.start().unwrap();
    let (send, scores) = mpsc::channel::<rl::Event>();
    let mut steps = 0;
    thread::scope(|scope| {
        let rewarded = &pipeline;
        let scorer = scope.spawn(move || scores.iter().map(|e| score(rewarded, &e)).count());
        for event in pipeline.events() {
            let event = event.unwrap();
            match event.kind() {
                rl::EventKind::Score => send.send(event).unwrap(),
                rl::EventKind::Step => steps += 1,
                _ => {}
            }
        }
        drop(send);
        assert_eq!(scorer.join().unwrap(), 3 * 2 * common::GROUP);
    });
    assert_eq!(steps, 3);
    assert_eq!(model.version().unwrap(), 3);
    let stats = pipeline.stats().unwrap();
    assert_eq!(stats.state, rl::State::Done);
    assert_eq!((stats.step, stats.unscored), (3, 0));
}

#[test]
fn wait_of_another_thread_can_be_interrupted() {
    let (_model, pipeline) = pipeline(1);
    let interrupted = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let outcome = pipeline.next(None).unwrap(); // nothing was started: nothing comes
            interrupted.store(true, Ordering::SeqCst);
            matches!(outcome, rl::Outcome::Interrupted)
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!interrupted.load(Ordering::SeqCst));
        pipeline.interrupt().unwrap();
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn event_outlives_its_pipeline() {
    let (model, pipeline) = pipeline(1);
    pipeline.start().unwrap();
    let event = pipeline.next(None).unwrap().ready().unwrap();
    drop(pipeline);
    drop(model);
    let sample = event.sample().unwrap();
    assert!(sample.tag.starts_with("row \u{3c0}"), "{}", sample.tag);
    assert_eq!(sample.ids.len(), sample.prompt().len() + sample.answer().len());
}

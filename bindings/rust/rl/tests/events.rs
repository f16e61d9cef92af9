//! The same run by the iterator and by futures.
mod common;

use common::{pipeline, score};
use std::future::Future;
use std::os::unix::io::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const STEPS: u64 = 2;

fn by_iterator() -> (u64, f64) {
    let (model, pipeline) = pipeline(STEPS);
    pipeline.start().unwrap();
    let mut rewards = 0.0;
    for event in pipeline.events() {
        let event = event.unwrap();
        match event.kind() {
            rl::EventKind::Score => score(&pipeline, &event),
            rl::EventKind::Step => rewards += event.metric("critic/rewards/mean").unwrap(),
            _ => {}
        }
    }
    pipeline.close_result().unwrap();
    (model.digest().unwrap(), rewards)
}

async fn by_futures() -> (u64, f64) {
    let (model, pipeline) = pipeline(STEPS);
    pipeline.start().unwrap();
    let mut rewards = 0.0;
    let mut events = pipeline.async_events().unwrap();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        match event.kind() {
            rl::EventKind::Score => score(&pipeline, &event),
            rl::EventKind::Step => rewards += event.metric("critic/rewards/mean").unwrap(),
            _ => {}
        }
    }
    (model.digest().unwrap(), rewards)
}

#[test]
fn futures_and_iterator_give_one_run() {
    let expected = by_iterator();
    assert_eq!(rl::block_on(by_futures()), expected);
    assert!(expected.1 > 0.0);
}

#[test]
fn step_has_metrics_by_name_and_by_place() {
    let (_model, pipeline) = pipeline(1);
    pipeline.start().unwrap();
    for event in pipeline.events() {
        let event = event.unwrap();
        if event.kind() == rl::EventKind::Score {
            score(&pipeline, &event);
            let error = event.metric("actor/loss").unwrap_err();
            assert_eq!(error.status, rl::Status::NotFound);
        }
        if event.kind() == rl::EventKind::Step {
            let metrics = event.metrics().unwrap();
            assert_eq!(metrics.len(), event.view().unwrap().num_metrics);
            for (name, value) in metrics {
                assert_eq!(event.metric(name).unwrap().to_bits(), value.to_bits(), "{name}");
            }
            assert_eq!(event.metric("training/logprob_max_abs_diff").unwrap(), 0.0);
            assert_eq!(event.sample().unwrap_err().status, rl::Status::FailedPrecondition);
        }
    }
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn pending_future_is_woken_once_there_is_an_event() {
    let (_model, pipeline) = pipeline(1);
    let mut events = pipeline.async_events().unwrap();
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut next = events.next();
    assert!(Pin::new(&mut next).poll(&mut Context::from_waker(&waker)).is_pending());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    pipeline.start().unwrap();
    while wakes.0.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    match Pin::new(&mut next).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(Some(Ok(event))) => assert_eq!(event.kind(), rl::EventKind::Score),
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_are_given_up_while_a_future_is_pending() {
    let (_model, pipeline) = pipeline(1);
    let mut events = pipeline.async_events().unwrap();
    let waker = Waker::from(Arc::new(CountWakes(AtomicUsize::new(0))));
    let mut next = events.next();
    assert!(Pin::new(&mut next).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(events); // joins the helper thread
}

#[test]
fn queue_has_a_descriptor() {
    let (_model, pipeline) = pipeline(1);
    let queue = pipeline.queue().unwrap();
    assert!(queue.as_raw_fd() >= 0);
    assert!(queue.is_empty());
}

#[test]
fn turns_are_answered() {
    let mut options = common::options();
    options.set("pipeline.turns", "always").unwrap();
    let model = common::model(&options, rl::Use::Pipeline);
    let pipeline = rl::Pipeline::new(&model, &options).unwrap();
    for i in 0..2 {
        assert!(pipeline.feed_ids(&[1, 2 + i, 3], "", Some(Duration::ZERO)).unwrap());
    }
    pipeline.finish_feed().unwrap();
    pipeline.start().unwrap();
    let (mut turns, mut scored) = (0, 0);
    for event in pipeline.events() {
        let event = event.unwrap();
        let view = event.view().unwrap();
        match view.kind {
            rl::EventKind::Turn => {
                let id = event.sample().unwrap().sample_id;
                turns += 1;
                if view.count == 1 {
                    pipeline.reply(id, rl::Answer::Ids(&[7, 9])).unwrap();
                } else {
                    assert!(pipeline.reply(id, rl::Answer::Text("a")).is_err());
                    pipeline.reply(id, rl::Answer::Finish).unwrap();
                }
            }
            rl::EventKind::Score => {
                let sample = event.sample().unwrap();
                assert_eq!(sample.loss_mask.iter().filter(|&&m| m == 0).count(), 2);
                scored += 1;
                score(&pipeline, &event);
            }
            _ => {}
        }
    }
    assert!(scored > 0 && turns == 2 * scored);
}

#[test]
fn groups_come_whole() {
    let mut options = common::options();
    options.set("pipeline.score_events", "group").unwrap();
    let model = common::model(&options, rl::Use::Pipeline);
    let pipeline = rl::Pipeline::new(&model, &options).unwrap();
    for i in 0..2 {
        assert!(pipeline.feed_ids(&[1, 2 + i, 3], "", Some(Duration::ZERO)).unwrap());
    }
    pipeline.finish_feed().unwrap();
    pipeline.start().unwrap();
    let mut groups = 0;
    for event in pipeline.events() {
        let event = event.unwrap();
        if event.kind() != rl::EventKind::Group {
            assert_ne!(event.kind(), rl::EventKind::Score);
            continue;
        }
        groups += 1;
        for sample in event.samples().unwrap() {
            pipeline.score(sample.sample_id, f64::from(sample.slot)).unwrap();
        }
    }
    assert!(groups > 0);
}

#[test]
fn an_engine_tells_of_its_samples() {
    let options = common::options();
    let model = common::model(&options, rl::Use::Generate);
    let engine = rl::Engine::new(&model, &options).unwrap();
    let queue = rl::EventQueue::new().unwrap();
    engine.set_queue(Some(&queue), 3).unwrap();
    let id = engine.submit(&rl::Request::new(&[1, 2, 3])).unwrap();
    assert!(engine.run().unwrap().is_ready());
    let event = queue.next(Some(Duration::from_secs(60))).unwrap().ready().unwrap();
    assert_eq!(event.kind(), rl::EventKind::Finished);
    assert_eq!(event.view().unwrap().source, 3);
    assert_eq!(event.sample().unwrap().sample_id, id);
    queue.interrupt().unwrap();
    assert!(matches!(queue.next(None).unwrap(), rl::Outcome::Interrupted));
    engine.set_queue(None, 0).unwrap();
}

#[test]
fn a_buffer_and_a_trainer_tell_of_what_they_do() {
    let options = common::options();
    let model = common::model(&options, rl::Use::Parts);
    let engine = rl::Engine::new(&model, &options).unwrap();
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    let buffer = rl::Buffer::new(&options, 64).unwrap();
    let queue = rl::EventQueue::new().unwrap();
    buffer.set_queue(Some(&queue), 1).unwrap();
    trainer.set_queue(Some(&queue), 2).unwrap();
    let next = || {
        let event = queue.next(Some(Duration::ZERO)).unwrap().ready().unwrap();
        let source = event.view().unwrap().source;
        (event.kind(), source)
    };
    let batch = common::scored_group(&engine);
    buffer.put_batch(&batch).unwrap();
    assert_eq!(next(), (rl::EventKind::Groups, 1));
    let batch = buffer.take(&rl::Groups::default(), None).unwrap().ready().unwrap();
    trainer.step(&batch).unwrap();
    assert_eq!(next(), (rl::EventKind::Step, 2));
    assert_eq!(next(), (rl::EventKind::Published, 2));
    assert!(queue.is_empty());
    assert_eq!(trainer.options().unwrap().dump(false).unwrap(), options.dump(false).unwrap());
}

/// A queue with the engine that sends to it on a thread of its own.
fn engine_with_queue() -> (rl::Engine, rl::EventQueue) {
    let mut options = common::options();
    options.set("engine.thread", "true").unwrap();
    let engine = rl::Engine::new(&common::model(&options, rl::Use::Generate), &options).unwrap();
    let queue = rl::EventQueue::new().unwrap();
    engine.set_queue(Some(&queue), 3).unwrap();
    (engine, queue)
}

fn submit_group(engine: &rl::Engine) -> Vec<u64> {
    let request = rl::Request::new(&[1, 2, 3]).num_samples(common::GROUP as u64);
    let first = engine.submit(&request).unwrap();
    (first..first + common::GROUP as u64).collect()
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

#[test]
fn queue_is_iterated_until_an_interrupt() {
    let (engine, queue) = engine_with_queue();
    let expected = submit_group(&engine);
    let mut seen = Vec::new();
    for event in queue.events() {
        seen.push(event.unwrap().sample().unwrap().sample_id);
        if seen.len() == expected.len() {
            queue.interrupt().unwrap();
        }
    }
    assert_eq!(sorted(seen), expected);
}

#[test]
fn events_of_a_queue_are_awaited() {
    let (engine, queue) = engine_with_queue();
    let mut events = queue.async_events().unwrap();
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut given_up = events.next();
    assert!(Pin::new(&mut given_up).poll(&mut Context::from_waker(&waker)).is_pending());
    let expected = submit_group(&engine);
    while wakes.0.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let seen = rl::block_on(async {
        let mut seen = Vec::new();
        while seen.len() < expected.len() {
            let event = events.next().await.unwrap().unwrap(); // nothing went with the one given up
            seen.push(event.sample().unwrap().sample_id);
        }
        queue.interrupt().unwrap();
        assert!(events.next().await.is_none());
        seen
    });
    assert_eq!(sorted(seen), expected);
}

#[test]
fn events_of_a_pipelines_queue_end_with_it() {
    let (_model, pipeline) = pipeline(1);
    let queue = pipeline.queue().unwrap();
    pipeline.start().unwrap();
    let mut steps = 0;
    for event in queue.events() {
        let event = event.unwrap();
        match event.kind() {
            rl::EventKind::Score => score(&pipeline, &event),
            rl::EventKind::Step => steps += 1,
            _ => {}
        }
    }
    assert_eq!(steps, 1);
    assert!(queue.events().next().is_none());
}

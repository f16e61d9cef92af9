//! Functions of the host: a panic in one is a failed call and never crosses the library, and each
//! is dropped exactly once.
mod common;

use common::{model, options, scored_group, CountDrop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

fn count() -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    Default::default()
}

fn trainer(algorithm: &str) -> (rl::Engine, rl::Trainer) {
    let mut options = options();
    options.set(algorithm, "custom").unwrap();
    let model = model(&options, rl::Use::Parts);
    let engine = rl::Engine::new(&model, &options).unwrap();
    let trainer = rl::Trainer::new(&model, &options).unwrap();
    (engine, trainer)
}

#[test]
fn panic_in_the_log_silences_it() {
    let (calls, drops) = count();
    let mut options = options();
    options.set("runtime.log_level", "debug").unwrap();
    let runtime = rl::Runtime::new(&options).unwrap();
    let (seen, guard) = (Arc::clone(&calls), CountDrop(Arc::clone(&drops)));
    let sink = move |line: rl::LogLine<'_>| {
        let _ = &guard;
        seen.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose, at {line:?}");
    };
    runtime.set_log(sink).unwrap();
    for _ in 0..3 {
        rl::Model::open(&runtime, None, rl::Use::Model).unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    runtime.clear_log().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn log_lines_have_level_component_message_time_and_fields() {
    let mut options = options();
    options.set("runtime.log_level", "debug").unwrap();
    let runtime = rl::Runtime::new(&options).unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    let sink = move |line: rl::LogLine<'_>| {
        let known = !matches!(line.level, rl::LogLevel::Other(_));
        let told = !line.component.is_empty() && !line.message.is_empty();
        let path = line.fields.iter().any(|f| f.name == "path" && line.message.contains(f.value));
        let number = line.fields.iter().find(|f| f.kind == rl::FieldKind::Number);
        let counted = number.map_or(false, |f| f.value.parse::<i64>().is_ok());
        send.send(known && told && path && counted && line.unix_ns > line.time_ns).unwrap();
    };
    runtime.set_log(sink).unwrap();
    rl::Model::open(&runtime, None, rl::Use::Model).unwrap();
    runtime.clear_log().unwrap();
    let lines: Vec<bool> = lines.try_iter().collect();
    assert!(!lines.is_empty() && lines.iter().all(|&good| good));
}

#[test]
fn panic_in_an_advantage_fails_the_step_and_the_next_function_works() {
    let (calls, drops) = count();
    let (engine, trainer) = trainer("algo.advantage");
    let batch = scored_group(&engine);
    let (seen, guard) = (Arc::clone(&calls), CountDrop(Arc::clone(&drops)));
    let panics = move |_: &rl::AlgoTokens<'_>, _: &mut [f64]| -> bool {
        let _ = &guard;
        seen.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose")
    };
    trainer.set_advantage(panics).unwrap();
    for _ in 0..2 {
        let error = trainer.step(&batch).unwrap_err();
        assert_eq!(error.status, rl::Status::Cancelled);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let works = |tokens: &rl::AlgoTokens<'_>, advantages: &mut [f64]| {
        assert_eq!(tokens.rewards, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(tokens.old_logprobs.len(), advantages.len());
        advantages.fill(0.5);
        true
    };
    trainer.set_advantage(works).unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    let step = trainer.step(&batch).unwrap();
    assert_eq!(step.metric("critic/advantages/mean").unwrap(), 0.5);
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("on purpose, again");
    }
}

#[test]
fn panic_that_panics_when_dropped_stops_too() {
    let (engine, trainer) = trainer("algo.advantage");
    trainer.set_advantage(|_, _| std::panic::panic_any(PanicsWhenDropped)).unwrap();
    let error = trainer.step(&scored_group(&engine)).unwrap_err();
    assert_eq!(error.status, rl::Status::Cancelled);
}

#[test]
fn function_that_says_no_fails_the_step() {
    let (engine, trainer) = trainer("algo.advantage");
    trainer.set_advantage(|_, _| false).unwrap();
    let error = trainer.step(&scored_group(&engine)).unwrap_err();
    assert_eq!(error.status, rl::Status::Cancelled);
}

#[test]
fn library_refuses_a_function_that_is_not_callback_safe() {
    let (engine, trainer) = trainer("algo.advantage");
    let refused = |_: &rl::AlgoTokens<'_>, advantages: &mut [f64]| {
        advantages.fill(0.0);
        let error = rl::Options::new().unwrap_err();
        error.status == rl::Status::WrongThread
    };
    trainer.set_advantage(refused).unwrap();
    trainer.step(&scored_group(&engine)).unwrap();
}

#[test]
fn panic_in_a_loss_skips_the_optimizer_step() {
    let (_, drops) = count();
    let (engine, trainer) = trainer("algo.policy_loss");
    let guard = CountDrop(Arc::clone(&drops));
    let panics = move |_: &rl::AlgoTokens<'_>, _: &[f64], _: &mut [f64]| -> Option<f64> {
        let _ = &guard;
        panic!("on purpose")
    };
    trainer.set_loss(panics).unwrap();
    let step = trainer.step(&scored_group(&engine)).unwrap();
    assert!(step.metric("training/skipped_steps").unwrap() >= 1.0);
    drop(trainer);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn loss_by_the_host_trains() {
    let (engine, trainer) = trainer("algo.policy_loss");
    let loss = |tokens: &rl::AlgoTokens<'_>, weights: &[f64], gradient: &mut [f64]| {
        let mut sum = 0.0;
        for (i, weight) in weights.iter().enumerate() {
            let advantage = f64::from(tokens.advantages[i]);
            sum -= weight * advantage * f64::from(tokens.logprobs[i]);
            gradient[i] = -weight * advantage;
        }
        Some(sum)
    };
    trainer.set_loss(loss).unwrap();
    let step = trainer.step(&scored_group(&engine)).unwrap();
    assert_eq!(step.metric("training/skipped_steps").unwrap(), 0.0);
    assert!(step.metric("actor/grad_norm").unwrap() > 0.0);
}

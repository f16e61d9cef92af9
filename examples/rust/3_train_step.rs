//! 3_train_step: one step of reinforcement learning by hand: draw a group, score it, train on it,
//! publish.
//!
//!     3_train_step MODEL        MODEL is a Hugging Face directory or a GGUF file, also one
//!                               without a tokenizer
//!
//! The toy reward is the share of even token ids. The log-probs stored while sampling must equal
//! the trainer's bit for bit. New here: Batch::set_reward, Buffer::put_batch, take,
//! Trainer::logprobs, step, publish, Event::metrics.
use std::process::ExitCode;
use std::time::Duration;

const GROUP: usize = 8;

// ---- errors ----

fn fail(error: rl::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

// ---- pieces ----

/// Draws GROUP samples after a short prompt.
fn draw_group(engine: &rl::Engine) -> rl::Result<rl::Batch> {
    engine.submit(&rl::Request::new(&[1, 2, 3, 4]).num_samples(GROUP as u64))?;
    engine.run()?;
    engine.take()?.into_result()
}

/// Rewards sample `index`. True when the trainer's log-probs equal the stored ones.
fn score(trainer: &rl::Trainer, batch: &mut rl::Batch, index: usize) -> rl::Result<bool> {
    let sample = batch.sample(index)?;
    let count = sample.answer().len();
    let even = sample.answer().iter().filter(|&id| id % 2 == 0).count();
    let reward = even as f64 / count as f64;
    let logprobs = trainer.logprobs(sample.ids, sample.num_prompt, sample.temperature)?;
    println!("slot {}: {count} tokens, reward {reward:.3}", sample.slot);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let equal = bits(&logprobs) == bits(sample.logprobs);
    batch.set_reward(index, reward)?;
    Ok(equal)
}

/// A number as "%.6g" of C writes it.
fn short(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let trimmed = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_string();
    let (digits, exponent) = match scientific.split_once('e') {
        Some((digits, exponent)) => (digits, exponent.parse().unwrap_or(0)),
        None => return scientific,
    };
    match exponent {
        -4..=5 if exponent == 5 => format!("{value:.0}"),
        -4..=5 => trimmed(&format!("{value:.*}", (5 - exponent) as usize)),
        i32::MIN..=-5 => format!("{}e-{:02}", trimmed(digits), -exponent),
        _ => format!("{}e+{exponent:02}", trimmed(digits)),
    }
}

/// Prints the step's metrics. True when the trainer saw no log-prob differ.
fn print_step(step: &rl::Event) -> rl::Result<bool> {
    for (name, value) in step.metrics()? {
        println!("  {name:<36} {}", short(value));
    }
    Ok(step.metric("training/logprob_max_abs_diff")? == 0.0)
}

// ---- main ----

fn main() -> ExitCode {
    run().unwrap_or_else(fail)
}

fn run() -> rl::Result<ExitCode> {
    let path = match std::env::args().nth(1) {
        Some(path) => path,
        None => {
            eprintln!("usage: 3_train_step MODEL");
            return Ok(ExitCode::from(2));
        }
    };

    // Options and objects.
    let mut options = rl::Options::new()?;
    options.set("model.path", &path)?;
    options.set("engine.max_num_seqs", "8")?;
    options.set("engine.max_model_len", "64")?;
    options.set("pipeline.samples_per_prompt", "8")?;
    options.set("sampling.max_new_tokens", "16")?;
    options.set("optimizer.lr", "1e-4")?;
    let runtime = rl::Runtime::new(&options)?;
    let model = rl::Model::open(&runtime, &options, rl::Use::Parts)?;
    let engine = rl::Engine::new(&model, &options)?;
    let trainer = rl::Trainer::new(&model, &options)?;
    let buffer = rl::Buffer::new(&options, GROUP as u64)?;

    // Work.
    let mut drawn = draw_group(&engine)?;
    let mut equal = 0;
    for i in 0..drawn.len() {
        equal += usize::from(score(&trainer, &mut drawn, i)?);
    }
    buffer.put_batch(&drawn)?;
    let batch = buffer.take(&rl::Groups::default(), Some(Duration::ZERO))?.into_result()?;
    let step = trainer.step(&batch)?;
    let version = trainer.publish()?;

    // Check.
    let good = print_step(&step)? && equal == GROUP && version == 1;
    println!("{equal} of {GROUP} samples have equal log-probs; the weights are version {version}");

    // End: dropping an object ends it.
    if !good {
        eprintln!("3_train_step: the step did not do what was expected");
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

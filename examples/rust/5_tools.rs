//! 5_tools: trains an agent that calls a tool. The model calls it by writing the digit 1 or 2, the
//! tool replies with the other one, and the answer is right when it repeats the tool's digit.
//!
//!     5_tools MODEL        MODEL is a GGUF file or a directory with a tokenizer
//!
//! A sample has two turns of the model: the pipeline reports the first one, the host replies, and
//! the reply's tokens carry no loss. New here: EventKind::Turn, Pipeline::reply, Pipeline::feed.
use std::process::ExitCode;

const STEPS: u64 = 3;
const PROMPTS: u64 = 2;

#[derive(Default)]
struct Told {
    calls: u64, // of the tool
    steps: u64, // done
    logprob_diff: f64,
}

// ---- errors ----

fn fail(error: rl::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

// ---- pieces ----

fn configure(options: &mut rl::Options, path: &str) -> rl::Result<()> {
    options.set("model.path", path)?;
    options.set("pipeline.turns", "stop_string")?;
    options.set("pipeline.max_turns", "2")?;
    options.set("pipeline.prompts_per_step", "2")?;
    options.set("pipeline.samples_per_prompt", "4")?;
    options.set("sampling.stop", "1,2")?;
    options.set("sampling.temperature", "8")?;
    options.set("sampling.max_new_tokens", "8")?;
    options.set("engine.max_model_len", "64")?;
    options.set("optimizer.lr", "1e-3")?;
    options.set("runtime.seed", "7")
}

/// Lets the model write only digits 1 and 2 and letters: calls and answers, and what is neither.
fn allow(options: &mut rl::Options, model: &rl::Model) -> rl::Result<()> {
    let mut list = Vec::new();
    for c in ["1", "2", "a", "b", "c", "d", "e", "f"] {
        list.extend(model.encode(c, rl::TextFlags::default())?.last().map(|id| id.to_string()));
    }
    options.set("sampling.allowed_token_ids", &list.join(","))
}

/// The digits of a text.
fn digits(text: &str) -> Vec<char> {
    text.chars().filter(|c| matches!(c, '1' | '2')).collect()
}

fn feed(pipeline: &rl::Pipeline) -> rl::Result<()> {
    for i in 0..STEPS * PROMPTS {
        pipeline.feed(&format!("{{\"prompt\": \"{i} + 1?\"}}"), None)?;
    }
    pipeline.finish_feed()
}

// ---- events ----

impl Told {
    /// The tool: it replies with the digit that the call does not have.
    fn on_turn(&mut self, pipeline: &rl::Pipeline, event: &rl::Event) -> rl::Result<()> {
        let called = digits(event.view()?.text);
        let reply = if called.first() == Some(&'1') { "2" } else { "1" };
        self.calls += 1;
        pipeline.reply(event.sample()?.sample_id, rl::Answer::Text(reply))
    }

    /// The response has the digits of the call, of the reply and of the answer.
    fn on_score(&self, pipeline: &rl::Pipeline, event: &rl::Event) -> rl::Result<()> {
        let sample = event.sample()?;
        let found = digits(sample.text);
        let right = found.len() > 2 && found[2] == found[1];
        pipeline.score(sample.sample_id, f64::from(u8::from(right)))
    }

    fn on_event(&mut self, pipeline: &rl::Pipeline, event: &rl::Event) -> rl::Result<()> {
        match event.kind() {
            rl::EventKind::Turn => self.on_turn(pipeline, event),
            rl::EventKind::Score => self.on_score(pipeline, event),
            rl::EventKind::Step => {
                self.steps = event.view()?.step;
                self.logprob_diff += event.metric("training/logprob_max_abs_diff")?;
                let reward = event.metric("critic/rewards/mean")?;
                println!("step {}  reward {reward:.3}  calls so far {}", self.steps, self.calls);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

// ---- main ----

fn main() -> ExitCode {
    run().unwrap_or_else(fail)
}

fn run() -> rl::Result<ExitCode> {
    let path = match std::env::args().nth(1) {
        Some(path) => path,
        None => {
            eprintln!("usage: 5_tools MODEL");
            return Ok(ExitCode::from(2));
        }
    };

    // Options and objects.
    let mut options = rl::Options::new()?;
    configure(&mut options, &path)?;
    let runtime = rl::Runtime::new(&options)?;
    let model = rl::Model::open(&runtime, &options, rl::Use::Pipeline)?;
    allow(&mut options, &model)?;
    let pipeline = rl::Pipeline::new(&model, &options)?;
    let before = model.digest()?;
    let mut told = Told::default();

    // Work.
    pipeline.start()?;
    feed(&pipeline)?;
    for event in pipeline.events() {
        told.on_event(&pipeline, &event?)?;
    }
    let after = model.digest()?;

    // Check.
    let good = told.steps == STEPS && told.calls > 0 && told.logprob_diff == 0.0 && after != before;
    println!("{} calls of the tool; weights {after:016x}", told.calls);

    // End: dropping an object ends it.
    if !good {
        eprintln!("5_tools: the run did not do what was expected");
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

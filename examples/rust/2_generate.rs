//! 2_generate: asks a model a question and prints several answers.
//!
//!     2_generate MODEL [QUESTION]        MODEL is a Hugging Face directory or a GGUF file
//!
//! New here: rl::Runtime, Model::open, encode_chat, decode, Engine::submit, run, take, Batch.
use std::process::ExitCode;

const NUM_ANSWERS: usize = 4;

// ---- errors ----

fn fail(error: rl::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

// ---- pieces ----

/// The question as token ids: as a chat when the model has a chat format that librl knows, else as
/// plain text.
fn encode(model: &rl::Model, question: &str) -> rl::Result<Vec<i32>> {
    match model.encode_chat(&[("user", question)], rl::TextFlags::GENERATION_PROMPT) {
        Err(error)
            if matches!(error.status, rl::Status::Unsupported | rl::Status::FailedPrecondition) =>
        {
            println!("(no chat: {})", error.message);
            model.encode(question, rl::TextFlags::default())
        }
        other => other,
    }
}

/// An answer ends where the model ends its turn.
fn stop_at_end_of_turn(options: &mut rl::Options, model: &rl::Model) -> rl::Result<()> {
    let stops: Vec<i64> = model.eos_ids()?.into_iter().take(16).map(i64::from).collect();
    options.set_i64_list("sampling.stop_token_ids", &stops)
}

/// Prints an answer with its mean log-prob. True when the sample is whole.
fn print_answer(model: &rl::Model, sample: &rl::Sample<'_>) -> rl::Result<bool> {
    let count = sample.answer().len();
    let sum: f64 = sample.logprobs.iter().map(|&logprob| f64::from(logprob)).sum();
    let text = model.decode(sample.answer(), rl::TextFlags::SKIP_SPECIAL)?;
    let mean = sum / count as f64;
    println!("response {}, {count} tokens, log-prob {mean:.3} per token: {text}", sample.slot);
    Ok(count > 0 && sum <= 0.0 && sample.finish != rl::Finish::Aborted)
}

// ---- main ----

fn main() -> ExitCode {
    run().unwrap_or_else(fail)
}

fn run() -> rl::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let question = arguments.get(1).map_or("What is 7 + 5? Answer with the number only.", |q| q);
    let path = match arguments.first() {
        Some(path) => path,
        None => {
            eprintln!("usage: 2_generate MODEL [QUESTION]");
            return Ok(ExitCode::from(2));
        }
    };

    // Options and objects.
    let mut options = rl::Options::new()?;
    options.set("model.path", path)?;
    options.set("engine.max_num_seqs", "4")?;
    options.set("sampling.temperature", "0.7")?;
    options.set("sampling.max_new_tokens", "32")?;
    let runtime = rl::Runtime::new(&options)?;
    let model = rl::Model::open(&runtime, &options, rl::Use::Generate)?;
    stop_at_end_of_turn(&mut options, &model)?;
    let engine = rl::Engine::new(&model, &options)?;

    // Work.
    let prompt = encode(&model, question)?;
    engine.submit(&rl::Request::new(&prompt).num_samples(NUM_ANSWERS as u64))?;
    engine.run()?;
    let batch = engine.take()?.into_result()?;
    let mut good = 0;
    for sample in batch.samples()? {
        good += usize::from(print_answer(&model, &sample)?);
    }

    // Check.
    if good != NUM_ANSWERS {
        eprintln!("2_generate: {good} of {NUM_ANSWERS} responses are complete");
    }

    // End: dropping an object ends it, in any order.
    Ok(if good == NUM_ANSWERS { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

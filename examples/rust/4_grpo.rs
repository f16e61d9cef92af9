//! 4_grpo: trains a model by GRPO on questions whose answer is an integer. librl drives the loop,
//! this host rewards: 1 when the last integer of an answer is the one in the row's tag, else 0.
//! Held-out rows are answered greedily before and after. Ctrl-C ends the run with a checkpoint;
//! --resume goes on from the newest one. With --ranks so many ranks share the work, each on a
//! thread of its own, those of parallel.tensor, context and pipeline included; with --launcher this
//! process is one of a run's ranks. New here: rl::Pipeline, Event::sample, Model::save,
//! Runtime::create_rank.
mod launcher;

use launcher::{place_of, Checked, Place};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::raw::c_int;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BAR_WIDTH: u64 = 30;
const EDGE_STEPS: usize = 5;
const MAX_STEPS: u64 = 10000;
const MAX_RANKS: u64 = 64;
const STEP_S: usize = 0; // places in SERIES_NAMES
const REWARD: usize = 1;
const ROLLOUT_RATE: usize = 2;
const TRAIN_RATE: usize = 3;
const SERIES_NAMES: [&str; 4] = [
    "timing_s/step",
    "critic/rewards/mean",
    "perf/rollout_tokens_per_s",
    "perf/train_tokens_per_s",
];

#[derive(Default)]
struct Arguments {
    model: String,
    data: String,
    eval: Option<String>,
    out: String,
    steps: String,
    ranks: Option<String>,
    launcher: Option<String>,
    meeting: Option<String>,
    settings: Vec<String>,
    resume: bool,
}

/// A rank of this process: its pipeline and what that needs.
struct Rank {
    pipeline: rl::Pipeline,
    model: rl::Model,
    runtime: rl::Runtime,
}

struct Run<'a> {
    pipeline: &'a rl::Pipeline,
    leads: bool, // it is rank 0, which has metrics and files
    stopping: bool,
    on_terminal: bool,
    num_evals: usize,
    start: Instant,
    first_step_end_s: Option<f64>,
    eval_before_s: Option<f64>,
    accuracy_before: Option<f64>,
    accuracy_after: Option<f64>,
    logprob_diff: f64,
    series: [Vec<f64>; 4], // of every step of this process
    step: u64,             // steps done
    num_answers: u64,      // answers of a step
    rewarded: u64,         // rewards given in it
}

const USAGE: &str =
    "4_grpo --model M --data D [--eval E] --steps N --out DIR [--set KEY=VALUE]... [--resume] \
     [--ranks N | --launcher torchrun|slurm|mpi|kubernetes|ray [--rendezvous PLACE]]";

// ---- errors ----

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn fail(error: Box<dyn std::error::Error>) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

// ---- pieces ----

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_signal_number: c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn isatty(descriptor: c_int) -> c_int;
}

const SIGINT: c_int = 2;
const STDOUT: c_int = 1;

/// The most memory that the process has held at once.
fn peak_rss_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| 1024.0 * kib)
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut a = Arguments::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--resume" => a.resume = true,
            "--model" => a.model = words.next()?,
            "--data" => a.data = words.next()?,
            "--eval" => a.eval = Some(words.next()?),
            "--out" => a.out = words.next()?,
            "--steps" => a.steps = words.next()?,
            "--ranks" => a.ranks = Some(words.next()?),
            "--launcher" => a.launcher = Some(words.next()?),
            "--rendezvous" => a.meeting = Some(words.next()?),
            "--set" => a.settings.push(words.next()?),
            _ => return None,
        }
    }
    let given = [&a.model, &a.data, &a.out, &a.steps].iter().all(|text| !text.is_empty());
    let fits = a.launcher.as_ref().map_or(a.meeting.is_none(), |_| a.ranks.is_none());
    Some(a).filter(|_| given && fits)
}

/// Sets the options. Returns the number of ranks in --ranks, or 1.
fn configure(options: &mut rl::Options, a: &Arguments) -> rl::Result<u64> {
    let eval = a.eval.as_deref();
    let evals = eval.map_or(String::new(), |_| format!("{}/evals.jsonl", a.out));
    options.set("model.path", &a.model)?;
    options.set("data.path", &a.data)?;
    options.set("eval.path", eval.unwrap_or(""))?;
    options.set("eval.every_steps", eval.map_or("0", |_| &a.steps))?;
    options.set("pipeline.total_steps", &a.steps)?;
    options.set("parallel.data", a.ranks.as_deref().unwrap_or("1"))?;
    let ranks = options.get_u64("parallel.data")?;
    options.set("checkpoint.dir", &format!("{}/checkpoints", a.out))?;
    options.set("checkpoint.resume", if a.resume { "auto" } else { "never" })?;
    options.set("metrics.jsonl", &format!("{}/metrics.jsonl", a.out))?;
    options.set("metrics.eval_jsonl", &evals)?;
    options.set("metrics.samples", &format!("{}/samples.jsonl", a.out))?;
    options.set("metrics.tensorboard", "true")?;
    options.set("profiler.timeline.enable", "true")?;
    options.set("profiler.timeline.dir", &a.out)?;
    a.settings.iter().try_for_each(|setting| options.set_assignment(setting))?;
    Ok(ranks)
}

/// Sets parallel.data so that the axes make so many ranks. The inner error is why they cannot.
fn share_ranks(options: &mut rl::Options, ranks: u64) -> Result<Checked<()>> {
    let axes = "parallel.tensor * parallel.context * parallel.pipeline";
    let sizes = axes.split(" * ").map(|axis| options.get_u64(axis));
    let inner: u64 = sizes.collect::<rl::Result<Vec<_>>>()?.iter().product();
    if ranks % inner != 0 {
        return Ok(Err(format!("{ranks} ranks are not a multiple of {axes} = {inner}")));
    }
    options.set("parallel.data", &(ranks / inner).to_string())?;
    Ok(Ok(()))
}

/// The place of this process, or why it has none. `given` is the number of ranks in --ranks.
fn join_run(options: &mut rl::Options, a: &Arguments, given: u64) -> Result<Checked<Place>> {
    let mut place = Place { rank: 0, ranks: 1, rendezvous: String::new() };
    if let Some(launcher) = &a.launcher {
        place = match place_of(launcher, a.meeting.as_deref()) {
            Ok(place) => place,
            Err(problem) => return Ok(Err(format!("launcher {launcher}: {problem}"))),
        };
    }
    if a.ranks.is_some() || place.ranks > 1 {
        if let Err(problem) = share_ranks(options, given.max(place.ranks))? {
            return Ok(Err(problem));
        }
    }
    if place.ranks > 1 {
        options.set("comm.backend", "gloo")?;
        options.set("comm.rendezvous", &place.rendezvous)?;
        options.set("comm.rank", &place.rank.to_string())?;
    }
    Ok(Ok(place))
}

fn reward_of(text: &str, tag: &str) -> f64 {
    let is_digit = |c: char| c.is_ascii_digit();
    let last = text.rfind(is_digit).map(|end| {
        let start = text[..end].trim_end_matches(is_digit).len();
        let sign = usize::from(text[..start].ends_with('-'));
        &text[start - sign..=end]
    });
    let last: Option<i64> = last.and_then(|number| number.parse().ok());
    f64::from(u8::from(last.is_some() && last == tag.parse().ok()))
}

// ---- events ----

/// Rewards a sample. A step that was given up takes no more rewards.
fn reward(pipeline: &rl::Pipeline, sample: &rl::Sample) -> rl::Result<()> {
    let scored = pipeline.score(sample.sample_id, reward_of(sample.text, sample.tag));
    scored.or_else(|error| match error.status {
        rl::Status::Late => Ok(()),
        _ if INTERRUPTED.load(Ordering::Relaxed) => Ok(()),
        _ => Err(error),
    })
}

impl Rank {
    fn new(runtime: rl::Runtime, options: &rl::Options) -> rl::Result<Self> {
        let model = rl::Model::open(&runtime, options, rl::Use::Pipeline)?;
        let pipeline = rl::Pipeline::new(&model, options)?;
        Ok(Self { pipeline, model, runtime })
    }

    /// All that ranks but the first have to do: the samples that they generate need rewards.
    fn serve(&self) -> rl::Result<()> {
        for event in self.pipeline.events() {
            let event = event?;
            if event.kind() == rl::EventKind::Score {
                reward(&self.pipeline, &event.sample()?)?;
            }
        }
        Ok(())
    }
}

/// A call that ranks make together, each on a thread of its own: what it returns on each.
fn together<T: Send>(
    ranks: &[&Rank],
    call: impl Fn(&Rank) -> rl::Result<T> + Sync,
) -> rl::Result<Vec<T>> {
    let call = &call;
    std::thread::scope(|scope| {
        let calls: Vec<_> = ranks.iter().map(|rank| scope.spawn(move || call(rank))).collect();
        calls.into_iter().map(|each| each.join().expect("a rank panicked")).collect()
    })
}

impl Run<'_> {
    fn on_score(&mut self, event: &rl::Event) -> Result<()> {
        let sample = event.sample()?;
        reward(self.pipeline, &sample)?;
        if sample.purpose != rl::Purpose::Train || !self.on_terminal {
            return Ok(());
        }
        self.rewarded += 1;
        let bar = "#".repeat((self.rewarded * BAR_WIDTH / self.num_answers) as usize);
        let (step, rewarded, of) = (self.step + 1, self.rewarded, self.num_answers);
        print!("\rstep {step} [{bar:<30}] {rewarded}/{of}");
        Ok(())
    }

    fn on_step(&mut self, event: &rl::Event, step: u64) -> Result<()> {
        if self.series[STEP_S].is_empty() {
            let eval_before_s = self.eval_before_s.unwrap_or(0.0);
            self.first_step_end_s = Some(self.start.elapsed().as_secs_f64() - eval_before_s);
        }
        self.rewarded = 0;
        for (series, name) in self.series.iter_mut().zip(SERIES_NAMES) {
            series.push(event.metric(name)?);
        }
        let diff = event.metric("training/logprob_max_abs_diff")?;
        self.logprob_diff = self.logprob_diff.max(diff);
        let last = |k: usize| self.series[k].last().copied().unwrap_or(0.0);
        println!(
            "step {step}  reward {:.3}  {:.2} s  rollout {:.0} tokens/s  train {:.0} tokens/s",
            last(REWARD),
            last(STEP_S),
            last(ROLLOUT_RATE),
            last(TRAIN_RATE)
        );
        Ok(())
    }

    fn on_event(&mut self, event: &rl::Event) -> Result<()> {
        let view = event.view()?;
        if view.kind != rl::EventKind::Score && self.on_terminal {
            print!("\r\x1b[K");
        }
        match view.kind {
            rl::EventKind::Score => self.on_score(event)?,
            rl::EventKind::Step => {
                self.step = view.step;
                if self.leads {
                    self.on_step(event, view.step)?;
                }
            }
            _ => {}
        }
        if !view.text.is_empty() {
            println!("{}", view.text); // a checkpoint's path, why a group ended
        }
        if view.kind == rl::EventKind::Eval {
            if self.num_evals == 0 {
                self.eval_before_s = Some(event.metric("timing_s/eval")?);
                self.accuracy_before = Some(view.value);
            } else {
                self.accuracy_after = Some(view.value);
            }
            self.num_evals += 1;
            println!("held-out accuracy {:.3} of {} questions", view.value, view.count);
        }
        std::io::stdout().flush()?;
        Ok(())
    }

    /// Serves the pipeline until it ends. Ctrl-C gives the current step up.
    fn serve(&mut self) -> Result<()> {
        loop {
            match self.pipeline.next(Some(Duration::from_millis(100)))? {
                rl::Outcome::Ready(event) => self.on_event(&event)?,
                rl::Outcome::Done => break,
                _ => {}
            }
            if INTERRUPTED.load(Ordering::Relaxed) && !self.stopping {
                self.stopping = true;
                self.pipeline.stop(Some(Duration::ZERO))?;
            }
        }
        Ok(())
    }
}

// ---- summary ----

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    (count > 0).then(|| 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Twelve digits of a number, as the other languages' programs have them.
fn number(text: &mut String, key: &str, value: Option<f64>) -> Result<()> {
    match value {
        None => writeln!(text, "  \"{key}\": null,")?,
        Some(v) => writeln!(text, "  \"{key}\": {},", format!("{v:.11e}").parse::<f64>()?)?,
    }
    Ok(())
}

fn write_summary(r: &Run, a: &Arguments, plan: &rl::PlanInfo, end: (u64, u64)) -> Result<()> {
    let rewards = &r.series[REWARD];
    let edge = rewards.len().min(EDGE_STEPS);
    let diff = Some(r.logprob_diff).filter(|_| !rewards.is_empty());
    let mut text = "{\n".to_string();
    number(&mut text, "steps", Some(r.step as f64))?;
    number(&mut text, "step_s_median", median(&r.series[STEP_S]))?;
    number(&mut text, "first_step_end_s", r.first_step_end_s)?;
    number(&mut text, "eval_before_s", r.eval_before_s)?;
    number(&mut text, "accuracy_before", r.accuracy_before)?;
    number(&mut text, "accuracy_after", r.accuracy_after)?;
    number(&mut text, "reward_first", mean(&rewards[..edge]))?;
    number(&mut text, "reward_last", mean(&rewards[rewards.len() - edge..]))?;
    number(&mut text, "rollout_tokens_per_s", median(&r.series[ROLLOUT_RATE]))?;
    number(&mut text, "train_tokens_per_s", median(&r.series[TRAIN_RATE]))?;
    number(&mut text, "logprob_max_abs_diff", diff)?;
    number(&mut text, "peak_rss_bytes", peak_rss_bytes())?;
    number(&mut text, "planned_bytes", Some(plan.total_bytes as f64))?;
    number(&mut text, "wall_s", Some(r.start.elapsed().as_secs_f64()))?;
    number(&mut text, "threads", Some(plan.threads as f64))?;
    let (digest, seed) = end;
    write!(text, "  \"weight_digest\": \"{digest:016x}\",\n  \"seed\": {seed}\n}}\n")?;
    Ok(std::fs::write(format!("{}/summary.json", a.out), text)?)
}

// ---- main ----

/// The objects of the ranks of this process: the first runtime makes the others. None if there are
/// too many.
fn create_ranks(options: &rl::Options, place: &Place) -> Result<Option<Vec<Rank>>> {
    let axes = ["tensor", "context", "pipeline", "data"].map(|axis| format!("parallel.{axis}"));
    let sizes = axes.iter().map(|axis| options.get_u64(axis)).collect::<rl::Result<Vec<_>>>()?;
    let num_ranks = if place.ranks > 1 { 1 } else { sizes.iter().product() };
    if num_ranks > MAX_RANKS {
        return Ok(None);
    }
    let mut ranks = vec![Rank::new(rl::Runtime::new(options)?, options)?];
    for number in 1..num_ranks {
        ranks.push(Rank::new(ranks[0].runtime.create_rank(number as u32)?, options)?);
    }
    Ok(Some(ranks))
}

fn main() -> ExitCode {
    run().unwrap_or_else(fail)
}

fn run() -> Result<ExitCode> {
    let start = Instant::now();
    let a = match parse(std::env::args().skip(1)) {
        Some(a) => a,
        None => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    // SAFETY: the handler only sets a flag.
    unsafe { signal(SIGINT, on_interrupt) };
    std::fs::create_dir_all(&a.out)?;

    // Options and objects.
    let mut options = rl::Options::new()?;
    let given = configure(&mut options, &a)?;
    let place = match join_run(&mut options, &a, given)? {
        Ok(place) => place,
        Err(problem) => {
            eprintln!("4_grpo: {problem}");
            return Ok(ExitCode::from(2));
        }
    };
    let ranks = match create_ranks(&options, &place)? {
        Some(ranks) => ranks,
        None => {
            eprintln!("4_grpo: there are at most {MAX_RANKS} ranks");
            return Ok(ExitCode::from(2));
        }
    };
    let num_parts = options.get_u64("parallel.tensor")?;
    let num_copies = options.get_u64("parallel.context")? * options.get_u64("parallel.data")?;
    let copy_of = |rank: u64| rank / num_parts % num_copies; // the first one is saved
    let is_saver = |(i, _): &(usize, &Rank)| copy_of(place.rank + *i as u64) == 0;
    let savers: Vec<_> = ranks.iter().enumerate().filter(is_saver).map(|(_, rank)| rank).collect();
    let (first, others) = ranks.split_first().expect("there is a rank");
    let stats = first.pipeline.stats()?;
    let plan = first.pipeline.plan()?.info()?;
    let total = options.get_u64("pipeline.total_steps")?;
    if !(1..=MAX_STEPS).contains(&total) {
        eprintln!("4_grpo: --steps must be 1 to 10000");
        return Ok(ExitCode::from(2));
    }
    let samples = options.get_u64("pipeline.samples_per_prompt")?;
    let mut r = Run {
        pipeline: &first.pipeline,
        leads: place.rank == 0,
        stopping: false,
        // SAFETY: any number is a valid argument.
        on_terminal: unsafe { isatty(STDOUT) } != 0,
        num_evals: 0,
        start,
        first_step_end_s: None,
        eval_before_s: None,
        accuracy_before: None,
        accuracy_after: None,
        logprob_diff: 0.0,
        series: Default::default(),
        step: stats.step,
        num_answers: samples * options.get_u64("pipeline.prompts_per_step")?,
        rewarded: 0,
    };

    // Work.
    if a.eval.is_some() && r.leads {
        r.pipeline.evaluate()?;
    }
    for rank in &ranks {
        rank.pipeline.start()?;
    }
    std::thread::scope(|scope| -> Result<()> {
        let calls: Vec<_> = others.iter().map(|rank| scope.spawn(move || rank.serve())).collect();
        r.serve()?; // if ranks fail the first one says why
        calls.into_iter().try_for_each(|each| Ok(each.join().expect("a rank panicked")?))
    })?;
    let missing = r.step < total;
    if r.stopping || missing && place.ranks > 1 {
        // Perhaps another process was stopped.
        let paths = together(&savers, |rank| rank.pipeline.checkpoint(None)?.into_result())?;
        if let Some(path) = paths.first() {
            println!("stopped after step {}: {path}", r.step);
        }
    }
    let directory = format!("{}/model", a.out);
    together(&savers, |rank| rank.model.save(&directory, rl::Dtype::Bf16, true))?;
    let digest = first.model.digest()?;
    if r.leads {
        write_summary(&r, &a, &plan, (digest, options.get_u64("runtime.seed")?))?;
        r.pipeline.write_report(None, format!("{}/report.html", a.out))?;
    } else {
        println!("rank {}: weights {digest:016x}", place.rank);
    }

    // Check.
    let divided = options.get_i64("parallel.context")? > 1;
    let in_ring = divided && options.get_string("parallel.context_kind")? == "ring"; // they differ
    let mut good = (r.stopping || !missing) && (r.logprob_diff == 0.0 || in_ring);
    if !good {
        eprintln!("4_grpo: steps are missing or log-probs differ");
    }
    for (i, rank) in ranks.iter().enumerate() {
        let like = &ranks[i - (copy_of(i as u64) * num_parts) as usize];
        if rank.model.digest()? != like.model.digest()? {
            good = false;
            eprintln!("4_grpo: the weights of ranks differ");
        }
    }

    // End: dropping an object ends it.
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

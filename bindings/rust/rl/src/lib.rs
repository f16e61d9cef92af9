//! librl for Rust hosts: reinforcement-learning post-training of language models.
//!
//! Each object owns one handle of `rl.h` and ends it when dropped; objects keep alive what they
//! were made from, so any order of drops will do. Every failure is an [`Error`] with the fields of
//! the library's; nothing here panics for one. Every object is `Send` and `Sync`, since its
//! functions may be called by every thread. Functions of the host run behind `catch_unwind`: a
//! panic in one is a failed call, and is not carried through the library.
//!
//! Structs can grow: those that a host gives have a function that makes one, and a setter for each
//! field; what the library returns and the numbers of `rl.h` are matched with an arm for the rest.
//!
//! `rl.h` documents what the functions do; the comments here only say what is different in Rust.
//!
//! A training loop, which the library drives and the host rewards:
//!
//! ```no_run
//! # fn main() -> rl::Result<()> {
//! let mut options = rl::Options::new()?;
//! options.set("model.path", "SmolLM2-135M-Instruct.gguf")?;
//! options.set("data.path", "prompts.jsonl")?;
//! options.set("pipeline.total_steps", "100")?;
//! let runtime = rl::Runtime::new(&options)?;
//! let model = rl::Model::open(&runtime, &options, rl::Use::Pipeline)?;
//! let pipeline = rl::Pipeline::new(&model, &options)?;
//! pipeline.start()?;
//! for event in pipeline.events() {
//!     let event = event?;
//!     match event.kind() {
//!         rl::EventKind::Score => {
//!             let sample = event.sample()?;
//!             let right = sample.text.contains(sample.tag);
//!             pipeline.score(sample.sample_id, f64::from(u8::from(right)))?;
//!         }
//!         rl::EventKind::Step => println!("{}", event.metric("critic/rewards/mean")?),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A step of a loop of the host's own:
//!
//! ```no_run
//! # fn main() -> rl::Result<()> {
//! # let options = rl::Options::new()?;
//! # let runtime = rl::Runtime::new(&options)?;
//! let model = rl::Model::open(&runtime, &options, rl::Use::Parts)?;
//! let engine = rl::Engine::new(&model, None)?;
//! let trainer = rl::Trainer::new(&model, None)?;
//! engine.submit(&rl::Request::new(&[1, 2, 3]).num_samples(8).tag("row 1"))?;
//! engine.run()?;
//! let mut batch = engine.take()?.into_result()?;
//! for index in 0..batch.len() {
//!     let length = batch.sample(index)?.answer().len();
//!     batch.set_reward(index, -(length as f64))?;
//! }
//! let step = trainer.step(&batch)?;
//! println!("{:?}", step.metrics()?);
//! # Ok(())
//! # }
//! ```
#[macro_use]
mod handle;
#[macro_use]
mod records;

mod algo;
mod asynchronous;
mod batch;
mod buffer;
mod callbacks;
mod codes;
mod conversation;
mod dlpack;
mod engine;
mod error;
mod event;
mod events;
mod files;
mod forward;
mod host;
mod library;
mod model;
mod option_table;
mod options;
mod pipeline;
mod plan;
mod profiler;
mod runtime;
mod sample;
mod score;
mod store;
mod tensor;
mod text;
mod trainer;

pub use algo::{AlgoLoss, AlgoTokens, Corrections, Kl, Packing, PolicyLoss};
pub use asynchronous::{block_on, AsyncEvents, NextEvent};
pub use batch::Batch;
pub use buffer::{Buffer, BufferFileInfo, BufferStats, Discard, Groups};
pub use callbacks::{LogField, LogLine};
pub use codes::*;
pub use conversation::{Content, Conversation, ConversationInfo, Turn};
pub use dlpack::{Bf16, Dlpack, Element};
pub use engine::{Engine, EngineStats, Request};
pub use error::{Error, ErrorFields, Outcome, Result};
pub use event::{Event, EventQueue, EventView};
pub use events::Events;
pub use files::{FileSystem, InputFile, OutputFile};
pub use forward::Forward;
pub use host::{Allocator, Host};
pub use library::*;
pub use model::{Model, ModelInfo};
pub use option_table::*;
pub use options::Options;
pub use pipeline::{Answer, Pipeline, PipelineStats, Reply};
pub use plan::{Knob, Machine, Plan, PlanInfo, PlanItem, StepTime};
pub use profiler::Profiler;
pub use runtime::{ClockReading, Runtime, Span};
pub use sample::Sample;
pub use score::Score;
pub use store::Store;
pub use tensor::{Place, Stream, Tensor, TensorInfo};
pub use trainer::{Checkpoint, Step, Trainer};

/// The functions of the library on arrays of the host, without a model.
pub mod algorithms {
    pub use crate::algo::{
        advantages, advantages_and_returns, corrections, entropy_loss, kl, pack, policy_loss,
        value_loss, weights,
    };
}

/// The C interface, of which nothing shows: it may change where this package need not.
use rl_sys as sys;

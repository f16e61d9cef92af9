//! librl for Rust hosts: reinforcement-learning post-training of language models.
//!
//! Each object owns one handle of `rl.h` and ends it when dropped; objects keep alive what they
//! were made from, so any order of drops will do. Every failure is an [`Error`] with the fields of
//! the library's; nothing here panics for one. Every object is `Send` and `Sync`, since its
//! functions may be called by every thread. Functions of the host run behind `catch_unwind`: a
//! panic in one is a failed call, and is not carried through the library.
//!
//! `rl.h` documents what the functions do; the comments here only say what is different in Rust.
#[macro_use]
mod handle;

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
mod files;
mod library;
mod model;
mod option_table;
mod options;
mod pipeline;
mod plan;
mod profiler;
mod runtime;
mod sample;
mod tensor;
mod text;
mod trainer;

pub use algo::{AlgoLoss, AlgoTokens, Corrections, Kl, Packing, PolicyLoss};
pub use asynchronous::{block_on, AsyncEvents, NextEvent};
pub use batch::Batch;
pub use buffer::{Buffer, BufferFileInfo, BufferStats, Discard, Groups};
pub use callbacks::{LogField, LogLine};
pub use codes::*;
pub use conversation::{Conversation, ConversationInfo, Prompt};
pub use dlpack::{Bf16, Dlpack, Element};
pub use engine::{Engine, EngineStats, Request};
pub use error::{Error, ErrorFields, Outcome, Result};
pub use event::{Event, EventQueue, EventView};
pub use files::{FileSystem, InputFile, OutputFile};
pub use library::*;
pub use model::{Model, ModelInfo};
pub use option_table::*;
pub use options::Options;
pub use pipeline::{Answer, Events, Pipeline, PipelineStats, Reply};
pub use plan::{Plan, PlanInfo, PlanItem};
pub use profiler::Profiler;
pub use runtime::{ClockReading, Runtime, Span};
pub use sample::Sample;
pub use tensor::{Tensor, TensorInfo};
pub use trainer::{Totals, Trainer};

/// The functions of the library on arrays of the host, without a model.
pub mod algorithms {
    pub use crate::algo::{
        advantages, advantages_and_returns, corrections, entropy_loss, kl, pack, packing,
        policy_loss, value_loss, weights,
    };
}

/// The C interface itself, for what this layer does not offer.
pub use rl_sys as sys;

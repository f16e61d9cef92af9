//! A sample whose tokens come in turn from the model and from an environment.
use crate::options::handle_or_null;
use crate::text::optional;
use crate::{sys, Batch, Engine, Options, Result};

handle!(
    /// Several turns on an engine, which [`Engine::run`] computes.
    Conversation,
    rl_conversation,
    rl_conversation_destroy
);

/// Where a conversation stands, as in `rl.h`.
pub type ConversationInfo = sys::rl_conversation_info;

/// What a conversation begins with.
#[derive(Clone, Debug)]
pub struct Prompt<'a> {
    pub ids: &'a [i32],
    /// For the conversation and its forks, returned unread.
    pub tag: &'a str,
    /// Of its group; None: the library chooses.
    pub ordinal: Option<u64>,
    /// None: the library chooses.
    pub sample_id: Option<u64>,
}

impl<'a> Prompt<'a> {
    pub fn new(ids: &'a [i32]) -> Self {
        Self { ids, tag: "", ordinal: None, sample_id: None }
    }
}

impl Conversation {
    pub fn new(engine: &Engine, prompt: &[i32]) -> Result<Self> {
        Self::start(engine, &Prompt::new(prompt))
    }

    /// Begins with a prompt that says what its sample is called.
    pub fn start(engine: &Engine, prompt: &Prompt<'_>) -> Result<Self> {
        let mut raw = raw_content(prompt.ids);
        (raw.tag, raw.tag_len) = (prompt.tag.as_ptr().cast(), prompt.tag.len());
        raw.ordinal = prompt.ordinal.unwrap_or(u64::MAX);
        raw.sample_id = prompt.sample_id.unwrap_or(0);
        // SAFETY: ids and tag live during the call and are copied.
        unsafe { object_of!(Self, rl_conversation_create(engine.as_ptr(), &raw)) }
    }

    /// Another conversation of the group, with the tokens so far.
    pub fn fork(&self) -> Result<Self> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Self, rl_conversation_fork(self.as_ptr())) }
    }

    /// Adds tokens of the environment.
    pub fn append(&self, ids: &[i32]) -> Result<()> {
        // SAFETY: the ids live during the call and are copied.
        unsafe { call!(rl_conversation_append(self.as_ptr(), &raw_content(ids))) }
    }

    /// Queues a turn of the model; without `sampling` by that of the engine.
    pub fn generate(&self, sampling: Option<&Options>, priority: i64) -> Result<()> {
        // SAFETY: the options are copied.
        unsafe {
            let mut turn = initial!(rl_turn, rl_turn_init);
            turn.sampling = handle_or_null(sampling);
            turn.priority = priority;
            call!(rl_conversation_generate(self.as_ptr(), &turn))
        }
    }

    pub fn info(&self) -> Result<ConversationInfo> {
        let this = self.as_ptr();
        // SAFETY: the handle is this object's.
        unsafe {
            struct_of!(
                rl_conversation_info,
                rl_conversation_info_init,
                rl_conversation_get_info(this)
            )
        }
    }

    /// A copy of the sample so far, as a batch of one.
    pub fn sample(&self) -> Result<Batch> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Batch, rl_conversation_sample(self.as_ptr())) }
    }
}

fn raw_content(ids: &[i32]) -> sys::rl_content {
    // SAFETY: the function writes the struct that it is given.
    let mut raw = unsafe { initial!(rl_content, rl_content_init) };
    raw.ids = optional(ids);
    raw.num_ids = ids.len();
    raw
}

//! A sample whose tokens come in turn from the model and from an environment.
use crate::options::handle_or_null;
use crate::text::optional;
use crate::{sys, Batch, Engine, Finish, Options, Result};

handle!(
    /// Several turns on an engine, which [`Engine::run`] computes.
    ///
    /// ```no_run
    /// # fn talk(engine: &rl::Engine) -> rl::Result<rl::Batch> {
    /// let prompt = rl::Content::new(&[1, 2, 3]).tag("row 1");
    /// let conversation = rl::Conversation::new(engine, prompt)?;
    /// conversation.generate(&rl::Turn::default())?;
    /// engine.run()?;
    /// conversation.append(&[4, 5])?; // what the environment answers
    /// conversation.generate(&rl::Turn::default().priority(1))?;
    /// engine.run()?;
    /// # conversation.sample()
    /// # }
    /// ```
    Conversation,
    rl_conversation,
    rl_conversation_destroy
);

returned!(
    /// Where a conversation stands.
    ConversationInfo = rl_conversation_info {
        /// The same in all turns.
        sample_id: u64,
        /// Of its group: the conversations forked from one another.
        ordinal: u64,
        slot: u32,
        /// A turn is being generated, and the fields below are as before it.
        generating: bool,
        num_ids: u64,
        /// Turns of the model that ended.
        num_turns: u64,
        /// Why the last of these turns ended.
        finish: Finish,
    }
);

given!(
    /// What a conversation is given: its prompt, or what the environment answers, which has ids
    /// alone. A slice, an array and a vector of ids are contents too.
    #[derive(Clone, Debug)]
    Content<'a> {
        ids: &'a [i32],
        /// Of a prompt: for the conversation and its forks, returned unread.
        tag: &'a str,
        /// Of a prompt: of its group; None: the library chooses.
        ordinal: Option<u64>,
        /// Of a prompt; None: the library chooses.
        sample_id: Option<u64>,
    }
);

impl<'a> Content<'a> {
    pub fn new(ids: &'a [i32]) -> Self {
        Self { ids, tag: "", ordinal: None, sample_id: None }
    }

    /// What it points to must live.
    fn to_raw(&self) -> sys::rl_content {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_content, rl_content_init) };
        (raw.ids, raw.num_ids) = (optional(self.ids), self.ids.len());
        // No tag is NULL: an address would be one, if an empty one.
        (raw.tag, raw.tag_len) = (optional(self.tag.as_bytes()).cast(), self.tag.len());
        raw.ordinal = self.ordinal.unwrap_or(u64::MAX);
        raw.sample_id = self.sample_id.unwrap_or(0);
        raw
    }
}

impl<'a> From<&'a [i32]> for Content<'a> {
    fn from(ids: &'a [i32]) -> Self {
        Self::new(ids)
    }
}

impl<'a, const N: usize> From<&'a [i32; N]> for Content<'a> {
    fn from(ids: &'a [i32; N]) -> Self {
        Self::new(ids)
    }
}

impl<'a> From<&'a Vec<i32>> for Content<'a> {
    fn from(ids: &'a Vec<i32>) -> Self {
        Self::new(ids)
    }
}

given!(
    /// How the model generates a turn.
    #[derive(Clone, Debug, Default)]
    Turn<'a> {
        /// `sampling.*` of this turn; None: those of the engine.
        sampling: Option<&'a Options>,
        /// As in a [`crate::Request`].
        priority: i64,
    }
);

impl Conversation {
    /// Begins with a prompt.
    pub fn new<'a>(engine: &Engine, prompt: impl Into<Content<'a>>) -> Result<Self> {
        let prompt = prompt.into();
        // SAFETY: ids and tag live during the call and are copied.
        unsafe { object_of!(Self, rl_conversation_create(engine.as_ptr(), &prompt.to_raw())) }
    }

    /// Another conversation of the group, with the tokens so far.
    pub fn fork(&self) -> Result<Self> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Self, rl_conversation_fork(self.as_ptr())) }
    }

    /// Adds what the environment answers.
    pub fn append<'a>(&self, content: impl Into<Content<'a>>) -> Result<()> {
        let content = content.into();
        // SAFETY: the ids live during the call and are copied.
        unsafe { call!(rl_conversation_append(self.as_ptr(), &content.to_raw())) }
    }

    /// Queues a turn of the model.
    pub fn generate(&self, turn: &Turn<'_>) -> Result<()> {
        // SAFETY: the options are copied.
        unsafe {
            let mut raw = initial!(rl_turn, rl_turn_init);
            raw.sampling = handle_or_null(turn.sampling);
            raw.priority = turn.priority;
            call!(rl_conversation_generate(self.as_ptr(), &raw))
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
        .map(|raw| ConversationInfo::from_raw(&raw))
    }

    /// A copy of the sample so far, as a batch of one.
    pub fn sample(&self) -> Result<Batch> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Batch, rl_conversation_sample(self.as_ptr())) }
    }
}

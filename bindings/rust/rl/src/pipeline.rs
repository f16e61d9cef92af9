//! The training loop on a thread of the library, from which the host takes events.
use crate::callbacks::{boxed, drop_box, on_advantage, on_loss};
use crate::error::outcome;
use crate::events::Source;
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::store::{table, Store};
use crate::text::{optional, path_text, timeout_ns, Bytes};
use crate::{
    sys, AlgoTokens, AsyncEvents, Dtype, Event, EventQueue, Events, Model, Options, Outcome, Plan,
    Profiler, Result, Score, State, Status, TextFlags,
};
use std::path::Path;
use std::ptr;
use std::time::Duration;

handle!(
    /// The loop. Dropping it stops the loop and waits for a training step in progress.
    ///
    /// With `pipeline.turns` the host answers turns of the model:
    ///
    /// ```no_run
    /// # fn tool(call: &str) -> String { call.to_string() }
    /// # fn serve(pipeline: &rl::Pipeline) -> rl::Result<()> {
    /// for event in pipeline.events() {
    ///     let event = event?;
    ///     if event.kind() == rl::EventKind::Turn {
    ///         let (id, view) = (event.sample()?.sample_id, event.view()?);
    ///         pipeline.reply(id, rl::Answer::Text(&tool(view.text)))?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    Pipeline,
    rl_pipeline,
    rl_pipeline_destroy
);

/// What a host answers to a turn of the model.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// Token ids.
    Ids(&'a [i32]),
    /// A text, encoded without special tokens.
    Text(&'a str),
    /// A text, encoded with these flags of [`Model::encode`].
    Encoded(&'a str, TextFlags),
    /// The sample has no further turn, and waits for its reward.
    Finish,
}

given!(
    /// An answer to a turn of a sample.
    #[derive(Clone, Copy, Debug)]
    Reply<'a> {
        sample_id: u64,
        answer: Answer<'a>,
        /// The turn that it answers, the view's `count` of its event; 0: the present one.
        turn: u64,
    }
);

impl<'a> Reply<'a> {
    /// An answer to the present turn.
    pub fn new(sample_id: u64, answer: Answer<'a>) -> Self {
        Self { sample_id, answer, turn: 0 }
    }

    /// What it points to must live.
    fn to_raw(&self) -> sys::rl_reply {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_reply, rl_reply_init) };
        (raw.sample_id, raw.turn) = (self.sample_id, self.turn);
        match self.answer {
            Answer::Ids(ids) => (raw.ids, raw.num_ids) = (optional(ids), ids.len()),
            Answer::Text(text) => (raw.text, raw.text_len) = (text.as_ptr().cast(), text.len()),
            Answer::Encoded(text, flags) => {
                (raw.text, raw.text_len) = (text.as_ptr().cast(), text.len());
                raw.flags = flags.bits();
            }
            Answer::Finish => raw.finish = 1,
        }
        raw
    }
}

returned!(
    /// The accounting of a run; `rl.h` says which sums are equal at any time.
    PipelineStats = rl_pipeline_stats {
        state: State,
        /// Training steps done.
        step: u64,
        /// Version of the weights.
        version: u64,
        /// Samples that wait for a reward from the host.
        unscored: u64,
        attempts_started: u64,
        attempts_trained: u64,
        attempts_discarded: u64,
        attempts_in_flight: u64,
        tokens_generated: u64,
        tokens_trained: u64,
        tokens_discarded: u64,
        tokens_in_flight: u64,
        prompts_drawn: u64,
        prompts_trained: u64,
        prompts_dropped: u64,
        prompts_open: u64,
        /// Refused rewards.
        late_scores: u64,
        duplicate_scores: u64,
        unknown_scores: u64,
        nonfinite_scores: u64,
        /// Rows in the feed now.
        feed_size: u64,
        /// The most rows that it can hold.
        feed_capacity: u64,
        /// Samples that wait for a reply from the host.
        unreplied: u64,
    }
);

impl Pipeline {
    /// Nothing runs before [`Pipeline::start`].
    pub fn new<'a>(model: &Model, options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the handles live during the call, and the library keeps the model alive.
        unsafe { object_of!(Self, rl_pipeline_create(model.as_ptr(), options)) }
    }

    /// One half of a run (`pipeline.role`) over a store of the host.
    pub fn stored<'a>(
        model: &Model,
        options: impl Into<Option<&'a Options>>,
        store: impl Store + 'static,
    ) -> Result<Self> {
        let (options, store) = (handle_or_null(options.into()), table(store));
        // SAFETY: the handles live during the call, the library keeps the model alive, and it takes
        // the store with the struct.
        unsafe { object_of!(Self, rl_pipeline_create_stored(model.as_ptr(), options, &store)) }
    }

    pub fn start(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_start(self.as_ptr())) }
    }

    /// The next event; without a timeout it waits for ever.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Outcome<Event>> {
        let mut event = ptr::null_mut();
        // SAFETY: the handle is this object's.
        let status = unsafe {
            status_of!(rl_pipeline_next(self.as_ptr(), timeout_ns(timeout), &mut event))
        }?;
        Ok(outcome(status, || Event::from_raw(event)))
    }

    /// All events to the end of the loop; waits for each. An interrupt ends it too, and a failure
    /// is the last item.
    pub fn events(&self) -> Events<'_> {
        Events::new(Source::Pipeline(self))
    }

    /// All events as futures, for any executor or [`crate::block_on`].
    pub fn async_events(&self) -> Result<AsyncEvents<'_>> {
        AsyncEvents::of_pipeline(self)
    }

    /// Makes one wait for an event, running or next, end as interrupted.
    pub fn interrupt(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_interrupt(self.as_ptr())) }
    }

    pub fn queue(&self) -> Result<EventQueue> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(EventQueue, rl_pipeline_queue(self.as_ptr())) }
    }

    /// Rewards a sample, in any order, until its deadline.
    pub fn score(&self, sample_id: u64, reward: f64) -> Result<()> {
        self.score_many(&[Score::new(sample_id, reward)]).1
    }

    /// The sample will get no reward: its group is dropped.
    pub fn fail(&self, sample_id: u64, reason: &str) -> Result<()> {
        self.score_many(&[Score::failed(sample_id, reason)]).1
    }

    /// Rewards many samples. All are tried; the status of each, and an error that has those of
    /// several refusals as parts.
    pub fn score_many(&self, scores: &[Score<'_>]) -> (Vec<Status>, Result<()>) {
        let raw: Vec<_> = scores.iter().map(Score::to_raw).collect();
        let mut codes = vec![0; raw.len()];
        let (data, count, results) = (raw.as_ptr(), raw.len(), codes.as_mut_ptr());
        // SAFETY: both arrays have `count` entries, and what they point to lives during the call.
        let result = unsafe { call!(rl_pipeline_score(self.as_ptr(), data, count, results)) };
        (codes.into_iter().map(Status::from_raw).collect(), result)
    }

    /// Answers the present turn of a sample ([`crate::EventKind::Turn`]), in any order, until its
    /// deadline.
    pub fn reply(&self, sample_id: u64, answer: Answer<'_>) -> Result<()> {
        self.reply_many(&[Reply { sample_id, turn: 0, answer }]).1
    }

    /// Answers many turns. All are tried; the status of each, and an error that has those of
    /// several refusals as parts.
    pub fn reply_many(&self, replies: &[Reply<'_>]) -> (Vec<Status>, Result<()>) {
        let raw: Vec<_> = replies.iter().map(Reply::to_raw).collect();
        let mut codes = vec![0; raw.len()];
        let (data, count, results) = (raw.as_ptr(), raw.len(), codes.as_mut_ptr());
        // SAFETY: both arrays have `count` entries, whose ids and texts live during the call.
        let result = unsafe { call!(rl_pipeline_reply(self.as_ptr(), data, count, results)) };
        (codes.into_iter().map(Status::from_raw).collect(), result)
    }

    /// Adds a row, written as a line of the data file. False when the feed was full until the
    /// timeout; without one it waits for ever.
    pub fn feed(&self, row: &str, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_feed_row, rl_feed_row_init) };
        (raw.json, raw.json_len) = (row.as_ptr().cast(), row.len());
        self.feed_raw(&raw, timeout)
    }

    /// Adds a prompt of token ids with a tag, as [`Pipeline::feed`].
    pub fn feed_ids(&self, ids: &[i32], tag: &str, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_feed_row, rl_feed_row_init) };
        (raw.ids, raw.num_ids) = (optional(ids), ids.len());
        (raw.tag, raw.tag_len) = (tag.as_ptr().cast(), tag.len());
        self.feed_raw(&raw, timeout)
    }

    fn feed_raw(&self, row: &sys::rl_feed_row, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: what the row points to lives during the call.
        unsafe { status_of!(rl_pipeline_feed(self.as_ptr(), row, timeout_ns(timeout))) }
            .map(|s| s == Status::Ok)
    }

    /// No more rows.
    pub fn finish_feed(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_finish_feed(self.as_ptr())) }
    }

    pub fn pause(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_pause(self.as_ptr())) }
    }

    pub fn unpause(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_unpause(self.as_ptr())) }
    }

    /// Ends the loop. False when it is still ending after the timeout. Events can still be taken.
    pub fn stop(&self, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: the handle is this object's.
        unsafe { status_of!(rl_pipeline_stop(self.as_ptr(), timeout_ns(timeout))) }
            .map(|s| s == Status::Ok)
    }

    /// A checkpoint at the next step boundary and its directory; a timeout when it was not written
    /// in time.
    pub fn checkpoint(&self, timeout: Option<Duration>) -> Result<Outcome<String>> {
        let mut path = ptr::null_mut();
        let ns = timeout_ns(timeout);
        // SAFETY: the handle is this object's.
        let status = unsafe { status_of!(rl_pipeline_checkpoint(self.as_ptr(), ns, &mut path)) }?;
        Ok(outcome(status, || Bytes::from_raw(path).to_text()))
    }

    /// Writes the critic of `algo.advantage = gae`, as [`Model::save`] the policy.
    pub fn save_critic(&self, dir: impl AsRef<Path>, dtype: Dtype, replace: bool) -> Result<()> {
        let dir = path_text(dir.as_ref())?;
        let (text, len, flags) = (dir.as_ptr().cast(), dir.len(), save_flags(replace));
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_pipeline_save_critic(self.as_ptr(), text, len, dtype.raw(), flags)) }
    }

    /// Asks for an evaluation of `eval.path` at the next step boundary.
    pub fn evaluate(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_evaluate(self.as_ptr())) }
    }

    /// Takes over the values that may change between steps.
    pub fn set_options(&self, options: &Options) -> Result<()> {
        // SAFETY: options are copied.
        unsafe { call!(rl_pipeline_set_options(self.as_ptr(), options.as_ptr())) }
    }

    /// A copy of the options, as `set_options` has changed them.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_pipeline_options(self.as_ptr())) }
    }

    pub fn stats(&self) -> Result<PipelineStats> {
        let pipeline = self.as_ptr();
        // SAFETY: the handle is this object's.
        unsafe {
            struct_of!(rl_pipeline_stats, rl_pipeline_stats_init, rl_pipeline_get_stats(pipeline))
        }
        .map(|raw| PipelineStats::from_raw(&raw))
    }

    /// The memory plan that the pipeline runs by.
    pub fn plan(&self) -> Result<Plan> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Plan, rl_pipeline_plan(self.as_ptr())) }
    }

    /// Whether metrics file and trace were written to their end; for after the loop.
    pub fn close_result(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_pipeline_close_result(self.as_ptr())) }
    }

    /// The checkpoint that the run was resumed from; empty for a fresh one.
    pub fn resumed_from(&self) -> Result<String> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_pipeline_resumed_from(self.as_ptr())) }
            .map(|path| path.to_text())
    }

    /// Advantages by the host, for `algo.advantage = custom`, before the start; called on the
    /// library's thread. It fills an entry for each token; false or a panic fails the step as
    /// [`Status::Cancelled`].
    pub fn set_advantage<F>(&self, function: F) -> Result<()>
    where
        F: FnMut(&AlgoTokens<'_>, &mut [f64]) -> bool + Send + 'static,
    {
        let (function, user_data) = (Some(on_advantage::<F> as _), boxed(function));
        let end = Some(drop_box::<F> as _);
        // SAFETY: F is Send, and the library calls it on one thread at a time and ends it once.
        unsafe { call!(rl_pipeline_set_advantage(self.as_ptr(), function, user_data, end)) }
    }

    /// The policy loss by the host, for `algo.policy_loss = custom`, before the start; called on
    /// the library's thread. It gets the weight of each token, fills the gradient and returns the
    /// loss; with None or a panic the optimizer step is skipped.
    pub fn set_loss<F>(&self, function: F) -> Result<()>
    where
        F: FnMut(&AlgoTokens<'_>, &[f64], &mut [f64]) -> Option<f64> + Send + 'static,
    {
        let (function, user_data) = (Some(on_loss::<F> as _), boxed(function));
        let end = Some(drop_box::<F> as _);
        // SAFETY: as for set_advantage.
        unsafe { call!(rl_pipeline_set_loss(self.as_ptr(), function, user_data, end)) }
    }

    /// What the pipeline did as one HTML file.
    pub fn write_report(&self, profiler: Option<&Profiler>, path: impl AsRef<Path>) -> Result<()> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        let profiler = profiler.map_or(ptr::null_mut(), |p| p.as_ptr());
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_pipeline_write_report(self.as_ptr(), profiler, text, len)) }
    }
}

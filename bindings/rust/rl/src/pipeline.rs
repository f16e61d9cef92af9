//! The training loop on a thread of the library, from which the host takes events.
use crate::batch::{raw_score, with_token_rewards};
use crate::callbacks::{boxed, drop_box, on_advantage, on_loss};
use crate::error::outcome;
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::text::{optional, path_text, timeout_ns, Bytes};
use crate::{
    sys, AlgoTokens, AsyncEvents, Dtype, Event, EventQueue, Model, Options, Outcome, Plan,
    Profiler, Result, Status,
};
use std::path::Path;
use std::ptr;
use std::time::Duration;

handle!(
    /// The loop. Dropping it stops the loop and waits for a training step in progress.
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
    Encoded(&'a str, u64),
    /// The sample has no further turn, and waits for its reward.
    Finish,
}

/// An answer to a turn of a sample, the view's `count` of its event; 0 is the present turn.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub sample_id: u64,
    pub turn: u64,
    pub answer: Answer<'a>,
}

impl Reply<'_> {
    fn to_raw(&self) -> sys::rl_reply {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_reply, rl_reply_init) };
        (raw.sample_id, raw.turn) = (self.sample_id, self.turn);
        match self.answer {
            Answer::Ids(ids) => (raw.ids, raw.num_ids) = (optional(ids), ids.len()),
            Answer::Text(text) => (raw.text, raw.text_len) = (text.as_ptr().cast(), text.len()),
            Answer::Encoded(text, flags) => {
                (raw.text, raw.text_len) = (text.as_ptr().cast(), text.len());
                raw.flags = flags;
            }
            Answer::Finish => raw.finish = 1,
        }
        raw
    }
}

/// The books of a run, as in `rl.h`; [`crate::State::from_raw`] reads `state`.
pub type PipelineStats = sys::rl_pipeline_stats;

impl Pipeline {
    /// Nothing runs before [`Pipeline::start`].
    pub fn new<'a>(model: &Model, options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the handles live during the call, and the library keeps the model alive.
        unsafe { object_of!(Self, rl_pipeline_create(model.as_ptr(), options)) }
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
        Events { pipeline: self, ended: false }
    }

    /// All events as futures, for any executor or [`crate::block_on`].
    pub fn async_events(&self) -> Result<AsyncEvents<'_>> {
        AsyncEvents::new(self)
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

    pub fn score(&self, sample_id: u64, reward: f64) -> Result<()> {
        self.score_parts(sample_id, reward, &[])
    }

    /// The same with kinds of reward beside the reward.
    pub fn score_parts(&self, sample_id: u64, reward: f64, parts: &[f64]) -> Result<()> {
        self.give_scores(&[raw_score(sample_id, reward, parts)]).1
    }

    /// A reward with what each token after the prompt earns in addition.
    pub fn score_tokens(&self, sample_id: u64, reward: f64, token_rewards: &[f64]) -> Result<()> {
        self.give_scores(&[with_token_rewards(raw_score(sample_id, reward, &[]), token_rewards)]).1
    }

    /// Rewards many samples, given as (sample_id, reward). All are tried; the status of each, and
    /// an error that has those of several refusals as parts.
    pub fn score_many(&self, rewards: &[(u64, f64)]) -> (Vec<Status>, Result<()>) {
        let scores: Vec<_> =
            rewards.iter().map(|(id, value)| raw_score(*id, *value, &[])).collect();
        self.give_scores(&scores)
    }

    /// The sample will get no reward: its group is dropped.
    pub fn fail(&self, sample_id: u64, reason: &str) -> Result<()> {
        let mut score = raw_score(sample_id, 0.0, &[]);
        // The address of an empty text is no NULL, which would be a reward.
        (score.failure, score.failure_len) = (reason.as_ptr().cast(), reason.len());
        self.give_scores(&[score]).1
    }

    /// What the entries point to must live.
    fn give_scores(&self, scores: &[sys::rl_score]) -> (Vec<Status>, Result<()>) {
        let mut codes = vec![0; scores.len()];
        let (data, count, results) = (scores.as_ptr(), scores.len(), codes.as_mut_ptr());
        // SAFETY: both arrays have `count` entries.
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

/// Iterator of [`Pipeline::events`].
#[derive(Debug)]
pub struct Events<'a> {
    pipeline: &'a Pipeline,
    ended: bool,
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.pipeline.next(None).map(Outcome::ready).transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

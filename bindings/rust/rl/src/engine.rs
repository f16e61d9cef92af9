//! The engine draws samples on the caller's thread: submit requests, run, take what finished.
use crate::error::outcome;
use crate::options::handle_or_null;
use crate::text::{optional, timeout_ns};
use crate::{sys, Batch, EventQueue, Model, Options, Outcome, Result, Sample, Status};
use std::ptr;
use std::time::Duration;

handle!(
    /// Dropping it ends all its requests.
    Engine,
    rl_engine,
    rl_engine_destroy
);

returned!(
    /// What an engine holds at the end of a period, and counts over that period.
    EngineStats = rl_engine_stats {
        /// Samples now.
        running: u64,
        /// Samples now.
        waiting: u64,
        /// KV blocks now.
        blocks_in_use: u64,
        /// KV blocks now.
        blocks_total: u64,
        /// Rows computed.
        prefill_tokens: u64,
        /// Rows computed.
        decode_tokens: u64,
        forwards: u64,
        /// Samples that ended because logits were not finite.
        nonfinite: u64,
        /// Time of forwards with prefill.
        prefill_ns: i64,
        /// Time of pure decoding.
        decode_ns: i64,
        /// Samples now that run, or ran before a preemption; a drain waits for these.
        started: u64,
        /// Most KV blocks in use at once.
        blocks_peak: u64,
        /// Time with work to do.
        busy_ns: i64,
        generated_tokens: u64,
        /// Samples that started to run for the first time.
        admitted: u64,
        /// Samples that ended.
        finished: u64,
        /// Those of them that were aborted.
        aborted: u64,
        /// Submission to first run: the sum over `admitted`.
        queue_ns: i64,
        longest_queue_ns: i64,
        /// Samples that got their first token.
        first_tokens: u64,
        /// Submission to first token: the sum over `first_tokens`.
        first_token_ns: i64,
        longest_first_token_ns: i64,
        /// Preemptions of samples.
        preemptions: u64,
        /// KV blocks copied to swap space.
        swapped_blocks: u64,
        /// Tokens of samples that started to run.
        looked_up_tokens: u64,
        /// Those of them whose KV was found in the prefix cache.
        cached_tokens: u64,
        /// Generated tokens that came from keys and values of older weights.
        mixed_kv_tokens: u64,
    }
);

given!(
    /// Samples to draw, from [`Request::new`] or [`Request::resume_from`].
    #[derive(Clone, Debug)]
    Request<'a> {
        /// Token ids; empty with `resume`.
        prompt: &'a [i32],
        num_samples: u64,
        /// `sampling.*` of this request; None: those of the engine.
        sampling: Option<&'a Options>,
        priority: i64,
        /// The sample to go on from.
        resume: Option<&'a Sample<'a>>,
        /// For every sample, returned unread.
        tag: &'a str,
        /// Of the samples; None: the library chooses.
        ordinal: Option<u64>,
        /// Of the first sample; None: the library chooses.
        sample_id: Option<u64>,
        /// Of the first sample.
        slot: u32,
    }
);

impl<'a> Request<'a> {
    pub fn new(prompt: &'a [i32]) -> Self {
        Self {
            prompt,
            num_samples: 1,
            sampling: None,
            priority: 0,
            resume: None,
            tag: "",
            ordinal: None,
            sample_id: None,
            slot: 0,
        }
    }

    /// Goes on from a sample that was aborted, or that has tokens of an environment at its end.
    pub fn resume_from(sample: &'a Sample<'a>) -> Self {
        Self { resume: Some(sample), ..Self::new(&[]) }
    }
}

impl Engine {
    pub fn new<'a>(model: &Model, options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the handles live during the call, and the library keeps the model alive.
        unsafe { object_of!(Self, rl_engine_create(model.as_ptr(), options)) }
    }

    /// Sends the engine's events to a queue from now on, with the number `source`; None: nowhere.
    pub fn set_queue(&self, queue: Option<&EventQueue>, source: u64) -> Result<()> {
        let queue = queue.map_or(ptr::null_mut(), |q| q.as_ptr());
        // SAFETY: the handles live during the call, and the library keeps the queue alive.
        unsafe { call!(rl_engine_set_queue(self.as_ptr(), queue, source)) }
    }

    /// A copy of the options that the engine was made with.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_engine_options(self.as_ptr())) }
    }

    /// Queues a request; the sample_id of its first sample.
    pub fn submit(&self, request: &Request<'_>) -> Result<u64> {
        let resume = request.resume.map(Sample::to_raw).transpose()?;
        // SAFETY: the request's arrays live during the call and are copied.
        unsafe {
            let mut raw = initial!(rl_request, rl_request_init);
            raw.prompt = optional(request.prompt);
            raw.num_prompt = request.prompt.len();
            raw.num_samples = request.num_samples;
            raw.sampling = handle_or_null(request.sampling);
            raw.priority = request.priority;
            (raw.tag, raw.tag_len) = (request.tag.as_ptr().cast(), request.tag.len());
            raw.ordinal = request.ordinal.unwrap_or(u64::MAX);
            raw.sample_id = request.sample_id.unwrap_or(0);
            raw.slot = request.slot;
            raw.resume = resume.as_ref().map_or(ptr::null(), |view| view as *const _);
            value_of!(0, rl_engine_submit(self.as_ptr(), &raw))
        }
    }

    /// Computes one forward; idle when there is nothing to do.
    pub fn step(&self) -> Result<Outcome<()>> {
        // SAFETY: the handle is this object's.
        unsafe { status_of!(rl_engine_step(self.as_ptr())) }.map(|s| outcome(s, || ()))
    }

    /// Steps until nothing is left to do; paused when the engine pauses before.
    pub fn run(&self) -> Result<Outcome<()>> {
        // SAFETY: the handle is this object's.
        unsafe { status_of!(rl_engine_run(self.as_ptr())) }.map(|s| outcome(s, || ()))
    }

    pub fn pause(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_engine_pause(self.as_ptr())) }
    }

    pub fn unpause(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_engine_unpause(self.as_ptr())) }
    }

    /// No sample begins any more; steps until those that have begun are finished.
    pub fn drain(&self, timeout: Option<Duration>) -> Result<Outcome<()>> {
        // SAFETY: the handle is this object's.
        unsafe { status_of!(rl_engine_drain(self.as_ptr(), timeout_ns(timeout))) }
            .map(|s| outcome(s, || ()))
    }

    /// The samples that finished since the last call. Would block when none did but requests are
    /// running, idle when none run.
    pub fn take(&self) -> Result<Outcome<Batch>> {
        let mut batch = ptr::null_mut();
        // SAFETY: the handle is this object's.
        let status = unsafe { status_of!(rl_engine_take(self.as_ptr(), &mut batch)) }?;
        Ok(outcome(status, || Batch::from_raw(batch)))
    }

    /// Ends all requests; their samples can be taken.
    pub fn abort(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_engine_abort(self.as_ptr(), 0, ptr::null_mut())) }
    }

    /// Ends the request that the sample belongs to.
    pub fn abort_request(&self, sample_id: u64) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_engine_abort_request(self.as_ptr(), sample_id)) }
    }

    /// Ends all requests but those that were aborted often enough; the number of samples that go
    /// on.
    pub fn abort_sparing(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_engine_abort(self.as_ptr(), sys::RL_ABORT_SPARE)) }
    }

    /// Gives memory back until [`Engine::wake`]: KV pool and workspace at level 1, at 2 the packed
    /// weights too.
    pub fn sleep(&self, level: i32) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_engine_sleep(self.as_ptr(), level)) }
    }

    pub fn wake(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_engine_wake(self.as_ptr())) }
    }

    /// Of all replicas together, since the engine was made.
    pub fn stats(&self) -> Result<EngineStats> {
        self.stats_over(-1, sys::RL_PERIOD_TOTAL).map(|(_, stats)| stats)
    }

    pub fn replica_stats(&self, index: usize) -> Result<EngineStats> {
        self.stats_over(index as i64, sys::RL_PERIOD_TOTAL).map(|(_, stats)| stats)
    }

    /// Of a replica's last interval of `engine.stats_interval_ns`; would block before the first
    /// one ended.
    pub fn interval(&self, index: usize) -> Result<Outcome<EngineStats>> {
        let (status, stats) = self.stats_over(index as i64, sys::RL_PERIOD_INTERVAL)?;
        Ok(outcome(status, || stats))
    }

    fn stats_over(&self, replica: i64, period: i32) -> Result<(Status, EngineStats)> {
        // SAFETY: the handle is this object's.
        unsafe {
            let mut stats = initial!(rl_engine_stats, rl_engine_stats_init);
            let status =
                status_of!(rl_engine_get_stats(self.as_ptr(), replica, period, &mut stats))?;
            Ok((status, EngineStats::from_raw(&stats)))
        }
    }
}

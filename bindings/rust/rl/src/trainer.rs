//! Optimizer steps on a model's weights.
use crate::callbacks::{boxed, drop_box, on_advantage, on_loss};
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::text::{path_text, Bytes};
use crate::{
    sys, AlgoTokens, Batch, Dtype, Event, EventQueue, Forward, Model, Options, Output, Place,
    Result, Tensor,
};
use std::path::Path;
use std::ptr;

handle!(
    /// Trains the model that it was made from.
    ///
    /// A step of several processes, whose gradients the host adds:
    ///
    /// ```no_run
    /// # fn all_reduce(values: &mut [f32]) {}
    /// # fn step(trainer: &mut rl::Trainer, mine: &rl::Batch) -> rl::Result<()> {
    /// trainer.backward(rl::Step::new(mine).total_tokens(4096).total_sequences(64))?;
    /// let mut sum = trainer.gradient("")?.as_slice::<f32>()?.to_vec();
    /// all_reduce(&mut sum);
    /// trainer.set_gradient("", &sum)?;
    /// trainer.apply()?;
    /// trainer.save(&rl::Checkpoint::new("checkpoints").state("row 17").keep_last(3))?;
    /// # Ok(())
    /// # }
    /// ```
    Trainer,
    rl_trainer,
    rl_trainer_destroy
);

given!(
    /// What a training step trains on. A reference to a batch is a step on it too.
    #[derive(Clone, Debug)]
    Step<'a> {
        batch: &'a Batch,
        /// One for each sample; None: they follow from the rewards.
        advantages: Option<&'a [f64]>,
        /// For [`Trainer::backward`] on a part of a batch that several processes share: tokens of
        /// the whole batch that carry loss; 0: there is no larger batch.
        total_tokens: u64,
        /// Samples of the whole batch with such tokens.
        total_sequences: u64,
    }
);

impl<'a> Step<'a> {
    pub fn new(batch: &'a Batch) -> Self {
        Self { batch, advantages: None, total_tokens: 0, total_sequences: 0 }
    }

    /// What the step points to must live.
    fn to_raw(&self) -> sys::rl_step {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_step, rl_step_init) };
        raw.batch = self.batch.as_ptr();
        raw.advantages = self.advantages.map_or(ptr::null(), <[f64]>::as_ptr);
        raw.num_advantages = self.advantages.map_or(0, <[f64]>::len);
        (raw.total_tokens, raw.total_sequences) = (self.total_tokens, self.total_sequences);
        raw
    }
}

impl<'a> From<&'a Batch> for Step<'a> {
    fn from(batch: &'a Batch) -> Self {
        Self::new(batch)
    }
}

given!(
    /// Where a trainer is saved, and with what.
    #[derive(Clone, Debug)]
    Checkpoint<'a> {
        /// The directory of the checkpoints, each of which has one of its own in it.
        dir: &'a Path,
        /// A text of the host, which [`Trainer::load`] returns.
        state: &'a str,
        /// So many of the newest stay; 0: all.
        keep_last: u64,
        /// One of as many steps may be replaced, and later ones are set aside.
        replace: bool,
    }
);

impl<'a> Checkpoint<'a> {
    pub fn new<P: AsRef<Path> + ?Sized>(dir: &'a P) -> Self {
        Self { dir: dir.as_ref(), state: "", keep_last: 0, replace: false }
    }
}

impl Trainer {
    pub fn new<'a>(model: &Model, options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the handles live during the call, and the library keeps the model alive.
        unsafe { object_of!(Self, rl_trainer_create(model.as_ptr(), options)) }
    }

    /// One training step; its event has the metrics.
    pub fn step<'a>(&self, step: impl Into<Step<'a>>) -> Result<Event> {
        let step = step.into();
        // SAFETY: batch and advantages live during the call.
        unsafe { object_of!(Event, rl_trainer_step(self.as_ptr(), &step.to_raw())) }
    }

    /// The gradients of an optimizer step on a batch, which is all or a part of one; `apply` makes
    /// the step.
    pub fn backward<'a>(&self, step: impl Into<Step<'a>>) -> Result<()> {
        let step = step.into();
        // SAFETY: batch and advantages live during the call.
        unsafe { call!(rl_trainer_backward(self.as_ptr(), &step.to_raw())) }
    }

    /// The gradient of a weight by name, or of all in one row with an empty name: its values of
    /// now.
    pub fn gradient(&self, name: &str) -> Result<Tensor> {
        self.gradient_in(Place::HOST, name)
    }

    /// The same in the memory of a place.
    pub fn gradient_in(&self, place: Place, name: &str) -> Result<Tensor> {
        self.gradient_tensor(place, name, sys::RL_TENSOR_COPY)
    }

    /// A gradient where the trainer computes it, which may be written to until `apply`.
    ///
    /// # Safety
    /// While a slice of the tensor lives or something writes to it, no other call of the trainer
    /// runs.
    pub unsafe fn lend_gradient(&self, name: &str) -> Result<Tensor> {
        self.lend_gradient_in(Place::HOST, name)
    }

    /// The same in the memory of a place: a runtime on a GPU computes in the GPU's, and in the
    /// host's it is a copy, which `apply` reads back.
    ///
    /// # Safety
    /// As for [`Trainer::lend_gradient`], also for what another library makes of the tensor.
    pub unsafe fn lend_gradient_in(&self, place: Place, name: &str) -> Result<Tensor> {
        self.gradient_tensor(place, name, 0)
    }

    /// Sets the gradient of a weight, or of all, to values such as their sum over processes.
    pub fn set_gradient(&mut self, name: &str, values: &[f32]) -> Result<()> {
        let tensor = self.gradient_tensor(Place::HOST, name, 0)?;
        // SAFETY: the borrow is the only one of the trainer, so no call of it runs.
        unsafe { tensor.fill(values) }
    }

    fn gradient_tensor(&self, place: Place, name: &str, flags: u64) -> Result<Tensor> {
        let (text, len, request) = (name.as_ptr().cast(), name.len(), place.request(flags));
        // SAFETY: name and request live during the call.
        unsafe { object_of!(Tensor, rl_trainer_gradient(self.as_ptr(), text, len, &request)) }
    }

    /// Makes the optimizer step with the gradients as they are now; its event has the metrics.
    pub fn apply(&self) -> Result<Event> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Event, rl_trainer_apply(self.as_ptr())) }
    }

    /// Ends the step or backward of another thread with its micro-batch: that call is
    /// [`Status::Cancelled`](crate::Status::Cancelled).
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_trainer_cancel(self.as_ptr())) }
    }

    /// Takes over the values that may change between steps.
    pub fn set_options(&self, options: &Options) -> Result<()> {
        // SAFETY: options are copied.
        unsafe { call!(rl_trainer_set_options(self.as_ptr(), options.as_ptr())) }
    }

    /// A copy of the options, as `set_options` has changed them.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_trainer_options(self.as_ptr())) }
    }

    /// Sends the trainer's events to a queue from now on, with the number `source`; None: nowhere.
    /// Steps with their metrics, publications and checkpoints are told.
    pub fn set_queue(&self, queue: Option<&EventQueue>, source: u64) -> Result<()> {
        let queue = queue.map_or(ptr::null_mut(), |q| q.as_ptr());
        // SAFETY: the handles live during the call, and the library keeps the queue alive.
        unsafe { call!(rl_trainer_set_queue(self.as_ptr(), queue, source)) }
    }

    /// Writes a checkpoint; its own directory.
    pub fn save(&self, checkpoint: &Checkpoint<'_>) -> Result<String> {
        let (dir, state) = (path_text(checkpoint.dir)?, checkpoint.state);
        // SAFETY: the texts live during the call.
        unsafe {
            let mut to = initial!(rl_checkpoint, rl_checkpoint_init);
            (to.dir, to.dir_len) = (dir.as_ptr().cast(), dir.len());
            (to.state, to.state_len) = (state.as_ptr().cast(), state.len());
            (to.keep_last, to.flags) = (checkpoint.keep_last, save_flags(checkpoint.replace));
            object_of!(Bytes, rl_trainer_save(self.as_ptr(), &to)).map(|path| path.to_text())
        }
    }

    /// Goes on from a checkpoint, or from the newest one of a directory of them; the host's text.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe { object_of!(Bytes, rl_trainer_load(self.as_ptr(), text, len)) }
            .map(|state| state.to_text())
    }

    /// An output of a forward under the weights of the last step.
    pub fn forward(&self, input: &Forward<'_>) -> Result<Tensor> {
        // SAFETY: what the input points to lives during the call.
        unsafe { object_of!(Tensor, rl_trainer_forward(self.as_ptr(), &input.to_raw())) }
    }

    /// Log-probs of `ids[num_prompt..]`.
    pub fn logprobs(&self, ids: &[i32], num_prompt: usize, temperature: f32) -> Result<Vec<f32>> {
        let input = Forward::of_ids(Output::Logprobs, ids);
        self.floats(&input.num_prompt(num_prompt).temperature(temperature))
    }

    /// Those of every token after the prompts of a batch, one sample after the other.
    pub fn batch_logprobs(&self, batch: &Batch) -> Result<Vec<f32>> {
        self.floats(&Forward::of_batch(Output::Logprobs, batch))
    }

    /// Hidden states of a sequence, a row for each id.
    pub fn hidden(&self, ids: &[i32]) -> Result<Tensor> {
        self.forward(&Forward::of_ids(Output::Hidden, ids))
    }

    /// The score of each sample, with `algo.objective = reward_model`.
    pub fn scores(&self, batch: &Batch) -> Result<Vec<f32>> {
        self.floats(&Forward::of_batch(Output::Scores, batch))
    }

    fn floats(&self, input: &Forward<'_>) -> Result<Vec<f32>> {
        self.forward(input)?.as_slice().map(<[f32]>::to_vec)
    }

    /// Writes the critic of `algo.advantage = gae`, as [`Model::save`] the policy.
    pub fn save_critic(&self, dir: impl AsRef<Path>, dtype: Dtype, replace: bool) -> Result<()> {
        let dir = path_text(dir.as_ref())?;
        let (text, len, flags) = (dir.as_ptr().cast(), dir.len(), save_flags(replace));
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_trainer_save_critic(self.as_ptr(), text, len, dtype.raw(), flags)) }
    }

    /// Engines read the weights of the last step from now on; their version.
    pub fn publish(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_trainer_publish(self.as_ptr())) }
    }

    /// Gives memory back between steps until [`Trainer::wake`]: optimizer states, averages and held
    /// gradients move to the host's memory.
    pub fn sleep(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_trainer_sleep(self.as_ptr())) }
    }

    /// Everything is where it was, bit for bit.
    pub fn wake(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_trainer_wake(self.as_ptr())) }
    }

    /// Advantages by the host, for `algo.advantage = custom`, from the next step on; called by the
    /// thread that steps. It fills an entry for each token; false or a panic fails the step as
    /// [`Status::Cancelled`](crate::Status::Cancelled).
    pub fn set_advantage<F>(&self, function: F) -> Result<()>
    where
        F: FnMut(&AlgoTokens<'_>, &mut [f64]) -> bool + Send + 'static,
    {
        let (function, user_data) = (Some(on_advantage::<F> as _), boxed(function));
        let end = Some(drop_box::<F> as _);
        // SAFETY: F is Send, and the library calls it on one thread at a time and ends it once.
        unsafe { call!(rl_trainer_set_advantage(self.as_ptr(), function, user_data, end)) }
    }

    /// The policy loss by the host, for `algo.policy_loss = custom`, from the next step on. It gets
    /// the weight of each token, fills the gradient and returns the loss; with None or a panic the
    /// optimizer step is skipped.
    pub fn set_loss<F>(&self, function: F) -> Result<()>
    where
        F: FnMut(&AlgoTokens<'_>, &[f64], &mut [f64]) -> Option<f64> + Send + 'static,
    {
        let (function, user_data) = (Some(on_loss::<F> as _), boxed(function));
        let end = Some(drop_box::<F> as _);
        // SAFETY: as for set_advantage.
        unsafe { call!(rl_trainer_set_loss(self.as_ptr(), function, user_data, end)) }
    }
}

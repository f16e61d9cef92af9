//! Optimizer steps on a model's weights.
use crate::callbacks::{boxed, drop_box, on_advantage, on_loss};
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::text::{optional, path_text, Bytes};
use crate::{
    sys, AlgoTokens, Batch, Dtype, Event, EventQueue, Model, Options, Output, Result, Tensor,
};
use std::path::Path;
use std::ptr;

handle!(
    /// Trains the model that it was made from.
    Trainer,
    rl_trainer,
    rl_trainer_destroy
);

impl Trainer {
    pub fn new<'a>(model: &Model, options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the handles live during the call, and the library keeps the model alive.
        unsafe { object_of!(Self, rl_trainer_create(model.as_ptr(), options)) }
    }

    /// One training step; its event has the metrics. Advantages, one per sample, follow from the
    /// rewards unless given.
    pub fn step(&self, batch: &Batch, advantages: Option<&[f64]>) -> Result<Event> {
        let step = raw_step(batch, advantages, Totals::default());
        // SAFETY: batch and advantages live during the call.
        unsafe { object_of!(Event, rl_trainer_step(self.as_ptr(), &step)) }
    }

    /// The gradients of an optimizer step on a batch, which is all or a part of one; `apply` makes
    /// the step.
    pub fn backward(&self, batch: &Batch, advantages: Option<&[f64]>, whole: Totals) -> Result<()> {
        let step = raw_step(batch, advantages, whole);
        // SAFETY: batch and advantages live during the call.
        unsafe { call!(rl_trainer_backward(self.as_ptr(), &step)) }
    }

    /// The gradient of a weight by name, or of all in one row with an empty name: its values of
    /// now.
    pub fn gradient(&self, name: &str) -> Result<Tensor> {
        self.gradient_tensor(name, sys::RL_TENSOR_COPY)
    }

    /// A gradient where the trainer computes it, which may be written to until `apply`.
    ///
    /// # Safety
    /// While a slice of the tensor lives or something writes to it, no other call of the trainer
    /// runs.
    pub unsafe fn lend_gradient(&self, name: &str) -> Result<Tensor> {
        self.gradient_tensor(name, 0)
    }

    /// Sets the gradient of a weight, or of all, to values such as their sum over processes.
    pub fn set_gradient(&mut self, name: &str, values: &[f32]) -> Result<()> {
        let tensor = self.gradient_tensor(name, 0)?;
        // SAFETY: the borrow is the only one of the trainer, so no call of it runs.
        unsafe { tensor.fill(values) }
    }

    fn gradient_tensor(&self, name: &str, flags: u64) -> Result<Tensor> {
        let (text, len) = (name.as_ptr().cast(), name.len());
        // SAFETY: the name lives during the call.
        unsafe {
            let mut request = initial!(rl_tensor_request, rl_tensor_request_init);
            request.flags = flags;
            object_of!(Tensor, rl_trainer_gradient(self.as_ptr(), text, len, &request))
        }
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

    /// Writes a checkpoint with a text of the host to a directory of them, of which the newest
    /// `keep_last` stay (0: all); its own directory.
    pub fn save(
        &self,
        dir: impl AsRef<Path>,
        state: &str,
        keep_last: u64,
        replace: bool,
    ) -> Result<String> {
        let dir = path_text(dir.as_ref())?;
        // SAFETY: the texts live during the call.
        unsafe {
            let mut to = initial!(rl_checkpoint, rl_checkpoint_init);
            (to.dir, to.dir_len) = (dir.as_ptr().cast(), dir.len());
            (to.state, to.state_len) = (state.as_ptr().cast(), state.len());
            (to.keep_last, to.flags) = (keep_last, save_flags(replace));
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

    /// An output of the samples of a batch under the weights of the last step: of hidden states and
    /// logits the rows, which count the ids of all samples, or all of them.
    pub fn forward_batch(
        &self,
        output: Output,
        batch: &Batch,
        rows: Option<&[u64]>,
    ) -> Result<Tensor> {
        self.forward(&batch_forward(output, batch, rows))
    }

    /// Log-probs of `ids[num_prompt..]` under the weights of the last step.
    pub fn logprobs(&self, ids: &[i32], num_prompt: usize, temperature: f32) -> Result<Vec<f32>> {
        let mut input = raw_forward(sys::RL_OUTPUT_LOGPROBS, ids);
        input.num_prompt = num_prompt;
        input.temperature = temperature;
        self.floats(&input)
    }

    /// Those of every token after the prompts of a batch, one sample after the other.
    pub fn batch_logprobs(&self, batch: &Batch) -> Result<Vec<f32>> {
        let mut input = raw_forward(sys::RL_OUTPUT_LOGPROBS, &[]);
        input.batch = batch.as_ptr();
        self.floats(&input)
    }

    /// Hidden states of a sequence under the weights of the last step, a row for each id.
    pub fn hidden(&self, ids: &[i32]) -> Result<Tensor> {
        self.forward(&raw_forward(sys::RL_OUTPUT_HIDDEN, ids))
    }

    /// The score of each sample, with `algo.objective = reward_model`.
    pub fn scores(&self, batch: &Batch) -> Result<Vec<f32>> {
        let mut input = raw_forward(sys::RL_OUTPUT_SCORES, &[]);
        input.batch = batch.as_ptr();
        self.floats(&input)
    }

    fn floats(&self, input: &sys::rl_forward) -> Result<Vec<f32>> {
        self.forward(input)?.as_slice().map(<[f32]>::to_vec)
    }

    /// What the input points to must live.
    fn forward(&self, input: &sys::rl_forward) -> Result<Tensor> {
        // SAFETY: the handles are those of objects that live during the call.
        unsafe { object_of!(Tensor, rl_trainer_forward(self.as_ptr(), input)) }
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

    /// Advantages by the host, for `algo.advantage = custom`, from the next step on; called by the
    /// thread that steps. It fills an entry for each token; false or a panic fails the step as
    /// [`Status::Cancelled`].
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

/// The counts of a batch that several processes share; zeros: there is no larger batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tokens that carry loss.
    pub tokens: u64,
    /// Samples with such tokens.
    pub sequences: u64,
}

/// What the step points to must live.
fn raw_step(batch: &Batch, advantages: Option<&[f64]>, whole: Totals) -> sys::rl_step {
    // SAFETY: the function writes the struct that it is given.
    let mut step = unsafe { initial!(rl_step, rl_step_init) };
    step.batch = batch.as_ptr();
    step.advantages = advantages.map_or(ptr::null(), <[f64]>::as_ptr);
    step.num_advantages = advantages.map_or(0, <[f64]>::len);
    step.total_tokens = whole.tokens;
    step.total_sequences = whole.sequences;
    step
}

/// What the input points to must live.
pub(crate) fn batch_forward(
    output: Output,
    batch: &Batch,
    rows: Option<&[u64]>,
) -> sys::rl_forward {
    let mut input = raw_forward(output.raw(), &[]);
    input.batch = batch.as_ptr();
    input.rows = rows.map_or(ptr::null(), <[u64]>::as_ptr);
    input.num_rows = rows.map_or(0, <[u64]>::len);
    input
}

fn raw_forward(output: i32, ids: &[i32]) -> sys::rl_forward {
    // SAFETY: the function writes the struct that it is given.
    let mut raw = unsafe { initial!(rl_forward, rl_forward_init) };
    raw.output = output;
    raw.ids = optional(ids);
    raw.num_ids = ids.len();
    raw
}

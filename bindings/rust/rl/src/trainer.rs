//! Optimizer steps on a model's weights.
use crate::callbacks::{boxed, drop_box, on_advantage, on_loss};
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::text::{optional, path_text};
use crate::{sys, AlgoTokens, Batch, Dtype, Event, Model, Options, Result, Tensor};
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
        // SAFETY: batch and advantages live during the call.
        unsafe {
            let mut step = initial!(rl_step, rl_step_init);
            step.batch = batch.as_ptr();
            step.advantages = advantages.map_or(ptr::null(), <[f64]>::as_ptr);
            step.num_advantages = advantages.map_or(0, <[f64]>::len);
            object_of!(Event, rl_trainer_step(self.as_ptr(), &step))
        }
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

fn raw_forward(output: i32, ids: &[i32]) -> sys::rl_forward {
    // SAFETY: the function writes the struct that it is given.
    let mut raw = unsafe { initial!(rl_forward, rl_forward_init) };
    raw.output = output;
    raw.ids = optional(ids);
    raw.num_ids = ids.len();
    raw
}

//! Samples: a prompt and the tokens generated after it, as a view of an event or a batch, and as
//! what a host gives.
use crate::text::{counted, optional, same_length, slice};
use crate::{sys, Error, Finish, Purpose, Result, Status};
use std::ptr;

given!(
    /// A sample. Of a result, the arrays are the event's or batch's; arrays that it does not have
    /// are empty. For one that the host gives, start from `Sample::new` and leave empty what is
    /// optional in `rl.h`.
    #[derive(Clone, Debug, PartialEq)]
    Sample<'a> {
        sample_id: u64,
        ordinal: u64,
        slot: u32,
        attempt: u32,
        data_row: Option<i64>,
        purpose: Purpose,
        finish: Finish,
        /// The prompt and behind it the answer.
        ids: &'a [i32],
        num_prompt: usize,
        /// These and the other arrays have an entry for each token of the answer.
        logprobs: &'a [f32],
        logprobs_sampled: &'a [f32],
        versions: &'a [u64],
        loss_mask: &'a [u8],
        mixed_kv: &'a [u8],
        reward: Option<f64>,
        reward_parts: &'a [f64],
        /// What each token of the answer earns in addition to the reward.
        token_rewards: &'a [f64],
        /// One for each token of the prompt, or none (`sampling.prompt_logprobs`).
        prompt_logprobs: &'a [f32],
        temperature: f32,
        tag: &'a str,
        prompt_text: &'a str,
        text: &'a str,
        submitted_ns: i64,
        first_token_ns: i64,
        finished_ns: i64,
        admitted_ns: i64,
        /// Most probable ids kept of each token: `top_ids` and `top_logprobs` have so many of
        /// each.
        num_top: usize,
        top_ids: &'a [i32],
        top_logprobs: &'a [f32],
        num_aborts: u32,
        preemptions: u32,
    }
);

impl<'a> Sample<'a> {
    /// A sample to give: a prompt of `num_prompt` ids and the answer behind it.
    pub fn new(ids: &'a [i32], num_prompt: usize) -> Self {
        Self {
            sample_id: 0,
            ordinal: 0,
            slot: 0,
            attempt: 0,
            data_row: None,
            purpose: Purpose::Train,
            finish: Finish::None,
            ids,
            num_prompt,
            logprobs: &[],
            logprobs_sampled: &[],
            versions: &[],
            loss_mask: &[],
            mixed_kv: &[],
            reward: None,
            reward_parts: &[],
            token_rewards: &[],
            prompt_logprobs: &[],
            temperature: 1.0,
            tag: "",
            prompt_text: "",
            text: "",
            submitted_ns: 0,
            first_token_ns: 0,
            finished_ns: 0,
            admitted_ns: 0,
            num_top: 0,
            top_ids: &[],
            top_logprobs: &[],
            num_aborts: 0,
            preemptions: 0,
        }
    }

    pub fn prompt(&self) -> &'a [i32] {
        &self.ids[..self.num_prompt.min(self.ids.len())]
    }

    pub fn answer(&self) -> &'a [i32] {
        &self.ids[self.num_prompt.min(self.ids.len())..]
    }

    /// # Safety
    /// The library filled `v`, and the owner of its pointers lives and stays for `'a`.
    pub(crate) unsafe fn from_raw(v: &sys::rl_sample_view) -> Result<Sample<'a>> {
        let generated = v.num_ids.saturating_sub(v.num_prompt);
        let per_top = generated * v.num_top;
        Ok(Sample {
            sample_id: v.sample_id,
            ordinal: v.ordinal,
            slot: v.slot,
            attempt: v.attempt,
            data_row: Some(v.data_row).filter(|row| *row >= 0),
            purpose: Purpose::from_raw(v.purpose),
            finish: Finish::from_raw(v.finish),
            ids: slice(v.ids, v.num_ids),
            num_prompt: v.num_prompt,
            logprobs: slice(v.logprobs, generated),
            logprobs_sampled: slice(v.logprobs_sampled, generated),
            versions: slice(v.versions, generated),
            loss_mask: slice(v.loss_mask, generated),
            mixed_kv: slice(v.mixed_kv, generated),
            reward: Some(v.reward).filter(|_| v.scored != 0),
            reward_parts: slice(v.reward_parts, v.num_reward_parts),
            token_rewards: slice(v.token_rewards, generated),
            prompt_logprobs: slice(v.prompt_logprobs, v.num_prompt),
            temperature: v.temperature,
            tag: counted(v.tag, v.tag_len, "tag")?,
            prompt_text: counted(v.prompt_text, v.prompt_text_len, "prompt_text")?,
            text: counted(v.text, v.text_len, "text")?,
            submitted_ns: v.submitted_ns,
            first_token_ns: v.first_token_ns,
            finished_ns: v.finished_ns,
            admitted_ns: v.admitted_ns,
            num_top: v.num_top,
            top_ids: slice(v.top_ids, per_top),
            top_logprobs: slice(v.top_logprobs, per_top),
            num_aborts: v.num_aborts,
            preemptions: v.preemptions,
        })
    }

    /// The view that the library takes, whose pointers are this sample's. Lengths are checked here,
    /// since the library cannot see them.
    pub(crate) fn to_raw(&self) -> Result<sys::rl_sample_view> {
        if self.num_prompt > self.ids.len() {
            let text =
                format!("num_prompt {} is beyond the {} ids", self.num_prompt, self.ids.len());
            return Err(Error::of_host(Status::OutOfRange, "num_prompt", &text));
        }
        let generated = self.ids.len() - self.num_prompt;
        same_length("logprobs", self.logprobs.len(), generated)?;
        same_length("logprobs_sampled", self.logprobs_sampled.len(), generated)?;
        same_length("versions", self.versions.len(), generated)?;
        same_length("loss_mask", self.loss_mask.len(), generated)?;
        same_length("mixed_kv", self.mixed_kv.len(), generated)?;
        same_length("token_rewards", self.token_rewards.len(), generated)?;
        same_length("prompt_logprobs", self.prompt_logprobs.len(), self.num_prompt)?;
        let per_top = generated.saturating_mul(self.num_top);
        let tops = [("top_ids", self.top_ids.len()), ("top_logprobs", self.top_logprobs.len())];
        for (what, len) in tops {
            if len != per_top {
                let text = format!("{what} has {len} entries, expected {per_top}");
                return Err(Error::of_host(Status::InvalidArgument, what, &text));
            }
        }
        Ok(self.to_checked_raw())
    }

    fn to_checked_raw(&self) -> sys::rl_sample_view {
        // SAFETY: the function writes the struct that it is given.
        let mut v = unsafe { initial!(rl_sample_view, rl_sample_view_init) };
        v.sample_id = self.sample_id;
        v.ordinal = self.ordinal;
        v.slot = self.slot;
        v.attempt = self.attempt;
        v.data_row = self.data_row.unwrap_or(-1);
        v.purpose = self.purpose.raw();
        v.finish = self.finish.raw();
        v.ids = self.ids.as_ptr();
        v.num_ids = self.ids.len();
        v.num_prompt = self.num_prompt;
        v.logprobs = optional(self.logprobs);
        v.logprobs_sampled = optional(self.logprobs_sampled);
        v.versions = optional(self.versions);
        v.loss_mask = optional(self.loss_mask);
        v.mixed_kv = optional(self.mixed_kv);
        v.reward = self.reward.unwrap_or(0.0);
        v.scored = u32::from(self.reward.is_some());
        v.reward_parts = optional(self.reward_parts);
        v.num_reward_parts = self.reward_parts.len();
        v.token_rewards = optional(self.token_rewards);
        v.prompt_logprobs = optional(self.prompt_logprobs);
        v.temperature = self.temperature;
        v.tag = if self.tag.is_empty() { ptr::null() } else { self.tag.as_ptr().cast() };
        v.tag_len = self.tag.len();
        v.submitted_ns = self.submitted_ns;
        v.first_token_ns = self.first_token_ns;
        v.finished_ns = self.finished_ns;
        v.admitted_ns = self.admitted_ns;
        v.num_top = self.num_top;
        v.top_ids = optional(self.top_ids);
        v.top_logprobs = optional(self.top_logprobs);
        v.num_aborts = self.num_aborts;
        v.preemptions = self.preemptions;
        v
    }
}

//! What a host says of a sample.
use crate::sys;
use crate::text::optional;

given!(
    /// The reward of a sample, or why it gets none.
    #[derive(Clone, Debug)]
    Score<'a> {
        /// Of [`crate::Batch::score`]: that of its sample, or 0.
        sample_id: u64,
        reward: f64,
        /// Kinds of reward beside the reward.
        parts: &'a [f64],
        /// What each token after the prompt earns in addition.
        token_rewards: &'a [f64],
        /// Why the sample gets no reward; no reward is read then.
        failure: Option<&'a str>,
    }
);

impl<'a> Score<'a> {
    /// A reward.
    pub fn new(sample_id: u64, reward: f64) -> Self {
        Self { sample_id, reward, parts: &[], token_rewards: &[], failure: None }
    }

    /// The sample gets no reward, and its group is dropped.
    pub fn failed(sample_id: u64, reason: &'a str) -> Self {
        Self { failure: Some(reason), ..Self::new(sample_id, 0.0) }
    }

    /// What it points to must live.
    pub(crate) fn to_raw(&self) -> sys::rl_score {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_score, rl_score_init) };
        (raw.sample_id, raw.reward) = (self.sample_id, self.reward);
        (raw.parts, raw.num_parts) = (optional(self.parts), self.parts.len());
        raw.token_rewards = optional(self.token_rewards);
        raw.num_token_rewards = self.token_rewards.len();
        if let Some(reason) = self.failure {
            // The address of an empty text is no NULL, which would be a reward.
            (raw.failure, raw.failure_len) = (reason.as_ptr().cast(), reason.len());
        }
        raw
    }
}

//! What a training step does with samples, on arrays of the host, without a model.
use crate::options::handle_or_null;
use crate::text::{optional, same_length, slice};
use crate::{sys, Options, Result};

returned!(
    /// The loss of a minibatch. Means are over the tokens that carry loss.
    AlgoLoss = rl_algo_loss {
        /// `policy_loss` + `kl_loss`, without the entropy bonus.
        loss: f64,
        /// Aggregated as `algo.loss_agg` says.
        policy_loss: f64,
        /// `algo.kl.coef` times the KL, likewise; 0 unless `algo.kl.where` = loss.
        kl_loss: f64,
        /// Mean of `algo.kl.estimator`.
        kl: f64,
        /// Mean of old - current log-prob, nats.
        ppo_kl: f64,
        /// Mean of r - 1 - log r.
        ppo_kl_k3: f64,
        clip_fraction: f64,
        dual_clip_fraction: f64,
        /// The largest ratio.
        ratio_max: f64,
        /// Tokens that carry loss.
        num_tokens: u64,
        /// Tokens that `algo.correction.*` rejected.
        num_rejected: u64,
    }
);

given!(
    /// Tokens of packed sequences. Arrays that are left out are empty; `rl.h` says which are needed
    /// when. Per-token arrays have the tokens of all sequences one after the other.
    #[derive(Clone, Debug, Default, PartialEq)]
    AlgoTokens<'a> {
        /// Of each sequence; their sum is the number of tokens.
        lengths: &'a [i32],
        /// Equal for the sequences of one prompt.
        groups: &'a [u64],
        mask: &'a [u8],
        /// Per sequence.
        truncated: &'a [u8],
        logprobs: &'a [f32],
        old_logprobs: &'a [f32],
        rollout_logprobs: &'a [f32],
        ref_logprobs: &'a [f32],
        advantages: &'a [f32],
        /// Per sequence, as all that follow.
        rewards: &'a [f64],
        baselines: &'a [f64],
        sample_ids: &'a [u64],
        /// Those of sequence 0 first.
        reward_parts: &'a [f64],
        num_reward_parts: usize,
        /// Added to what each token earns; per token, as all that follow.
        token_rewards: &'a [f64],
        /// Of a critic, now and at sampling.
        values: &'a [f32],
        old_values: &'a [f32],
        /// What values are to predict.
        returns: &'a [f32],
        entropies: &'a [f32],
        /// In place of those of `algo.loss_agg`.
        weights: &'a [f64],
        /// Tokens and sequences that carry loss in the whole batch; 0: those given here.
        total_tokens: u64,
        total_sequences: u64,
    }
);

given!(
    /// How sequences are distributed over bins: micro-batches within a budget, or ranks. The
    /// default is one bin without a budget.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Packing {
        /// Budget of a bin; 0: none, and there are `min_bins` bins of equal cost.
        max_tokens: u64,
        /// Least number of bins, if there are as many units.
        min_bins: u64,
        /// The number of bins is a multiple of it; 1 without a budget.
        divisor: u64,
        /// So many neighbours are a unit, which stays together.
        group_size: u64,
        /// Of the model, for `trainer.balance` = flops.
        hidden: u64,
        /// A unit above the budget has a bin of its own, where it would be an error.
        oversize_alone: bool,
    }
);

impl Default for Packing {
    fn default() -> Self {
        Self {
            max_tokens: 0,
            min_bins: 1,
            divisor: 1,
            group_size: 1,
            hidden: 0,
            oversize_alone: false,
        }
    }
}

impl Packing {
    fn to_raw(&self) -> sys::rl_algo_packing {
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_algo_packing, rl_algo_packing_init) };
        (raw.max_tokens, raw.min_bins) = (self.max_tokens, self.min_bins);
        (raw.divisor, raw.group_size) = (self.divisor, self.group_size);
        (raw.hidden, raw.oversize_alone) = (self.hidden, u32::from(self.oversize_alone));
        raw
    }
}

/// A loss and its derivative in the log-prob, the value or the entropy of each token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyLoss {
    pub loss: AlgoLoss,
    pub gradient: Vec<f64>,
}

/// Factors of the token losses, and which tokens carry loss after all rejections.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Corrections {
    pub weights: Vec<f64>,
    pub keep: Vec<u8>,
}

/// The KL of each token and its derivative in the log-prob.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Kl {
    pub values: Vec<f64>,
    pub gradient: Vec<f64>,
}

impl<'a> AlgoTokens<'a> {
    /// The sum of the lengths; lengths below 0, which the library refuses, count as 0.
    pub fn num_tokens(&self) -> usize {
        self.lengths.iter().map(|n| usize::try_from(*n).unwrap_or(0)).sum()
    }

    /// # Safety
    /// The arrays of `raw` live and stay for `'a`.
    pub(crate) unsafe fn from_raw(raw: &sys::rl_algo_tokens) -> AlgoTokens<'a> {
        let (sequences, tokens) = (raw.num_sequences, raw.num_tokens);
        AlgoTokens {
            lengths: slice(raw.lengths, sequences),
            groups: slice(raw.groups, sequences),
            mask: slice(raw.mask, tokens),
            truncated: slice(raw.truncated, sequences),
            logprobs: slice(raw.logprobs, tokens),
            old_logprobs: slice(raw.old_logprobs, tokens),
            rollout_logprobs: slice(raw.rollout_logprobs, tokens),
            ref_logprobs: slice(raw.ref_logprobs, tokens),
            advantages: slice(raw.advantages, tokens),
            rewards: slice(raw.rewards, sequences),
            baselines: slice(raw.baselines, sequences),
            sample_ids: slice(raw.sample_ids, sequences),
            reward_parts: slice(raw.reward_parts, sequences * raw.num_reward_parts),
            num_reward_parts: raw.num_reward_parts,
            token_rewards: slice(raw.token_rewards, tokens),
            values: slice(raw.values, tokens),
            old_values: slice(raw.old_values, tokens),
            returns: slice(raw.returns, tokens),
            entropies: slice(raw.entropies, tokens),
            weights: slice(raw.weights, tokens),
            total_tokens: raw.total_tokens,
            total_sequences: raw.total_sequences,
        }
    }

    /// The struct that the library takes, whose pointers are these arrays. Lengths are checked
    /// here, since the library cannot see them.
    fn to_raw(&self) -> Result<sys::rl_algo_tokens> {
        let (sequences, tokens) = (self.lengths.len(), self.num_tokens());
        same_length("tokens.groups", self.groups.len(), sequences)?;
        same_length("tokens.mask", self.mask.len(), tokens)?;
        same_length("tokens.truncated", self.truncated.len(), sequences)?;
        same_length("tokens.logprobs", self.logprobs.len(), tokens)?;
        same_length("tokens.old_logprobs", self.old_logprobs.len(), tokens)?;
        same_length("tokens.rollout_logprobs", self.rollout_logprobs.len(), tokens)?;
        same_length("tokens.ref_logprobs", self.ref_logprobs.len(), tokens)?;
        same_length("tokens.advantages", self.advantages.len(), tokens)?;
        same_length("tokens.rewards", self.rewards.len(), sequences)?;
        same_length("tokens.baselines", self.baselines.len(), sequences)?;
        same_length("tokens.sample_ids", self.sample_ids.len(), sequences)?;
        let parts = sequences.saturating_mul(self.num_reward_parts);
        same_length("tokens.reward_parts", self.reward_parts.len(), parts)?;
        same_length("tokens.token_rewards", self.token_rewards.len(), tokens)?;
        same_length("tokens.values", self.values.len(), tokens)?;
        same_length("tokens.old_values", self.old_values.len(), tokens)?;
        same_length("tokens.returns", self.returns.len(), tokens)?;
        same_length("tokens.entropies", self.entropies.len(), tokens)?;
        same_length("tokens.weights", self.weights.len(), tokens)?;
        // SAFETY: the function writes the struct that it is given.
        let mut raw = unsafe { initial!(rl_algo_tokens, rl_algo_tokens_init) };
        raw.lengths = optional(self.lengths);
        raw.num_sequences = sequences;
        raw.num_tokens = tokens;
        raw.groups = optional(self.groups);
        raw.mask = optional(self.mask);
        raw.truncated = optional(self.truncated);
        raw.logprobs = optional(self.logprobs);
        raw.old_logprobs = optional(self.old_logprobs);
        raw.rollout_logprobs = optional(self.rollout_logprobs);
        raw.ref_logprobs = optional(self.ref_logprobs);
        raw.advantages = optional(self.advantages);
        raw.rewards = optional(self.rewards);
        raw.baselines = optional(self.baselines);
        raw.sample_ids = optional(self.sample_ids);
        raw.reward_parts = optional(self.reward_parts);
        raw.num_reward_parts = self.num_reward_parts;
        raw.token_rewards = optional(self.token_rewards);
        raw.values = optional(self.values);
        raw.old_values = optional(self.old_values);
        raw.returns = optional(self.returns);
        raw.entropies = optional(self.entropies);
        raw.weights = optional(self.weights);
        raw.total_tokens = self.total_tokens;
        raw.total_sequences = self.total_sequences;
        Ok(raw)
    }
}

/// Advantages of every token from the rewards, by `algo.advantage`.
///
/// ```
/// # fn main() -> rl::Result<()> {
/// let tokens = rl::AlgoTokens::default().lengths(&[2, 1]).rewards(&[1.0, 0.0]);
/// let values = rl::algorithms::advantages(None, &tokens)?;
/// assert!(values[0] == values[1] && values[1] == -values[2]);
/// # Ok(())
/// # }
/// ```
pub fn advantages<'a>(
    options: impl Into<Option<&'a Options>>,
    tokens: &AlgoTokens<'_>,
) -> Result<Vec<f64>> {
    advantages_and_returns(options, tokens).map(|(advantages, _)| advantages)
}

/// The rewards to go as well, which a critic is to predict.
pub fn advantages_and_returns<'a>(
    options: impl Into<Option<&'a Options>>,
    tokens: &AlgoTokens<'_>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (options, raw) = (handle_or_null(options.into()), tokens.to_raw()?);
    let count = raw.num_tokens;
    let (mut out, mut returns) = (vec![0.0; count], vec![0.0; count]);
    let (data, to_go) = (out.as_mut_ptr(), returns.as_mut_ptr());
    // SAFETY: both arrays have num_tokens entries.
    unsafe { call!(rl_algo_advantages(options, &raw, data, count, to_go, count)) }?;
    Ok((out, returns))
}

macro_rules! loss_function {
    ($(#[$doc:meta])* $name:ident, $function:ident) => {
        $(#[$doc])*
        pub fn $name<'a>(
            options: impl Into<Option<&'a Options>>,
            tokens: &AlgoTokens<'_>,
        ) -> Result<PolicyLoss> {
            let (options, raw) = (handle_or_null(options.into()), tokens.to_raw()?);
            let mut gradient = vec![0.0; raw.num_tokens];
            let (data, len) = (gradient.as_mut_ptr(), gradient.len());
            // SAFETY: `gradient` has num_tokens entries.
            let loss = unsafe {
                struct_of!(rl_algo_loss, rl_algo_loss_init, $function(options, &raw, data, len))
            }?;
            Ok(PolicyLoss { loss: AlgoLoss::from_raw(&loss), gradient })
        }
    };
}

loss_function!(
    /// The loss by `algo.policy_loss`.
    policy_loss,
    rl_algo_policy_loss
);
loss_function!(
    /// The loss of a critic.
    value_loss,
    rl_algo_value_loss
);
loss_function!(
    /// The entropy bonus as a loss.
    entropy_loss,
    rl_algo_entropy_loss
);

/// The bin of each sequence, and the number of bins.
pub fn pack<'a>(
    options: impl Into<Option<&'a Options>>,
    lengths: &[i32],
    packing: &Packing,
) -> Result<(Vec<i32>, u64)> {
    let (options, raw) = (handle_or_null(options.into()), packing.to_raw());
    let mut bins = vec![0; lengths.len()];
    let (data, len) = (lengths.as_ptr(), lengths.len());
    // SAFETY: both arrays have `len` entries.
    let count =
        unsafe { value_of!(0, rl_algo_pack(options, data, len, &raw, bins.as_mut_ptr(), len)) }?;
    Ok((bins, count))
}

/// Factors of the token losses by `algo.correction.*`.
pub fn corrections<'a>(
    options: impl Into<Option<&'a Options>>,
    tokens: &AlgoTokens<'_>,
) -> Result<Corrections> {
    let (options, raw) = (handle_or_null(options.into()), tokens.to_raw()?);
    let count = raw.num_tokens;
    let (mut weights, mut keep) = (vec![0.0; count], vec![0; count]);
    let (factors, kept) = (weights.as_mut_ptr(), keep.as_mut_ptr());
    // SAFETY: both arrays have num_tokens entries.
    unsafe { call!(rl_algo_corrections(options, &raw, factors, count, kept, count)) }?;
    Ok(Corrections { weights, keep })
}

/// The weight of each token under `algo.loss_agg`.
pub fn weights<'a>(
    options: impl Into<Option<&'a Options>>,
    tokens: &AlgoTokens<'_>,
) -> Result<Vec<f64>> {
    let (options, raw) = (handle_or_null(options.into()), tokens.to_raw()?);
    let mut out = vec![0.0; raw.num_tokens];
    // SAFETY: `out` has num_tokens entries.
    unsafe { call!(rl_algo_weights(options, &raw, out.as_mut_ptr(), out.len())) }?;
    Ok(out)
}

/// The KL of each token by `algo.kl.estimator`.
pub fn kl<'a>(options: impl Into<Option<&'a Options>>, tokens: &AlgoTokens<'_>) -> Result<Kl> {
    let (options, raw) = (handle_or_null(options.into()), tokens.to_raw()?);
    let count = raw.num_tokens;
    let (mut values, mut gradient) = (vec![0.0; count], vec![0.0; count]);
    let (data, slopes) = (values.as_mut_ptr(), gradient.as_mut_ptr());
    // SAFETY: both arrays have num_tokens entries.
    unsafe { call!(rl_algo_kl(options, &raw, data, count, slopes, count)) }?;
    Ok(Kl { values, gradient })
}

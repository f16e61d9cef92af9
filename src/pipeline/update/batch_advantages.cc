// Helpers first; batch_advantages() takes the steps of the header in their order. Sums run in batch
// order, so equal batches give equal bits.
#include "pipeline/update/batch_advantages.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "algo/batching/filters.h"
#include "core/error.h"
#include "pipeline/update/reward_parts.h"

namespace rl {
namespace {

constexpr double kEps = 1e-8;  // of whitening and of normalized rewards

// Group number of each sample, by ordinal; numbered in order of appearance.
std::vector<int32_t> groups_of(std::span<const SamplePtr> samples) {
  std::unordered_map<uint64_t, int32_t> numbers;
  std::vector<int32_t> group;
  for (const SamplePtr& s : samples) {
    const auto next = static_cast<int32_t>(numbers.size());
    group.push_back(numbers.try_emplace(s->ordinal, next).first->second);
  }
  return group;
}

double shape_score(const RewardShaping& s, const Moments& moments, const Sample& sample,
                   double score) {
  double reward = s.normalize ? normalize_reward(moments, kEps, score) : score;
  if (s.truncation_penalty != 1) {
    const bool cut = sample.finish == FinishReason::kLength;
    reward = truncation_reward(s.truncation_penalty, reward, cut);
  }
  if (s.overlong.buffer > 0) {
    reward -= overlong_penalty(s.overlong, static_cast<int32_t>(sample.generated()));
  }
  return s.clips && !s.clips_advantage ? clip_reward(s.clip, reward) : reward;
}

std::vector<double> shaped(const RewardShaping& s, const ScoredBatch& batch) {
  const Moments moments = moments_of(batch.scores, {});
  std::vector<double> rewards;
  for (size_t i = 0; i < batch.scores.size(); ++i) {
    rewards.push_back(shape_score(s, moments, *batch.samples[i], batch.scores[i]));
  }
  return rewards;
}

// Greedy responses are shaped like the samples, with the samples' moments.
std::vector<double> greedy_rewards(const RewardShaping& s, const ScoredBatch& batch) {
  RL_CHECK(batch.greedy.size() == batch.samples.size());
  const Moments moments = moments_of(batch.scores, {});
  std::vector<double> rewards;
  for (const GreedyResponse& g : batch.greedy) {
    rewards.push_back(shape_score(s, moments, *g.sample, g.score) + g.token_rewards);
  }
  return rewards;
}

void mask_samples(const AdvantageOptions& o, const ScoredBatch& batch, BatchAdvantages& out) {
  out.carries_loss.assign(batch.samples.size(), 1);
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const Sample& s = *batch.samples[i];
    const bool overlong = o.masks_overlong && s.finish == FinishReason::kLength;
    const bool repetitive =
        !overlong && o.repetition_limit < 1 &&
        repetition(std::span(s.ids).subspan(static_cast<size_t>(s.prompt_tokens)),
                   o.repetition_ngram) > o.repetition_limit;
    out.carries_loss[i] = !overlong && !repetitive;
    out.masked_overlong += overlong;
    out.masked_repetitive += repetitive;
  }
}

void make_shape(const ScoredBatch& batch, BatchAdvantages& out) {
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const Sample& s = *batch.samples[i];
    out.lengths.push_back(static_cast<int32_t>(s.generated()));
    for (const uint8_t mask : s.loss_mask) out.mask.push_back(mask != 0 && out.carries_loss[i]);
  }
}

// The KL of every token under the sample's own mask: a filter does not make a sample cheaper.
std::vector<double> token_kl(const AdvantageOptions& o, const ScoredBatch& batch,
                             BatchAdvantages& out) {
  std::vector<double> kl;
  double sum_of_means = 0, counted = 0;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const Sample& s = *batch.samples[i];
    double sum = 0, tokens = 0;
    for (size_t g = 0; g < s.loss_mask.size(); ++g) {
      const bool counts = s.loss_mask[g] != 0;
      const float logprob = s.logprobs[g];
      kl.push_back(
          counts ? kl_term(o.kl_estimator, o.kl_bounds, logprob, batch.ref_logprobs[i][g], logprob)
                       .value
                 : 0);
      sum += kl.back();
      tokens += counts;
    }
    if (!std::isfinite(sum)) {
      throw Error(Code::kNonFinite, str("the KL of ", sample_name(s), " to the reference is ", sum))
          .with_key("algo.kl.where");
    }
    if (tokens == 0) continue;
    sum_of_means += sum / tokens;
    counted += 1;
  }
  out.kl = counted > 0 ? sum_of_means / counted : 0;
  return kl;
}

// rewards[k][i] is component k of sample i.
std::vector<std::vector<double>> reward_kinds(size_t count, const ScoredBatch& batch) {
  std::vector<std::vector<double>> kinds(count);
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const size_t seen = batch.parts.empty() ? 0 : batch.parts[i].size();
    require_reward_parts(count, sample_name(*batch.samples[i]), seen);
    for (size_t k = 0; k < count; ++k) kinds[k].push_back(batch.parts[i][k]);
  }
  return kinds;
}

std::vector<double> estimate(const AdvantageOptions& o, const ScoredBatch& batch,
                             std::span<const double> rewards) {
  std::vector<double> advantages(rewards.size());
  const std::vector<int32_t> groups = groups_of(batch.samples);
  if (o.estimator.kind == Advantage::kGdpo) {
    gdpo_advantages(o.estimator, reward_kinds(o.gdpo_weights.size(), batch), o.gdpo_weights, groups,
                    advantages);
    return advantages;
  }
  std::vector<int32_t> loss_tokens;
  for (const SamplePtr& s : batch.samples) {
    loss_tokens.push_back(0);
    for (const uint8_t mask : s->loss_mask) loss_tokens.back() += mask;
  }
  group_advantages(o.estimator, rewards, groups, advantages, loss_tokens);
  if (!o.shaping.clips || !o.shaping.clips_advantage) return advantages;
  for (double& a : advantages) a = clip_reward(o.shaping.clip, a);
  return advantages;
}

void subtract_sample_kl(double coef, std::span<const double> kl, BatchAdvantages& out) {
  size_t t = 0;
  for (size_t i = 0; i < out.rewards.size(); ++i) {
    for (const size_t end = t + static_cast<size_t>(out.lengths[i]); t < end; ++t) {
      out.rewards[i] -= coef * kl[t];
    }
  }
}

// Error(kNonFinite) names a sample with a non-finite critic value at a loss token.
std::vector<double> flat_values(const ScoredBatch& batch, const BatchAdvantages& out) {
  RL_CHECK(batch.values.size() == batch.samples.size());
  std::vector<double> flat;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    for (const float value : batch.values[i]) {
      if (out.mask[flat.size()] != 0 && !std::isfinite(value)) {
        throw Error(Code::kNonFinite,
                    str("the critic gives ", sample_name(*batch.samples[i]), " a value of ", value))
            .with_key("critic.optimizer.lr");
      }
      flat.push_back(value);
    }
  }
  RL_CHECK(flat.size() == out.mask.size());
  return flat;
}

// Rewards to go, from `outcomes` at the last loss token and the KL of each token before it.
void rewards_to_go(const AdvantageOptions& o, std::span<const double> outcomes,
                   const ScoredBatch& batch, std::span<const double> kl, BatchAdvantages& out) {
  const ResponseShape shape{out.lengths, out.mask};
  std::vector<double> rewards(out.mask.size());
  token_rewards({shape, outcomes, kl, batch.kl_coef}, rewards);
  for (size_t t = 0; t < batch.token_rewards.size(); ++t) rewards[t] += batch.token_rewards[t];
  if (o.estimator.kind == Advantage::kGae) {
    const std::vector<double> values = flat_values(batch, out);
    return gae(o.returns, {shape, rewards, values}, {out.advantages, out.returns});
  }
  if (o.estimator.kind == Advantage::kRemax) {
    remax_advantages(shape, rewards, greedy_rewards(o.shaping, batch), out.advantages);
    discounted_returns({}, shape, rewards, out.returns);
    return;
  }
  discounted_returns({.gamma = o.returns.gamma}, shape, rewards, out.returns);
  out.advantages = out.returns;
}

std::vector<uint64_t> sample_numbers(const ScoredBatch& batch, uint64_t Sample::*field) {
  std::vector<uint64_t> out;
  for (const SamplePtr& s : batch.samples) out.push_back((*s).*field);
  return out;
}

// The log-probs of every token of the batch, one sample after another.
std::vector<float> stored_logprobs(const ScoredBatch& batch) {
  std::vector<float> out;
  for (const SamplePtr& s : batch.samples) {
    out.insert(out.end(), s->logprobs.begin(), s->logprobs.end());
  }
  return out;
}

// The components of all samples, one after another: each has as many as algo.gdpo_weights, or, if
// that is empty, as the first sample.
std::vector<double> flat_parts(size_t num_weights, const ScoredBatch& batch) {
  std::vector<double> out;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const std::vector<double>& p = batch.parts[i];
    require_reward_parts(num_weights, sample_name(*batch.samples[i]), p.size());
    const size_t first = batch.parts.front().size();
    if (p.size() != first) {
      throw Error(Code::kInvalidArgument,
                  str("the reward of ", sample_name(*batch.samples[i]), " has ", p.size(),
                      " parts, but that of ", sample_name(*batch.samples.front()), " has ", first))
          .with_key("reward_parts")
          .with_expected(str(first, " parts"));
    }
    out.insert(out.end(), p.begin(), p.end());
  }
  return out;
}

void require_finite(std::span<const double> advantages, const ScoredBatch& batch,
                    const BatchAdvantages& made) {
  size_t t = 0;
  for (size_t i = 0; i < made.lengths.size(); ++i) {
    for (int32_t g = 0; g < made.lengths[i]; ++g, ++t) {
      if (made.mask[t] == 0 || std::isfinite(advantages[t])) continue;
      throw Error(Code::kNonFinite, str("the advantage function returned ", advantages[t],
                                        " for token ", g, " of ", sample_name(*batch.samples[i])))
          .with_key("algo.advantage");
    }
  }
}

void call_host(size_t num_weights, const ScoredBatch& batch, BatchAdvantages& out) {
  if (batch.custom == nullptr || !*batch.custom) {
    throw Error(Code::kFailedPrecondition,
                "algo.advantage = custom, but no advantage function has been set")
        .with_key("algo.advantage");
  }
  const std::vector<uint64_t> groups = sample_numbers(batch, &Sample::ordinal),
                              ids = sample_numbers(batch, &Sample::id);
  const std::vector<float> logprobs = stored_logprobs(batch);
  std::vector<float> reference;
  for (const auto& r : batch.ref_logprobs) reference.insert(reference.end(), r.begin(), r.end());
  std::vector<uint8_t> truncated;
  for (const SamplePtr& s : batch.samples) truncated.push_back(s->finish == FinishReason::kLength);
  AlgoArrays in;
  in.lengths = out.lengths;
  in.groups = groups;
  in.sample_ids = ids;
  in.mask = out.mask;
  in.truncated = truncated;
  in.old_logprobs = in.rollout_logprobs = logprobs;
  in.ref_logprobs = reference;
  in.rewards = out.rewards;
  in.token_rewards = batch.token_rewards;
  const std::vector<double> parts = flat_parts(num_weights, batch);
  in.reward_parts = parts;
  (*batch.custom)(in, out.advantages);
  require_finite(out.advantages, batch, out);
  for (size_t t = 0; t < out.mask.size(); ++t) {
    if (out.mask[t] == 0) out.advantages[t] = 0;
  }
  out.returns = out.advantages;
}

void whiten_tokens(Whitening form, BatchAdvantages& out) {
  if (form == Whitening::kNone) return;
  const bool floor = form == Whitening::kFloor;
  const WhitenParams params{.ddof = floor ? 0 : 1, .eps = kEps, .floor = floor};
  whiten(params, moments_of(out.advantages, out.mask), out.mask, out.advantages);
}

}  // namespace

bool has_token_rewards(Advantage kind) {
  return kind == Advantage::kReinforcePp || kind == Advantage::kRemax || kind == Advantage::kGae;
}

BatchAdvantages batch_advantages(const AdvantageOptions& o, const ScoredBatch& batch) {
  RL_CHECK(batch.samples.size() == batch.scores.size());
  BatchAdvantages out;
  mask_samples(o, batch, out);
  make_shape(batch, out);
  out.rewards = shaped(o.shaping, batch);
  out.per_sample.assign(out.rewards.size(), 0);
  out.advantages.assign(out.mask.size(), 0);
  out.returns.assign(out.mask.size(), 0);
  std::vector<double> kl;
  if (o.kl_in_reward) kl = token_kl(o, batch, out);
  const bool custom = o.estimator.kind == Advantage::kCustom;
  const bool token_rewards = has_token_rewards(o.estimator.kind);
  const bool to_go = token_rewards || (o.kl_in_reward && o.kl_per_token);
  const std::vector<double> plain = out.rewards;
  if (o.kl_in_reward) subtract_sample_kl(batch.kl_coef, kl, out);
  if (!token_rewards && !custom) out.per_sample = estimate(o, batch, to_go ? plain : out.rewards);
  if (custom) {
    call_host(o.gdpo_weights.size(), batch, out);
  } else if (to_go) {
    rewards_to_go(o, token_rewards ? plain : out.per_sample, batch, kl, out);
  } else {
    spread_over_tokens({out.lengths, out.mask}, out.per_sample, out.advantages);
    out.returns = out.advantages;
  }
  whiten_tokens(o.whitening, out);
  out.varies = custom || to_go || o.whitening != Whitening::kNone;
  return out;
}

BatchAdvantages given_advantages(const AdvantageOptions& o, const ScoredBatch& batch,
                                 std::span<const double> advantages) {
  BatchAdvantages out;
  mask_samples(o, batch, out);
  make_shape(batch, out);
  out.rewards.assign(batch.scores.begin(), batch.scores.end());
  out.per_sample.assign(advantages.begin(), advantages.end());
  out.advantages.assign(out.mask.size(), 0);
  spread_over_tokens({out.lengths, out.mask}, out.per_sample, out.advantages);
  out.returns = out.advantages;
  return out;
}

std::vector<double> outcome_advantages(const AdvantageOptions& o, const ScoredBatch& batch) {
  return estimate(o, batch, shaped(o.shaping, batch));
}

}  // namespace rl

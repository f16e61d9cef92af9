// Arrays become samples with one prompt token, so that the code of a step runs on them unchanged.
#include "pipeline/update/algo_calls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algo/losses/entropy.h"
#include "algo/losses/value_loss.h"
#include "algo/moments.h"
#include "core/error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/update/batch_advantages.h"
#include "train/losses/minibatch_tokens.h"

namespace rl {
namespace {

size_t token_count(std::span<const int32_t> lengths) {
  constexpr int64_t kMost = int64_t{1} << 31;
  int64_t sum = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sum += lengths[i];
    if (lengths[i] >= 0 && sum < kMost) continue;
    throw Error(Code::kOutOfRange,
                str("lengths[", i, "] is ", lengths[i], ", expected at least 0 and less than ",
                    kMost, " tokens in all"))
        .with_key("tokens.lengths");
  }
  return static_cast<size_t>(sum);
}

void require_size(const char* key, size_t seen, size_t expected, bool optional) {
  if (seen == expected || (optional && seen == 0)) return;
  throw Error(Code::kInvalidArgument, str(key, " has ", seen, " entries, expected ", expected))
      .with_key(key);
}

void check_total(const char* key, int64_t total) {
  if (total >= 0) return;
  throw Error(Code::kOutOfRange, str(key, " is too large")).with_key(key);
}

void check_arrays(const AlgoArrays& in) {
  const size_t sequences = in.lengths.size(), tokens = token_count(in.lengths);
  require_size("tokens.groups", in.groups.size(), sequences, true);
  require_size("tokens.truncated", in.truncated.size(), sequences, true);
  require_size("tokens.mask", in.mask.size(), tokens, true);
  for (const auto& [key, values] : {std::pair("tokens.logprobs", in.logprobs),
                                    {"tokens.old_logprobs", in.old_logprobs},
                                    {"tokens.rollout_logprobs", in.rollout_logprobs},
                                    {"tokens.ref_logprobs", in.ref_logprobs},
                                    {"tokens.advantages", in.advantages},
                                    {"tokens.values", in.values},
                                    {"tokens.old_values", in.old_values},
                                    {"tokens.returns", in.returns},
                                    {"tokens.entropies", in.entropies}}) {
    require_size(key, values.size(), tokens, true);
  }
  require_size("tokens.token_rewards", in.token_rewards.size(), tokens, true);
  require_size("tokens.weights", in.weights.size(), tokens, true);
  check_total("tokens.total_tokens", in.total_tokens);
  check_total("tokens.total_sequences", in.total_sequences);
}

template <typename T>
std::span<const T> given(const char* key, std::span<const T> values, size_t expected) {
  require_size(key, values.size(), expected, false);
  return values;
}

std::span<const double> finite(const char* key, std::span<const double> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(Code::kNonFinite, str(key, "[", i, "] is ", values[i])).with_key(key);
  }
  return values;
}

std::span<const float> old_of(const AlgoArrays& in) {
  return in.old_logprobs.empty() ? in.logprobs : in.old_logprobs;
}

std::vector<SamplePtr> samples_of(const AlgoArrays& in, std::span<const float> stored) {
  std::vector<SamplePtr> samples;
  size_t at = 0;
  for (size_t i = 0; i < in.lengths.size(); ++i) {
    const auto count = static_cast<size_t>(in.lengths[i]);
    auto s = std::make_shared<Sample>();
    s->ordinal = in.groups.empty() ? 0 : in.groups[i];
    s->slot = static_cast<uint32_t>(i);
    s->prompt_tokens = 1;
    s->ids.resize(count + 1);
    s->logprobs.assign(count, 0.0f);
    if (!stored.empty())
      std::copy_n(stored.begin() + static_cast<ptrdiff_t>(at), count, s->logprobs.begin());
    s->loss_mask.assign(count, 1);
    for (size_t g = 0; g < count && !in.mask.empty(); ++g) s->loss_mask[g] = in.mask[at + g];
    if (!in.truncated.empty() && in.truncated[i] != 0) s->finish = FinishReason::kLength;
    samples.push_back(std::move(s));
    at += count;
  }
  return samples;
}

TrainerOptions loss_options(const Settings& settings) {
  settings.set.validate();
  return trainer_options_from(settings, 1, 0);
}

// The tokens with masks, corrections and weights, as before the first micro-batch of a step.
struct Gathered {
  MinibatchTokens tokens;
  CorrectionReport report;
  int64_t num_tokens = 0;
};

Gathered gather(const TrainerOptions& options, const AlgoArrays& in) {
  check_arrays(in);
  Gathered out;
  const std::span<const float> old = old_of(in);
  const std::vector<SamplePtr> samples =
      samples_of(in, in.rollout_logprobs.empty() ? old : in.rollout_logprobs);
  const std::vector<float> zeros(token_count(in.lengths));
  out.tokens.begin(0);
  size_t at = 0;
  for (const SamplePtr& s : samples) {
    const auto count = static_cast<size_t>(s->generated());
    const auto part = [&](std::span<const float> v) {
      return (v.empty() ? std::span<const float>(zeros) : v).subspan(at, count);
    };
    out.tokens.add({s.get(), 0, part(in.advantages), part(old), true});
    std::ranges::copy(part(in.logprobs), out.tokens.current(static_cast<int32_t>(s->slot)).begin());
    at += count;
  }
  out.report = out.tokens.correct(options.correction);
  if (!in.weights.empty()) {
    out.num_tokens = out.tokens.use_weights(finite("tokens.weights", in.weights));
    return out;
  }
  const LossDenominators whole{.num_tokens = static_cast<double>(in.total_tokens),
                               .num_sequences = static_cast<double>(in.total_sequences)};
  out.num_tokens = out.tokens.set_weights(options.loss_agg, options.loss_scale_factor, whole);
  return out;
}

// Refuses rewards of tokens that the estimator would not read.
void require_estimator(Advantage kind, const AlgoArrays& in) {
  if (in.token_rewards.empty() || has_token_rewards(kind)) return;
  throw Error(Code::kInvalidArgument, str("tokens.token_rewards are given, but algo.advantage = ",
                                          advantage_name(kind), " compares whole sequences"))
      .with_key("tokens.token_rewards")
      .with_other_key("algo.advantage");
}

std::span<const float> old_values_of(const AlgoArrays& in) {
  return in.old_values.empty() ? in.values : in.old_values;
}

// The values at sampling, sequence by sequence.
std::vector<std::vector<float>> critic_values(const AlgoArrays& in) {
  const std::span<const float> flat =
      given("tokens.old_values", old_values_of(in), token_count(in.lengths));
  std::vector<std::vector<float>> rows;
  size_t at = 0;
  for (const int32_t count : in.lengths) {
    const auto row = flat.subspan(at, static_cast<size_t>(count));
    rows.emplace_back(row.begin(), row.end());
    at += row.size();
  }
  for (size_t t = 0; t < flat.size(); ++t) {
    if ((!in.mask.empty() && in.mask[t] == 0) || std::isfinite(flat[t])) continue;
    throw Error(Code::kNonFinite, str("tokens.old_values[", t, "] is ", flat[t]))
        .with_key("tokens.old_values");
  }
  return rows;
}

void require_policy_loss(const TrainerOptions& o) {
  if (!is_rl(o.objective)) {
    throw Error(Code::kInvalidArgument,
                str("algo.objective = ", objective_name(o.objective), " has no policy loss"))
        .with_key("algo.objective")
        .with_expected("rl or distill");
  }
  if (o.policy_loss.kind != PolicyLoss::kCustom) return;
  throw Error(Code::kFailedPrecondition,
              "algo.policy_loss = custom is a function of the host, and none has been set")
      .with_key("algo.policy_loss");
}

}  // namespace

std::vector<double> algo_advantages(const Settings& settings, const AlgoArrays& in,
                                    std::vector<double>* returns) {
  settings.set.validate();
  const AdvantageOptions algorithm = advantage_options_from(settings);
  require_estimator(algorithm.estimator.kind, in);
  check_arrays(in);
  const size_t sequences = in.lengths.size(), tokens = token_count(in.lengths);
  if (algorithm.kl_in_reward) {
    given("tokens.ref_logprobs", in.ref_logprobs, tokens);
    given("tokens.logprobs", old_of(in), tokens);
  }
  const std::vector<SamplePtr> samples = samples_of(in, old_of(in));
  const auto rewards = given("tokens.rewards", in.rewards, sequences);
  ScoredBatch batch{samples, finite("tokens.rewards", rewards)};
  const size_t kinds = algorithm.gdpo_weights.size();
  const auto flat = given("tokens.reward_parts", in.reward_parts, sequences * kinds);
  finite("tokens.reward_parts", flat);
  std::vector<std::vector<double>> parts;
  for (size_t i = 0; i < sequences && kinds > 0; ++i) {
    const auto row = flat.subspan(i * kinds, kinds);
    parts.emplace_back(row.begin(), row.end());
  }
  batch.parts = parts;
  std::vector<std::vector<float>> reference;
  std::vector<GreedyResponse> greedy;
  const bool compares = algorithm.estimator.kind == Advantage::kRemax;
  if (compares) finite("tokens.baselines", given("tokens.baselines", in.baselines, sequences));
  size_t at = 0;
  for (size_t i = 0; i < sequences; ++i) {
    const auto count = static_cast<size_t>(in.lengths[i]);
    if (algorithm.kl_in_reward) {
      const auto part = in.ref_logprobs.subspan(at, count);
      reference.emplace_back(part.begin(), part.end());
    }
    if (compares) greedy.push_back({samples[i].get(), in.baselines[i]});
    at += count;
  }
  batch.ref_logprobs = reference;
  batch.greedy = greedy;
  batch.kl_coef = settings.algo.kl.coef;
  batch.token_rewards = finite("tokens.token_rewards", in.token_rewards);
  std::vector<std::vector<float>> values;
  if (algorithm.estimator.kind == Advantage::kGae) values = critic_values(in);
  batch.values = values;
  BatchAdvantages made = batch_advantages(algorithm, batch);
  if (returns != nullptr) *returns = std::move(made.returns);
  return std::move(made.advantages);
}

AlgoLoss algo_policy_loss(const Settings& settings, const AlgoArrays& in,
                          std::vector<double>& gradient) {
  const TrainerOptions o = loss_options(settings);
  require_policy_loss(o);
  const size_t tokens = token_count(in.lengths);
  given("tokens.logprobs", in.logprobs, tokens);
  given("tokens.advantages", in.advantages, tokens);
  if (o.kl_in_loss) given("tokens.ref_logprobs", in.ref_logprobs, tokens);
  Gathered g = gather(o, in);
  AlgoLoss out;
  out.num_tokens = g.num_tokens;
  out.num_rejected = static_cast<int64_t>(g.report.rejections.num_rejected +
                                          g.report.veto.num_rejected + g.report.opsm.num_rejected);
  gradient.assign(tokens, 0.0);
  if (g.num_tokens == 0) return out;
  const PolicyLossSums s = g.tokens.compute(o, 0);
  std::ranges::copy(g.tokens.gradients(), gradient.begin());
  out.policy_loss = s.loss;
  out.ppo_kl = mean_of(s.neg_log_ratio, s.num_tokens);
  out.ppo_kl_k3 = mean_of(s.k3, s.num_tokens);
  out.clip_fraction = mean_of(static_cast<double>(s.num_clipped), s.num_tokens);
  out.dual_clip_fraction = mean_of(static_cast<double>(s.num_dual_clipped), s.num_tokens);
  out.ratio_max = s.ratio_max;
  if (o.kl_in_loss) {
    const KlLossSums kl = kl_loss(
        o.kl_estimator,
        {in.logprobs, in.ref_logprobs, g.tokens.weights(), o.kl_coef, old_of(in), o.kl_bounds},
        gradient);
    out.kl_loss = kl.loss;
    out.kl = mean_of(kl.value, g.num_tokens);
  }
  out.loss = out.policy_loss + out.kl_loss;
  return out;
}

AlgoLoss algo_value_loss(const Settings& settings, const AlgoArrays& in,
                         std::vector<double>& gradient) {
  TrainerOptions o = loss_options(settings);
  o.correction = {};
  const size_t tokens = token_count(in.lengths);
  given("tokens.values", in.values, tokens);
  given("tokens.returns", in.returns, tokens);
  const Gathered g = gather(o, in);
  gradient.assign(tokens, 0.0);
  const ValueLossSums sums =
      value_loss(settings.algo.value_clip,
                 {in.values, old_values_of(in), in.returns, g.tokens.weights()}, gradient);
  AlgoLoss out;
  out.loss = sums.loss;
  out.num_tokens = sums.num_tokens;
  out.clip_fraction = mean_of(static_cast<double>(sums.num_clipped), sums.num_tokens);
  return out;
}

AlgoLoss algo_entropy_loss(const Settings& settings, const AlgoArrays& in,
                           std::vector<double>& gradient) {
  const TrainerOptions o = loss_options(settings);
  const size_t tokens = token_count(in.lengths);
  given("tokens.logprobs", in.logprobs, tokens);
  given("tokens.entropies", in.entropies, tokens);
  const Gathered g = gather(o, in);
  gradient.assign(tokens, 0.0);
  AlgoLoss out;
  out.loss = entropy_bonus(o.entropy_coef, g.tokens.weights(), in.entropies, gradient);
  out.num_tokens = g.num_tokens;
  return out;
}

namespace {

void require_range(const char* key, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(Code::kOutOfRange, str(key, " is ", value, ", expected ", least, "..", most))
      .with_key(key);
}

void check_packing(const AlgoPacking& p, BalanceCost cost) {
  constexpr int64_t kMost = int64_t{1} << 31;
  require_range("packing.max_tokens", p.max_tokens, 0, kMost);
  require_range("packing.min_bins", p.min_bins, 1, kMost - 1);
  require_range("packing.divisor", p.divisor, 1, p.max_tokens > 0 ? kMost - 1 : 1);
  require_range("packing.group_size", p.group_size, 1, kMost - 1);
  if (cost == BalanceCost::kFlops) require_range("packing.hidden", p.hidden, 1, 1 << 20);
}

[[noreturn]] void refuse_units(const char* key, std::string message) {
  throw Error(Code::kInvalidArgument, std::move(message)).with_key(key);
}

// Without a budget every bin has a unit, and groups of several are shared out evenly.
void check_lengths(std::span<const int32_t> lengths, const AlgoPacking& p) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 1) continue;
    throw Error(Code::kOutOfRange, str("lengths[", i, "] is ", lengths[i], ", expected at least 1"))
        .with_key("lengths");
  }
  const auto count = static_cast<int64_t>(lengths.size());
  if (count % p.group_size != 0) {
    refuse_units("packing.group_size",
                 str(count, " sequences are no multiple of packing.group_size ", p.group_size));
  }
  const int64_t units = count / p.group_size;
  if (p.max_tokens > 0) return;
  if (units < p.min_bins) {
    refuse_units("packing.min_bins", str(units, " units are fewer than packing.min_bins ",
                                         p.min_bins, ", and there is no budget"));
  }
  if (p.group_size > 1 && units % p.min_bins != 0) {
    refuse_units("packing.min_bins", str(units, " groups are no multiple of packing.min_bins ",
                                         p.min_bins, ", and there is no budget"));
  }
}

int64_t hidden_of(const AlgoPacking& p) { return std::max<int64_t>(p.hidden, 1); }

// Error(kOutOfRange) if their sum is no int64_t.
std::vector<int64_t> costs_of(std::span<const int32_t> lengths, BalanceCost cost, int64_t hidden) {
  std::vector<int64_t> costs;
  int64_t sum = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    costs.push_back(sequence_cost(cost, hidden, lengths[i]));
    if (!__builtin_add_overflow(sum, costs.back(), &sum)) continue;
    throw Error(Code::kOutOfRange,
                str("lengths[", i, "] is ", lengths[i], ": the cost of all sequences is above ",
                    std::numeric_limits<int64_t>::max()))
        .with_key("lengths");
  }
  return costs;
}

MicroBatchParams budget_of(const AlgoPacking& p, BalanceCost cost) {
  MicroBatchParams params;
  params.max_tokens = p.max_tokens;
  params.min_count = static_cast<int32_t>(p.min_bins);
  params.divisor = static_cast<int32_t>(p.divisor);
  params.group_size = static_cast<int32_t>(p.group_size);
  params.cost = cost;
  params.hidden_size = hidden_of(p);
  params.oversize_alone = p.oversize_alone;
  return params;
}

// Errors name the budget of a training step.
Partition bins_within(std::span<const int32_t> lengths, const MicroBatchParams& budget) {
  try {
    return cut_micro_batches(lengths, budget);
  } catch (Error& e) {
    if (e.key == "trainer.max_tokens_per_device") e.key = "packing.max_tokens";
    throw;
  }
}

Partition even_bins(std::span<const int64_t> costs, const AlgoPacking& p) {
  const auto bins = static_cast<int32_t>(p.min_bins);
  if (p.group_size == 1) return balance(costs, bins, false);
  std::vector<int32_t> group;
  for (size_t i = 0; i < costs.size(); ++i) {
    group.push_back(static_cast<int32_t>(static_cast<int64_t>(i) / p.group_size));
  }
  return balance_groups(costs, group, bins);
}

}  // namespace

Partition algo_pack(const Settings& settings, std::span<const int32_t> lengths,
                    const AlgoPacking& p) {
  settings.set.validate();
  const BalanceCost cost = settings.trainer.balance;
  check_packing(p, cost);
  check_lengths(lengths, p);
  const std::vector<int64_t> costs = costs_of(lengths, cost, hidden_of(p));
  return p.max_tokens > 0 ? bins_within(lengths, budget_of(p, cost)) : even_bins(costs, p);
}

AlgoCorrections algo_corrections(const Settings& settings, const AlgoArrays& in) {
  const TrainerOptions o = loss_options(settings);
  const size_t tokens = token_count(in.lengths);
  given("tokens.logprobs", in.logprobs, tokens);
  if (o.correction.opsm_delta > 0) given("tokens.advantages", in.advantages, tokens);
  const Gathered g = gather(o, in);
  AlgoCorrections out;
  for (size_t t = 0; t < g.tokens.weights().size(); ++t) {
    const bool stays = g.tokens.weight(t) != 0;
    out.keep.push_back(stays);
    out.weights.push_back(stays ? g.tokens.correction(t) : 0);
  }
  return out;
}

std::vector<double> algo_weights(const Settings& settings, const AlgoArrays& in) {
  TrainerOptions o = loss_options(settings);
  o.correction = {};
  const Gathered g = gather(o, in);
  return {g.tokens.weights().begin(), g.tokens.weights().end()};
}

AlgoKl algo_kl(const Settings& settings, const AlgoArrays& in) {
  const KlEstimator& estimator = settings.algo.kl.estimator;
  const KlBounds bounds = kl_bounds_from(settings);
  check_arrays(in);
  const size_t tokens = token_count(in.lengths);
  given("tokens.logprobs", in.logprobs, tokens);
  given("tokens.ref_logprobs", in.ref_logprobs, tokens);
  AlgoKl out;
  for (size_t t = 0; t < tokens; ++t) {
    const bool counts = in.mask.empty() || in.mask[t] != 0;
    const KlTerm term =
        counts ? kl_term(estimator, bounds, in.logprobs[t], in.ref_logprobs[t], old_of(in)[t])
               : KlTerm{0, 0};
    out.values.push_back(term.value);
    out.gradient.push_back(term.gradient);
  }
  return out;
}

}  // namespace rl

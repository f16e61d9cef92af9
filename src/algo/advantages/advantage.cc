// Two passes over the batch: group means, then squared deviations from them; a third for the extra
// statistics that some estimators need.
#include "algo/advantages/advantage.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<Advantage>, 13> kAdvantages{{
    {Advantage::kGrpo, "grpo"},
    {Advantage::kDrGrpo, "dr_grpo"},
    {Advantage::kRloo, "rloo"},
    {Advantage::kOpo, "opo"},
    {Advantage::kGpg, "gpg"},
    {Advantage::kGrpoPassk, "grpo_passk"},
    {Advantage::kReinforcePpBaseline, "reinforce_pp_baseline"},
    {Advantage::kFlashReinforce, "flash_reinforce"},
    {Advantage::kGdpo, "gdpo"},
    {Advantage::kGae, "gae"},
    {Advantage::kReinforcePp, "reinforce_pp"},
    {Advantage::kRemax, "remax"},
    {Advantage::kCustom, "custom"},
}};
constexpr std::array<Choice<AdvSingleton>, 2> kSingletons{
    {{AdvSingleton::kRaw, "raw"}, {AdvSingleton::kZero, "zero"}}};

struct GroupStats {
  int64_t count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared deviations from the mean
};

void check_samples(std::span<const double> rewards, std::span<const int32_t> group) {
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (!std::isfinite(rewards[i])) {
      throw Error(Code::kNonFinite, str("reward ", i, " is not finite")).with_key("reward");
    }
    if (group[i] < 0 || static_cast<size_t>(group[i]) >= rewards.size()) {
      throw Error(Code::kOutOfRange, str("group index of sample ", i, " is ", group[i],
                                         ", expected 0..", rewards.size() - 1))
          .with_key("group");
    }
  }
}

// Standard deviation of `count` values; 1 for a single value.
double spread(int64_t count, double squares, int32_t ddof) {
  return count < 2 ? 1.0 : std::sqrt(squares / static_cast<double>(count - ddof));
}

std::vector<GroupStats> group_stats(std::span<const double> rewards,
                                    std::span<const int32_t> group) {
  std::vector<GroupStats> stats(rewards.size());
  for (size_t i = 0; i < rewards.size(); ++i) {
    GroupStats& s = stats[static_cast<size_t>(group[i])];
    ++s.count;
    s.mean += rewards[i];
  }
  for (GroupStats& s : stats) {
    if (s.count > 0) s.mean /= static_cast<double>(s.count);
  }
  for (size_t i = 0; i < rewards.size(); ++i) {
    GroupStats& s = stats[static_cast<size_t>(group[i])];
    s.squares += (rewards[i] - s.mean) * (rewards[i] - s.mean);
  }
  return stats;
}

GroupStats batch_stats(std::span<const double> rewards) {
  const std::vector<int32_t> one_group(rewards.size(), 0);
  return group_stats(rewards, one_group).front();
}

double batch_spread(std::span<const double> rewards, int32_t ddof) {
  const GroupStats s = batch_stats(rewards);
  return spread(s.count, s.squares, ddof);
}

// 0 for a batch of one sample: no group is too small here.
void subtract_batch_mean(std::span<const double> rewards, std::span<double> advantages) {
  const double mean = batch_stats(rewards).mean;
  for (size_t i = 0; i < rewards.size(); ++i) advantages[i] = rewards[i] - mean;
}

// Group statistics that only estimators other than grpo need.
struct GroupExtra {
  double tokens = 0;
  double token_rewards = 0;  // sum of length * reward
  double best = -HUGE_VAL;
  double second = -HUGE_VAL;
  size_t best_sample = 0;
};

std::vector<GroupExtra> group_extra(std::span<const double> rewards, std::span<const int32_t> group,
                                    std::span<const int32_t> lengths) {
  std::vector<GroupExtra> extra(rewards.size());
  for (size_t i = 0; i < rewards.size(); ++i) {
    GroupExtra& e = extra[static_cast<size_t>(group[i])];
    if (!lengths.empty()) {
      e.tokens += lengths[i];
      e.token_rewards += lengths[i] * rewards[i];
    }
    if (rewards[i] > e.best) {
      e.second = e.best;
      e.best = rewards[i];
      e.best_sample = i;
    } else {
      e.second = std::max(e.second, rewards[i]);
    }
  }
  return extra;
}

double gpg_scale(std::span<const double> rewards) {
  const auto zero = std::count(rewards.begin(), rewards.end(), 0.0);
  const double non_zero = static_cast<double>(rewards.size()) - static_cast<double>(zero);
  return static_cast<double>(rewards.size()) / std::max(1.0, non_zero);
}

bool uses_std(const AdvantageParams& p) {
  return (p.kind == Advantage::kGrpo || p.kind == Advantage::kGrpoPassk) && p.norm_std;
}

void check_kind(const AdvantageParams& p, size_t num_samples, std::span<const int32_t> lengths) {
  const bool other = p.kind == Advantage::kGdpo || p.kind == Advantage::kGae ||
                     p.kind == Advantage::kReinforcePp || p.kind == Advantage::kRemax ||
                     p.kind == Advantage::kCustom;
  if (other) {
    throw Error(Code::kInvalidArgument, str("algo.advantage = ", advantage_name(p.kind),
                                            " is not a function of one reward per sample"))
        .with_key("algo.advantage");
  }
  if (p.kind != Advantage::kOpo) return;
  require_same_size("lengths", lengths.size(), num_samples);
  for (const int32_t n : lengths) require_value(n >= 0, "lengths", n, "at least 0");
}

[[noreturn]] void fail_passk_singleton(size_t sample) {
  throw Error(Code::kInvalidArgument,
              str("sample ", sample,
                  " is alone in its group: grpo_passk compares two samples; "
                  "algo.adv_singleton = zero gives such a sample the advantage 0"))
      .with_key("algo.adv_singleton");
}

// The reward minus its baseline, before any division.
double centred_reward(const AdvantageParams& p, double reward, const GroupStats& s,
                      const GroupExtra& e, size_t sample) {
  if (s.count == 1) return reward;
  const auto n = static_cast<double>(s.count);
  if (p.kind == Advantage::kRloo) return n / (n - 1) * (reward - s.mean);
  if (p.kind == Advantage::kOpo && e.tokens > 0) return reward - e.token_rewards / e.tokens;
  if (p.kind == Advantage::kGrpoPassk) return sample == e.best_sample ? e.best - e.second : 0.0;
  return reward - s.mean;
}

}  // namespace

std::string_view advantage_name(Advantage v) { return choice_name(kAdvantages, v); }
Advantage parse_advantage(std::string_view text) {
  return parse_choice("algo.advantage", kAdvantages, text);
}
std::string_view adv_singleton_name(AdvSingleton v) { return choice_name(kSingletons, v); }
AdvSingleton parse_adv_singleton(std::string_view text) {
  return parse_choice("algo.adv_singleton", kSingletons, text);
}

void validate(const AdvantageParams& p) {
  require_value(p.eps > 0 && std::isfinite(p.eps), "algo.adv_eps", p.eps, "a finite value above 0");
  require_value(p.ddof == 0 || p.ddof == 1, "algo.adv_ddof", p.ddof, "0 or 1");
}

void group_advantages(const AdvantageParams& params, std::span<const double> rewards,
                      std::span<const int32_t> group, std::span<double> advantages,
                      std::span<const int32_t> lengths) {
  validate(params);
  require_same_size("group", group.size(), rewards.size());
  require_same_size("advantages", advantages.size(), rewards.size());
  check_kind(params, rewards.size(), lengths);
  check_samples(rewards, group);
  if (rewards.empty()) return;
  if (params.kind == Advantage::kFlashReinforce) return subtract_batch_mean(rewards, advantages);
  const std::vector<GroupStats> stats = group_stats(rewards, group);
  const std::vector<GroupExtra> extra = group_extra(rewards, group, lengths);
  const bool use_std = uses_std(params);
  const bool of_batch = params.std_scope == AdvStdScope::kBatch;
  const double batch_std = use_std && of_batch ? batch_spread(rewards, params.ddof) : 1.0;
  const double scale = params.kind == Advantage::kGpg ? gpg_scale(rewards) : 1.0;
  for (size_t i = 0; i < rewards.size(); ++i) {
    const auto g = static_cast<size_t>(group[i]);
    const GroupStats& s = stats[g];
    const bool single = s.count == 1;
    if (single && params.singleton == AdvSingleton::kZero) {
      advantages[i] = 0;
      continue;
    }
    if (single && params.kind == Advantage::kGrpoPassk) fail_passk_singleton(i);
    const double centred = centred_reward(params, rewards[i], s, extra[g], i);
    const double group_std = single ? 1.0 : spread(s.count, s.squares, params.ddof);
    const double std = of_batch ? batch_std : group_std;
    advantages[i] = use_std ? centred / (std + params.eps) : scale * centred;
  }
}

void gdpo_advantages(const AdvantageParams& params, std::span<const std::vector<double>> rewards,
                     std::span<const double> weights, std::span<const int32_t> group,
                     std::span<double> advantages) {
  require_same_size("weights", weights.size(), rewards.size());
  AdvantageParams grpo = params;
  grpo.kind = Advantage::kGrpo;
  std::fill(advantages.begin(), advantages.end(), 0.0);
  std::vector<double> one(advantages.size());
  for (size_t k = 0; k < rewards.size(); ++k) {
    require_value(std::isfinite(weights[k]), "weights", weights[k], "a finite value");
    group_advantages(grpo, rewards[k], group, one);
    for (size_t i = 0; i < one.size(); ++i) advantages[i] += weights[k] * one[i];
  }
}

}  // namespace rl

// Two passes over the batch: group means, then squared deviations from them.
#include "algo/advantage.h"

#include <array>
#include <cmath>
#include <vector>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<Advantage>, 2> kAdvantages{
    {{Advantage::kGrpo, "grpo"}, {Advantage::kDrGrpo, "dr_grpo"}}};
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

// Spread of count values; a single value has none, and 1 stands in.
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

double batch_spread(std::span<const double> rewards, int32_t ddof) {
  const std::vector<int32_t> one_group(rewards.size(), 0);
  const GroupStats s = group_stats(rewards, one_group).front();
  return spread(s.count, s.squares, ddof);
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
                      std::span<const int32_t> group, std::span<double> advantages) {
  validate(params);
  require_same_size("group", group.size(), rewards.size());
  require_same_size("advantages", advantages.size(), rewards.size());
  check_samples(rewards, group);
  if (rewards.empty()) return;
  const std::vector<GroupStats> stats = group_stats(rewards, group);
  const bool use_std = params.kind == Advantage::kGrpo && params.norm_std;
  const bool of_batch = params.std_scope == AdvStdScope::kBatch;
  const double batch_std = use_std && of_batch ? batch_spread(rewards, params.ddof) : 1.0;
  for (size_t i = 0; i < rewards.size(); ++i) {
    const GroupStats& s = stats[static_cast<size_t>(group[i])];
    const bool single = s.count == 1;
    if (single && params.singleton == AdvSingleton::kZero) {
      advantages[i] = 0;
      continue;
    }
    const double centred = rewards[i] - (single ? 0.0 : s.mean);
    const double group_std = single ? 1.0 : spread(s.count, s.squares, params.ddof);
    const double std = of_batch ? batch_std : group_std;
    advantages[i] = use_std ? centred / (std + params.eps) : centred;
  }
}

}  // namespace rl

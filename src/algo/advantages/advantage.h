// Advantages that compare a sample's reward with its group, the samples of one prompt. Pure
// functions of the whole batch: the caller passes all samples of a group in one call, in its fixed
// order. Estimators that need token rewards are in algo/advantages/returns.h.
//
// n, mean, std: over the group.  std = sqrt(sum (r - mean)^2 / (n - ddof)), over the group, or
// with std_scope batch over the batch with its own mean
//   grpo        (r - mean) / (std + eps), r - mean with norm_std off          arXiv 2402.03300
//   dr_grpo     r - mean, whatever norm_std says                              arXiv 2503.20783
//   rloo        r - (mean of the others) = n / (n - 1) (r - mean)             arXiv 2402.14740
//   opo         r - sum(T r) / sum(T), T = loss tokens of a sample            arXiv 2505.23585
//   gpg         a (r - mean), a = samples / max(1, samples with r != 0)       arXiv 2504.02546
//   grpo_passk  best sample: (r1 - r2) / (std + eps), r1 - r2 with norm_std off; others 0;
//               r1, r2 = the two best rewards, the first sample wins a tie    arXiv 2503.19595
//   reinforce_pp_baseline  r - mean, then spread over tokens and whitened     arXiv 2501.03262
//   flash_reinforce  r - mean of the batch, whatever the groups     FlashREINFORCE; OpenRLHF, verl
//   gdpo        sum over reward components k of w_k grpo(r_k), then spread and whitened (verl)
//
// Values used elsewhere: eps 1e-6 (verl), 1e-9 (OpenRLHF), 1e-4 (TRL), all with ddof 1.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rl {

enum class Advantage : uint8_t {
  kGrpo,
  kDrGrpo,
  kRloo,
  kOpo,
  kGpg,
  kGrpoPassk,
  kReinforcePpBaseline,
  kFlashReinforce,
  kGdpo,
  kGae,  // algo/advantages/returns.h, as are the next two
  kReinforcePp,
  kRemax,
  kCustom,  // a host's own: algo/algo_arrays.h
};
std::string_view advantage_name(Advantage v);
Advantage parse_advantage(std::string_view text);  // key algo.advantage

// The advantage in a group of one sample. raw: 0 replaces its mean and 1 its std, so the reward
// passes through, divided by (1 + eps) if the std of groups is applied (verl); with std_scope
// batch it is divided by the batch's std like every other sample's. zero: advantage 0, the sample
// adds no gradient (verl's vectorised rloo). grpo_passk has no raw form: a group of one is
// Error(kInvalidArgument) there.
enum class AdvSingleton : uint8_t { kRaw, kZero };
std::string_view adv_singleton_name(AdvSingleton v);
AdvSingleton parse_adv_singleton(std::string_view text);  // key algo.adv_singleton

enum class AdvStdScope : uint8_t { kGroup, kBatch };

struct AdvantageParams {
  Advantage kind = Advantage::kGrpo;
  bool norm_std = true;
  double eps = 1e-6;  // > 0
  int32_t ddof = 1;   // 0 or 1
  AdvSingleton singleton = AdvSingleton::kRaw;
  AdvStdScope std_scope = AdvStdScope::kGroup;
};

// Throws Error(kOutOfRange) naming the option.
void validate(const AdvantageParams& params);

// advantages[i] from rewards[i] and group[i], a group index in [0, rewards.size()); groups may
// interleave. Sums run in sample order, in double. A reward that is not finite is
// Error(kNonFinite) with its index. lengths: loss tokens of each sample, used only by opo; a group
// without tokens has the plain mean as its baseline. A kind of algo/advantages/returns.h, or gdpo,
// is Error(kInvalidArgument).
void group_advantages(const AdvantageParams& params, std::span<const double> rewards,
                      std::span<const int32_t> group, std::span<double> advantages,
                      std::span<const int32_t> lengths = {});

// gdpo: rewards[k] is component k of every sample's reward, weights[k] its weight. Each component
// goes through grpo with params; params.kind is ignored.
void gdpo_advantages(const AdvantageParams& params, std::span<const std::vector<double>> rewards,
                     std::span<const double> weights, std::span<const int32_t> group,
                     std::span<double> advantages);

}  // namespace rl

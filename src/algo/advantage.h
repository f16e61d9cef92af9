// Advantages of group-relative policy optimisation: a sample's reward is compared with its group,
// the samples of one prompt. Pure functions of the whole batch: the caller passes all samples of a
// group in one call, in its fixed order.
//
//   grpo     A_i = (r_i - mean_g) / (std + eps), r_i - mean_g with norm_std off (arXiv 2402.03300)
//   dr_grpo  A_i = r_i - mean_g, whatever norm_std says                         (arXiv 2503.20783)
//
// std = sqrt(sum (r - mean)^2 / (n - ddof)) over the group, or over the batch with its own mean
// (std_scope batch). Values seen in the field: eps 1e-6 (verl), 1e-9 (OpenRLHF), 1e-4 (TRL), all
// with ddof 1.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rl {

enum class Advantage : uint8_t { kGrpo, kDrGrpo };
std::string_view advantage_name(Advantage v);
Advantage parse_advantage(std::string_view text);  // key algo.advantage

// What a group of one sample gets. raw: mean 0 and std 1 stand in, so the reward passes through,
// over (1 + eps) where std is applied (verl). zero: advantage 0, the sample teaches nothing.
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
// interleave. Sums run in sample order, in double. A reward that is not finite is Error(kNonFinite)
// with its index.
void group_advantages(const AdvantageParams& params, std::span<const double> rewards,
                      std::span<const int32_t> group, std::span<double> advantages);

}  // namespace rl

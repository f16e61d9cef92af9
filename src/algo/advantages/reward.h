// From scores to rewards: shaping of a sample's score, and token rewards with a KL penalty.
//
//   clip        clamp(r, low, high); OpenRLHF applies it after the group's baseline
//   overlong    r - factor * e / buffer, e = T - (max_length - buffer) where above 0 (arXiv
//               2503.14476); capped: e is at most buffer (OpenRLHF; verl does not cap)
//   truncation  of a sample cut by the length limit: r * penalty for penalty >= 0, else the reward
//               is penalty itself (OpenRLHF stop_properly_penalty_coef)
//   normalize   (r - mean) / sqrt(var + eps), moments given
//   KL penalty  token reward = -coef * kl_t, plus the sample's reward at its last loss token
#pragma once
#include <cstdint>
#include <span>

#include "algo/moments.h"
#include "algo/response_shape.h"

namespace rl {

struct RewardClip {
  double low;
  double high;  // >= low; both may be infinite
};
void validate(const RewardClip& clip);
double clip_reward(const RewardClip& clip, double reward);

struct OverlongParams {
  int32_t max_length = 0;  // of a response, >= 1
  int32_t buffer = 0;      // 0 (off) or 1..max_length
  double penalty = 1.0;    // factor, finite, >= 0
  bool capped = true;
};
// Throws Error(kOutOfRange) naming the option.
void validate(const OverlongParams& params);
// Subtracted from the reward of a response of `length` tokens, >= 0.
double overlong_penalty(const OverlongParams& params, int32_t length);

double truncation_reward(double penalty, double reward, bool truncated);

// Rewards must be finite; var uses ddof 1 as verl does.
double normalize_reward(const Moments& moments, double eps, double reward);

struct TokenRewardInput {
  ResponseShape shape;
  std::span<const double> rewards;  // of each sample
  std::span<const double> kl;       // of each token; empty: no KL penalty
  double kl_coef = 0;               // algo.kl.coef, finite, >= 0
};
// Masked tokens get 0. The reward of a sample without a loss token is dropped.
void token_rewards(const TokenRewardInput& in, std::span<double> out);

}  // namespace rl

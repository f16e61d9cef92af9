// Formulas in double.
#include "algo/advantages/reward.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"

namespace rl {

void validate(const RewardClip& clip) {
  require_value(!std::isnan(clip.low), "algo.reward.clip_low", clip.low, "a number");
  require_value(clip.high >= clip.low, "algo.reward.clip_high", clip.high,
                "at least algo.reward.clip_low");
}

double clip_reward(const RewardClip& clip, double reward) {
  return std::clamp(reward, clip.low, clip.high);
}

void validate(const OverlongParams& p) {
  require_value(p.max_length >= 1, "max_length", p.max_length, "at least 1");
  require_value(p.buffer >= 0 && p.buffer <= p.max_length, "algo.reward.overlong_buffer", p.buffer,
                "0 (off) or 1 to the largest response");
  require_value(p.penalty >= 0 && std::isfinite(p.penalty), "algo.reward.overlong_penalty",
                p.penalty, "a finite value of at least 0");
}

double overlong_penalty(const OverlongParams& p, int32_t length) {
  if (p.buffer == 0) return 0;
  const int64_t excess = int64_t{length} - (int64_t{p.max_length} - p.buffer);
  const int64_t used = p.capped ? std::min<int64_t>(excess, p.buffer) : excess;
  return used <= 0 ? 0.0 : static_cast<double>(used) / p.buffer * p.penalty;
}

double truncation_reward(double penalty, double reward, bool truncated) {
  require_value(std::isfinite(penalty), "algo.reward.truncation_penalty", penalty,
                "a finite value");
  if (!truncated) return reward;
  return penalty >= 0 ? reward * penalty : penalty;
}

double normalize_reward(const Moments& moments, double eps, double reward) {
  require_value(eps > 0 && std::isfinite(eps), "eps", eps, "a finite value above 0");
  return (reward - moments.mean) / std::sqrt(variance(moments, 1) + eps);
}

void token_rewards(const TokenRewardInput& in, std::span<double> out) {
  require_value(in.kl_coef >= 0 && std::isfinite(in.kl_coef), "algo.kl.coef", in.kl_coef,
                "a finite value of at least 0");
  if (!in.kl.empty()) require_same_size("kl", in.kl.size(), out.size());
  require_same_size("rewards", in.rewards.size(), in.shape.lengths.size());
  check_shape(in.shape, out.size());
  std::fill(out.begin(), out.end(), 0.0);
  for_each_sequence(in.shape, [&](size_t i, size_t begin, size_t end) {
    bool last = true;
    for (size_t t = end; t-- > begin;) {
      if (in.shape.mask[t] == 0) continue;
      if (!in.kl.empty()) out[t] -= in.kl_coef * in.kl[t];
      if (last) out[t] += in.rewards[i];
      last = false;
    }
  });
}

}  // namespace rl

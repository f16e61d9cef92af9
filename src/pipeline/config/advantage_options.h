// How rewards become advantages: the option record of batch_advantages.h.
#pragma once
#include <cstdint>
#include <vector>

#include "algo/advantages/advantage.h"
#include "algo/advantages/kl_controller.h"
#include "algo/advantages/returns.h"
#include "algo/advantages/reward.h"
#include "algo/algo_arrays.h"
#include "algo/losses/kl.h"
#include "algo/moments.h"

namespace rl {

// algo.reward.*
struct RewardShaping {
  bool normalize = false;
  double truncation_penalty = 1;  // 1: off
  OverlongParams overlong;
  bool clips = false;
  bool clips_advantage = false;  // after the baseline
  RewardClip clip{0, 0};
};

enum class Whitening : uint8_t { kNone, kEps, kFloor };

struct AdvantageOptions {
  AdvantageParams estimator;
  std::vector<double> gdpo_weights;  // weights of the reward components
  ReturnsParams returns;             // gamma; lambda and masked are read by gae
  Whitening whitening = Whitening::kNone;
  RewardShaping shaping;
  bool kl_in_reward = false;
  bool kl_per_token = false;
  KlEstimator kl_estimator;
  KlBounds kl_bounds;  // value_clamp only: a reward has no gradient
  // Which samples carry no loss.
  bool masks_overlong = false;
  double repetition_limit = 1;
  int32_t repetition_ngram = 4;
};

}  // namespace rl

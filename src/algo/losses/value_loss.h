// Loss of a critic, with its gradient in the predicted value.
//
//   l = max((v - R)^2, (clamp(v, v_old - clip, v_old + clip) - R)^2) / 2
//       (arXiv 1707.06347 and its reference code; verl compute_value_loss, OpenRLHF ValueLoss;
//       clip 0 is off: OpenRLHF's default; verl's default is 0.5, slime's 0.2)
//
// The gradient is v - R, and 0 where the clipped term is the larger one.
#pragma once
#include <cstdint>
#include <span>

namespace rl {

struct ValueLossInput {
  std::span<const float> value;      // predicted
  std::span<const float> old_value;  // at sampling
  std::span<const float> returns;
  std::span<const double> weight;  // algo/losses/loss_agg.h; 0: masked, not read and not counted
};

struct ValueLossSums {
  double loss = 0;
  int64_t num_tokens = 0;
  int64_t num_clipped = 0;  // the clipped term is the larger one
};

// clip finite, >= 0, else Error(kOutOfRange) naming algo.value_clip. Adds weight * dl/dv to
// gradient.
ValueLossSums value_loss(double clip, const ValueLossInput& in, std::span<double> gradient);

}  // namespace rl

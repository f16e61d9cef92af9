// One loop in token order.
#include "algo/losses/value_loss.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"

namespace rl {

ValueLossSums value_loss(double clip, const ValueLossInput& in, std::span<double> gradient) {
  require_value(clip >= 0 && std::isfinite(clip), "algo.value_clip", clip,
                "a finite value of at least 0");
  const size_t n = in.value.size();
  require_same_size("old_value", in.old_value.size(), n);
  require_same_size("returns", in.returns.size(), n);
  require_same_size("weight", in.weight.size(), n);
  require_same_size("gradient", gradient.size(), n);
  ValueLossSums sums;
  for (size_t i = 0; i < n; ++i) {
    if (in.weight[i] == 0) continue;
    const double v = in.value[i];
    const double old = in.old_value[i];
    const double limited = clip > 0 ? std::clamp(v, old - clip, old + clip) : v;
    const double error = v - in.returns[i];
    const double limited_error = limited - in.returns[i];
    const bool clipped = limited_error * limited_error > error * error;
    const double used = clipped ? limited_error : error;
    ++sums.num_tokens;
    sums.num_clipped += clipped;
    sums.loss += in.weight[i] * used * used / 2;
    if (!clipped) gradient[i] += in.weight[i] * error;
  }
  return sums;
}

}  // namespace rl

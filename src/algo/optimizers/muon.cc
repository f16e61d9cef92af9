// The numbers of a step, in double.
#include "algo/optimizers/muon.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"

namespace rl {

void validate(const MuonParams& p) {
  require_value(p.momentum >= 0 && p.momentum < 1, "optimizer.muon_momentum", p.momentum,
                "at least 0, below 1");
  require_value(p.ns_steps >= 1 && p.ns_steps <= 20, "optimizer.muon_ns_steps",
                static_cast<double>(p.ns_steps), "1..20");
}

float muon_norm_scale(double norm_squared) {
  return static_cast<float>(1 / (std::sqrt(norm_squared) + 1e-7));
}

float muon_update_scale(double lr, int64_t rows, int64_t columns) {
  return static_cast<float>(lr * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns))));
}

}  // namespace rl

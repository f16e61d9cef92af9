// Gradients and AdamW moments of the trained parameters, flat (model/weights.h), in memory of the
// device. Sums and updates
// do not depend on the thread count (ops/optimizer_ops.h).
#pragma once
#include <span>
#include <vector>

#include "algo/optimizers/adamw.h"
#include "core/arena.h"
#include "model/weights.h"
#include "ops/device_floats.h"

namespace rl {

class AdamwState {
 public:
  // total is the layout's gradient_total(), padding included: padding stays zero.
  AdamwState(int64_t total, Compute& compute);
  static uint64_t gradient_bytes(int64_t total);
  static uint64_t moment_bytes(int64_t total);

  DeviceFloats gradients() const { return part(gradients_, 0); }
  DeviceFloats first_moments() const { return part(moments_, 0); }
  DeviceFloats second_moments() const { return part(moments_, 1); }

  std::vector<std::span<std::byte>> memory() const { return {gradients_.span(), moments_.span()}; }

  void zero_gradients();
  // Global norm; chunk sums are added in order.
  double gradient_norm();
  // Updates these runs of the masters; the others keep their bits.
  void update(const AdamwStep& step, std::span<const TrainedRun> runs, float* masters);

 private:
  static uint64_t padded(int64_t total);
  DeviceFloats part(const Arena& arena, int64_t index) const;

  int64_t total_;
  Compute& compute_;
  Arena gradients_, moments_;
  std::vector<double> chunk_sums_;
};

}  // namespace rl

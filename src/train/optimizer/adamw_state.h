// Gradients and moments of the trained parameters (model/weights.h), and AdamW's steps on them.
// Gradients are one flat fp32 array in memory of the device; moments are those of MomentLayout, in
// fp32 or fewer bits. The step of a parameter on the host copies its gradient and weights into a
// staging buffer there and the weights back; no bit depends on it. Nor do sums and updates depend
// on the thread count (ops/optimizer_ops.h).
#pragma once
#include <span>
#include <vector>

#include "algo/optimizers/adamw.h"
#include "core/arena.h"
#include "model/weights.h"
#include "ops/compute.h"
#include "ops/device_floats.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/moment_layout.h"

namespace rl {

struct MomentBytes {
  uint64_t device = 0, host = 0, staging = 0;
};

class AdamwState {
 public:
  // layout outlives it. Padding of the gradients stays zero.
  AdamwState(const WeightLayout& layout, const OptimizerOptions& options, Compute& compute);
  static uint64_t gradient_bytes(int64_t total);
  static MomentBytes moment_bytes(const WeightLayout& layout, const OptimizerOptions& options);

  DeviceFloats gradients() const {
    return {compute_, gradients_.at<float>(0), layout_.gradient_total()};
  }
  // Of a parameter whose moments are in fp32.
  float* first_moments(const TrainedRun& run);

  std::vector<std::span<std::byte>> memory() const;
  // For a checkpoint.
  std::vector<StateArray> arrays() const;

  void zero_gradients();
  // Global norm; chunk sums are added in order.
  double gradient_norm();
  // Updates these runs of the masters; the others keep their bits. number: of the optimizer step,
  // for random numbers.
  void update(const AdamwStep& step, int64_t number, std::span<const TrainedRun> runs,
              float* masters);

 private:
  // Weights and gradients of a run, where its moments are.
  struct Operands {
    float* weights;
    float* gradients;
  };
  std::byte* moments(const MomentPlace& place) const;
  void apply(const AdamwStep& step, int64_t number, const TrainedRun& run, const Operands& on);
  uint64_t rounding_block(const MomentPlace& place) const;
  Operands staged(int64_t buffer) const;
  void fetch(const TrainedRun& run, float* masters, int64_t buffer);
  void update_on_host(const AdamwStep& step, int64_t number,
                      std::span<const TrainedRun* const> runs, float* masters);
  void add_tensors(const Parameter& p, StateArray& first, StateArray& second) const;

  const WeightLayout& layout_;
  const OptimizerOptions options_;
  const MomentLayout places_;
  Compute& compute_;
  Arena gradients_, moments_, host_moments_, staging_;
  std::vector<double> chunk_sums_;
};

}  // namespace rl

// Exponential moving averages of the trained parameters (optimizer.ema), in fp32 and in the layout
// of the gradients, or of this rank's piece of them. They begin as the masters at construction, and
// follow them after each optimizer step.
#pragma once
#include <span>
#include <vector>

#include "core/arena.h"
#include "model/weights.h"
#include "ops/device_floats.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/shards.h"

namespace rl {

class EmaWeights {
 public:
  // decay 0: nothing is kept. layout and shards outlive it.
  EmaWeights(const WeightLayout& layout, double decay, const MasterFloats& masters,
             Compute& compute, const Shards& shards);
  static uint64_t bytes(uint64_t elements, double decay);

  bool kept() const { return decay_ > 0; }
  DeviceFloats averages() const {
    return {compute_, averages_.at<float>(0), static_cast<int64_t>(shards_.own().count())};
  }
  std::span<std::byte> memory() const { return averages_.span(); }
  Arena& arena() { return averages_; }
  void update(const MasterFloats& masters);
  // Exchanges the averages and the trained parameters of the masters; not with those of a piece.
  void exchange(const MasterFloats& masters);
  StateArray state() const;

 private:
  // Calls visit with the masters of every run of this rank and their averages' place.
  void for_each_run(FunctionRef<void(const TrainedRun& run, float* averages)> visit) const;

  const WeightLayout& layout_;
  const double decay_;
  Compute& compute_;
  const Shards& shards_;
  Arena averages_;
};

}  // namespace rl

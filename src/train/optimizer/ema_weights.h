// Exponential moving averages of the trained parameters (optimizer.ema), in fp32 and in the layout
// of the gradients. They begin as the masters at construction, and follow them after each optimizer
// step.
#pragma once
#include <span>
#include <vector>

#include "core/arena.h"
#include "model/weights.h"
#include "ops/device_floats.h"
#include "train/checkpoint/checkpoint.h"

namespace rl {

class EmaWeights {
 public:
  // decay 0: nothing is kept.
  EmaWeights(const WeightLayout& layout, double decay, const float* masters, Compute& compute);
  static uint64_t bytes(int64_t total, double decay);

  bool kept() const { return decay_ > 0; }
  DeviceFloats averages() const {
    return {compute_, averages_.at<float>(0), layout_.gradient_total()};
  }
  std::span<std::byte> memory() const { return averages_.span(); }
  Arena& arena() { return averages_; }
  void update(const float* masters);
  // Exchanges the averages and the trained parameters of the masters.
  void exchange(float* masters);
  StateArray state() const;

 private:
  const WeightLayout& layout_;
  const double decay_;
  Compute& compute_;
  Arena averages_;
};

}  // namespace rl

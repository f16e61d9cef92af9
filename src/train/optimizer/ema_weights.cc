// Runs of the layout, one op each.
#include "train/optimizer/ema_weights.h"

#include "core/checked.h"
#include "core/error.h"

namespace rl {

uint64_t EmaWeights::bytes(int64_t total, double decay) {
  if (decay == 0) return 0;
  return (CheckedU64(total) * CheckedU64(sizeof(float))).align_up(ArenaPlan::kAlignment).get();
}

EmaWeights::EmaWeights(const WeightLayout& layout, double decay, const float* masters,
                       Compute& compute)
    : layout_(layout),
      decay_(decay),
      compute_(compute),
      averages_("averaged weights", bytes(layout.gradient_total(), decay), Touch::kLater,
                compute.memory()) {
  if (!kept()) return;
  for (const TrainedRun& run : layout_.trained_runs()) {
    copy_bytes(compute_, {masters + run.master, averages().data() + run.gradient,
                          static_cast<uint64_t>(run.size) * sizeof(float)});
  }
}

void EmaWeights::update(const float* masters) {
  if (!kept()) return;
  for (const TrainedRun& run : layout_.trained_runs()) {
    average_floats(compute_,
                   {decay_, masters + run.master, averages().data() + run.gradient, run.size});
  }
}

void EmaWeights::exchange(float* masters) {
  RL_CHECK(kept());
  for (const TrainedRun& run : layout_.trained_runs()) {
    exchange_floats(compute_, {masters + run.master, averages().data() + run.gradient, run.size});
  }
}

StateArray EmaWeights::state() const {
  return {"ema", trained_tensors(layout_, {averages(), &Parameter::gradient})};
}

}  // namespace rl

// Two arenas: gradients, and both moments one after the other.
#include "train/optimizer/adamw_state.h"

#include <cmath>

#include "core/checked.h"

namespace rl {

uint64_t AdamwState::padded(int64_t total) {
  return (CheckedU64(total) * CheckedU64(sizeof(float))).align_up(ArenaPlan::kAlignment).get();
}
uint64_t AdamwState::gradient_bytes(int64_t total) { return padded(total); }
uint64_t AdamwState::moment_bytes(int64_t total) {
  return (CheckedU64(2) * CheckedU64(padded(total))).get();
}

AdamwState::AdamwState(int64_t total, Compute& compute)
    : total_(total),
      compute_(compute),
      gradients_("gradients", gradient_bytes(total), Touch::kLater, compute.memory()),
      moments_("optimizer states", moment_bytes(total), Touch::kLater, compute.memory()),
      chunk_sums_(static_cast<size_t>(num_optimizer_chunks(total))) {}

DeviceFloats AdamwState::part(const Arena& arena, int64_t index) const {
  return {compute_, arena.at<float>(static_cast<uint64_t>(index) * padded(total_)), total_};
}

void AdamwState::zero_gradients() { zero_floats(compute_, {gradients().data(), total_}); }

double AdamwState::gradient_norm() {
  double sum = 0;
  squared_norm(compute_, {gradients().data(), total_, chunk_sums_, sum});
  return std::sqrt(sum);
}

void AdamwState::update(const AdamwStep& step, std::span<const TrainedRun> runs, float* masters) {
  for (const TrainedRun& run : runs) {
    const int64_t at = run.gradient;
    adamw(compute_, {step, masters + run.master, first_moments().data() + at,
                     second_moments().data() + at, gradients().data() + at, run.size});
  }
}

}  // namespace rl

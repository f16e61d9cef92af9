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
      gradients_("gradients", gradient_bytes(total), Touch::kLater, compute.ledger()),
      moments_("optimizer states", moment_bytes(total), Touch::kLater, compute.ledger()),
      chunk_sums_(static_cast<size_t>(num_optimizer_chunks(total))) {}

std::span<float> AdamwState::part(const Arena& arena, int64_t index) const {
  return {arena.at<float>(static_cast<uint64_t>(index) * padded(total_)),
          static_cast<size_t>(total_)};
}

void AdamwState::zero_gradients() { zero_floats(compute_, {gradients()}); }

double AdamwState::gradient_norm() {
  double sum = 0;
  squared_norm(compute_, {gradients(), chunk_sums_, sum});
  return std::sqrt(sum);
}

void AdamwState::update(const AdamwStep& step, std::span<const TrainedRun> runs,
                        std::span<float> masters) {
  for (const TrainedRun& run : runs) {
    const auto of = [&](auto all, int64_t first) {
      return all.subspan(static_cast<size_t>(first), static_cast<size_t>(run.size));
    };
    const int64_t at = run.gradient;
    adamw(compute_, {step,
                     {of(masters, run.master), of(first_moments(), at), of(second_moments(), at),
                      of(gradients(), at)}});
  }
}

}  // namespace rl

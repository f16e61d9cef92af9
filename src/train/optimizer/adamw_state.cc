// A chunk is a whole number of the norm's blocks.
#include "train/optimizer/adamw_state.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"

namespace rl {
namespace {
constexpr int64_t kChunk = 16 * kGradNormBlock;  // floats per task
}

uint64_t AdamwState::padded(int64_t total) {
  return (CheckedU64(total) * CheckedU64(sizeof(float))).align_up(ArenaPlan::kAlignment).get();
}
uint64_t AdamwState::gradient_bytes(int64_t total) { return padded(total); }
uint64_t AdamwState::moment_bytes(int64_t total) {
  return (CheckedU64(2) * CheckedU64(padded(total))).get();
}

AdamwState::AdamwState(int64_t total, Executor& executor, ArenaLedger* ledger)
    : total_(total),
      executor_(executor),
      gradients_("gradients", gradient_bytes(total), Touch::kLater, ledger),
      moments_("optimizer states", moment_bytes(total), Touch::kLater, ledger),
      chunk_sums_(static_cast<size_t>(num_chunks())) {}

int64_t AdamwState::num_chunks() const { return (total_ + kChunk - 1) / kChunk; }

std::span<float> AdamwState::part(const Arena& arena, int64_t index) const {
  return {arena.at<float>(static_cast<uint64_t>(index) * padded(total_)),
          static_cast<size_t>(total_)};
}

std::span<float> AdamwState::chunk(std::span<float> flat, int64_t index) const {
  const int64_t first = index * kChunk;
  return flat.subspan(static_cast<size_t>(first),
                      static_cast<size_t>(std::min(kChunk, total_ - first)));
}

void AdamwState::zero_gradients() {
  executor_.parallel_for(num_chunks(),
                         [&](int64_t i, int) { std::ranges::fill(chunk(gradients(), i), 0.0f); });
}

double AdamwState::gradient_norm() {
  executor_.parallel_for(num_chunks(), [&](int64_t i, int) {
    chunk_sums_[i] = grad_norm_squared(chunk(gradients(), i));
  });
  double sum = 0;
  for (const double s : chunk_sums_) sum += s;
  return std::sqrt(sum);
}

void AdamwState::update(const AdamwStep& step, std::span<float> masters) {
  RL_CHECK(static_cast<int64_t>(masters.size()) == total_);
  executor_.parallel_for(num_chunks(), [&](int64_t i, int) {
    adamw_update(step, {chunk(masters, i), chunk(first_moments(), i), chunk(second_moments(), i),
                        chunk(gradients(), i)});
  });
}

}  // namespace rl

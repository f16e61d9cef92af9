// Sums of a part in scratch, and their addition to the gradients.
#include "model/rounded_gradients.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kAlign = 16;  // floats of a cache line

int64_t aligned(int64_t floats) { return (floats + kAlign - 1) / kAlign * kAlign; }

}  // namespace

RoundedGradients::RoundedGradients(Compute& compute, const Memory& memory, uint64_t seed,
                                   uint32_t stream, Piece vocabulary)
    : compute_(compute),
      memory_(memory),
      key_(PhiloxKey{seed, RngPurpose::kGradientRounding}.derive()),
      stream_(stream),
      vocabulary_(vocabulary) {
  RL_CHECK(stream < kStreams);
}

int64_t RoundedGradients::scratch_floats(const WeightLayout& layout) {
  int64_t most = 1;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    const bool in_parts = p.shape.size() == 2 && !p.name.starts_with("model.layers.");
    most = std::max(most, in_parts ? p.shape[1] : p.size);
  }
  return num_optimizer_chunks(most) * kOptimizerChunk;
}

// Of many rows a multiple of kPartRows, so that operands of a product keep their alignment.
int64_t RoundedGradients::part_elements(int64_t room, int64_t width) {
  constexpr int64_t kPartRows = 64;
  RL_CHECK(width > 0 && width <= room);
  const int64_t rows = room / width;
  return (rows < kPartRows ? rows : rows / kPartRows * kPartRows) * width;
}

void RoundedGradients::begin(int64_t step) {
  step_ = static_cast<uint32_t>(step);
  additions_ = vocabulary_additions_ = 0;
  used_ = 0;
  zero_floats(compute_, {reinterpret_cast<float*>(memory_.values), memory_.count / 2});
  zero_floats(compute_, {memory_.scratch, memory_.scratch_floats});
}

RoundingKey RoundedGradients::next_key(int64_t at) {
  const auto place = static_cast<uint64_t>(at);
  const bool apart = place >= vocabulary_.begin && place < vocabulary_.end;
  uint32_t& additions = apart ? vocabulary_additions_ : additions_;
  return {key_, step_, additions++ * kStreams + stream_};
}

void RoundedGradients::fold(float* from, int64_t at, int64_t count) {
  const RoundingKey key = next_key(at);
  add_rounded(compute_, {key, {from, memory_.values + at, count, static_cast<uint64_t>(at)}});
}

void RoundedGradients::add(const GradientRows& rows, Add add) {
  const int64_t most = part_elements(memory_.scratch_floats - used_, rows.width);
  for (int64_t first = 0; first < rows.size; first += most) {
    const int64_t count = std::min(most, rows.size - first);
    float* const to = memory_.scratch + used_;
    used_ += aligned(count);
    add(to, first, count);
    used_ -= aligned(count);
    fold(to, rows.at + first, count);
  }
}

void RoundedGradients::add_rows(const VocabularyRows& rows,
                                FunctionRef<void(float* to, std::span<const int32_t> ids)> add) {
  if (rows.ids.empty()) return;
  distinct_.assign(rows.ids.begin(), rows.ids.end());
  std::ranges::sort(distinct_);
  distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
  places_.clear();
  for (const int32_t id : rows.ids) {
    const auto at = std::ranges::lower_bound(distinct_, id);
    places_.push_back(static_cast<int32_t>(at - distinct_.begin()));
  }
  const auto count = static_cast<int64_t>(distinct_.size()) * rows.width;
  zero_floats(compute_, {rows.scratch, count});
  add(rows.scratch, places_);
  const RoundingKey key = next_key(rows.at);
  uint16_t* const to = memory_.values + rows.at;
  add_rounded(
      compute_,
      {key, {rows.scratch, to, count, static_cast<uint64_t>(rows.at)}, distinct_, rows.width});
}

float* RoundedGradients::widened(int64_t first, int64_t count) {
  RL_CHECK(count <= memory_.scratch_floats);
  widen(first, count, memory_.scratch);
  return memory_.scratch;
}

void RoundedGradients::widen(int64_t first, int64_t count, float* to) const {
  RL_CHECK(first >= 0 && count >= 0 && first + count <= memory_.count);
  widen_bf16(compute_, {memory_.values + first, to, count});
}

void RoundedGradients::read(std::span<float> to) {
  RL_CHECK(static_cast<int64_t>(to.size()) == memory_.count);
  for (int64_t first = 0; first < memory_.count; first += piece()) {
    const int64_t count = std::min(piece(), memory_.count - first);
    const float* const from = widened(first, count);
    copy_bytes(compute_, {from, to.data() + first, static_cast<uint64_t>(count) * sizeof(float)});
  }
}

void RoundedGradients::write(std::span<const float> from) {
  RL_CHECK(static_cast<int64_t>(from.size()) == memory_.count);
  zero_floats(compute_, {reinterpret_cast<float*>(memory_.values), memory_.count / 2});
  for (int64_t first = 0; first < memory_.count; first += piece()) {
    const int64_t count = std::min(piece(), memory_.count - first);
    const auto bytes = static_cast<uint64_t>(count) * sizeof(float);
    copy_bytes(compute_, {from.data() + first, memory_.scratch, bytes});
    fold(memory_.scratch, first, count);
  }
}

void RoundedGradients::spoil() {
  if (memory_.count != 0) copy_bytes(compute_, {&kBf16Nan, memory_.values, sizeof kBf16Nan});
}

}  // namespace rl

// Parameters in order; those on the host are the first ones, until the fraction is reached.
#include "train/optimizer/moment_layout.h"

#include <algorithm>
#include <cmath>

#include "algo/optimizers/low_bit_adamw.h"
#include "core/arena.h"
#include "core/checked.h"
#include "train/optimizer/shards.h"
#include "train/options/update_runs.h"

namespace rl {
namespace {

constexpr int64_t kAlign = 16;  // elements

int64_t aligned(int64_t elements) { return (elements + kAlign - 1) / kAlign * kAlign; }

uint64_t element_bytes(StateDtype dtype) {
  if (dtype == StateDtype::kInt8) return 1;
  return dtype == StateDtype::kBf16 ? 2 : sizeof(float);
}

uint64_t padded(int64_t count, uint64_t bytes) {
  return (CheckedU64(static_cast<uint64_t>(count)) * CheckedU64(bytes))
      .align_up(ArenaPlan::kAlignment)
      .get();
}

int64_t trained_elements(const WeightLayout& layout, Piece own) {
  int64_t count = 0;
  for (const Parameter& p : layout.parameters())
    count += p.trainable() ? part_of({p.offset, p.gradient, p.size}, own).size : 0;
  return count;
}

}  // namespace

// The first place keeps its distance from a multiple of kAlign, so that a run of parameters that
// lie one behind the other in the gradients does so here.
MomentLayout::MomentLayout(const WeightLayout& layout, const OptimizerOptions& options, Piece own)
    : dtype_(options.state_dtype) {
  const double wanted =
      options.offload.on
          ? std::ceil(options.offload.fraction * static_cast<double>(trained_elements(layout, own)))
          : 0;
  device_.first = device_.second = static_cast<int64_t>(own.begin) % kAlign;
  int64_t moved = 0;
  uint64_t blocks = 0;
  bool muon_before = false;
  TrainedRun before;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    const TrainedRun run = part_of({p.offset, p.gradient, p.size}, own);
    const uint64_t rounding_block =
        blocks +
        static_cast<uint64_t>(std::max<int64_t>(0, run.gradient - p.gradient) / kInt8Block);
    blocks += static_cast<uint64_t>(num_int8_blocks(p.size));
    if (run.size == 0) continue;
    const bool on_host = static_cast<double>(moved) < wanted, muon = is_muon_matrix(p, options);
    if (on_host) moved += run.size;
    const bool is_first = before.size == 0 && run.gradient == static_cast<int64_t>(own.begin);
    const bool follows =
        is_first || (before.size != 0 && before.gradient + before.size == run.gradient &&
                     places_.at(before.gradient).on_host == on_host && muon_before == muon);
    add({run, !muon, on_host, follows, rounding_block});
    before = run;
    muon_before = muon;
  }
}

void MomentLayout::add(const Part& part) {
  MomentSpace& space = part.on_host ? host_ : device_;
  if (!part.follows) space.first = aligned(space.first);
  if (!part.follows) space.second = aligned(space.second);
  places_[part.run.gradient] = {part.on_host, space.first, part.has_second ? space.second : -1,
                                space.blocks, part.rounding_block};
  const int64_t size = part.run.size;
  space.first += size;
  if (part.has_second) space.second += size;
  if (dtype_ == StateDtype::kInt8) space.blocks += num_int8_blocks(size);
  if (part.on_host) largest_on_host_ = std::max(largest_on_host_, size);
}

MomentOffsets MomentLayout::offsets(bool on_host) const {
  const MomentSpace& s = space(on_host);
  const uint64_t each = element_bytes(dtype_);
  MomentOffsets at{};
  at.first_scales = padded(aligned(s.first), each);
  at.second = at.first_scales + padded(s.blocks, sizeof(float));
  at.second_scales = at.second + padded(aligned(s.second), each);
  at.total = at.second_scales + padded(s.blocks, sizeof(float));
  return at;
}

uint64_t MomentLayout::staging_bytes() const { return 2 * padded(largest_on_host_, sizeof(float)); }

}  // namespace rl

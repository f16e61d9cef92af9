// Parameters in order; those on the host are the first ones, until the fraction is reached.
#include "train/optimizer/moment_layout.h"

#include <algorithm>
#include <cmath>

#include "algo/optimizers/low_bit_adamw.h"
#include "core/arena.h"
#include "core/checked.h"
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

int64_t trained_elements(const WeightLayout& layout) {
  int64_t count = 0;
  for (const Parameter& p : layout.parameters()) count += p.trainable() ? p.size : 0;
  return count;
}

}  // namespace

MomentLayout::MomentLayout(const WeightLayout& layout, const OptimizerOptions& options)
    : dtype_(options.state_dtype) {
  const double wanted =
      options.offload.on
          ? std::ceil(options.offload.fraction * static_cast<double>(trained_elements(layout)))
          : 0;
  int64_t moved = 0;
  const Parameter* before = nullptr;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    const bool on_host = static_cast<double>(moved) < wanted;
    if (on_host) moved += p.size;
    const bool follows = before != nullptr && before->gradient + before->size == p.gradient &&
                         places_.at(before->gradient).on_host == on_host &&
                         is_muon_matrix(*before, options) == is_muon_matrix(p, options);
    add(p, !is_muon_matrix(p, options), on_host, follows);
    before = &p;
  }
}

void MomentLayout::add(const Parameter& p, bool has_second, bool on_host, bool follows) {
  MomentSpace& space = on_host ? host_ : device_;
  if (!follows) space.first = aligned(space.first);
  if (!follows) space.second = aligned(space.second);
  places_[p.gradient] = {on_host, space.first, has_second ? space.second : -1, space.blocks};
  space.first += p.size;
  if (has_second) space.second += p.size;
  if (dtype_ == StateDtype::kInt8) space.blocks += num_int8_blocks(p.size);
  if (on_host) largest_on_host_ = std::max(largest_on_host_, p.size);
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

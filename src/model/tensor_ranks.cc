// With a rank for each part an all-reduce adds in the order of parts. Otherwise every rank has the
// arrays of all parts and adds them itself.
#include "model/tensor_ranks.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {

const float* TensorRanks::sum(Compute& compute, const PartSums& parts) const {
  const TensorSplit& split = parts.split();
  const auto floats = static_cast<uint64_t>(parts.floats());
  RL_CHECK(split.ranks() == size());
  if (floats == 0) return parts.all();
  if (PartSums::slots(split) == 1) {
    if (size() > 1) group_->all_reduce(values_of(std::span(parts.all(), floats)));
    return parts.all();
  }
  const auto all = floats * static_cast<uint64_t>(split.parts);
  if (size() > 1) group_->all_gather(values_of(std::span(parts.all(), all)));
  for (int64_t p = 1; p < split.parts; ++p) {
    scale_add(compute,
              {{1.0f, parts.all(), 1.0f, parts.all() + p * parts.floats()}, parts.floats()});
  }
  return parts.all();
}

void TensorRanks::gather_bytes(std::span<std::byte> pieces) const {
  if (size() > 1 && !pieces.empty()) group_->all_gather(values_of(pieces));
}

void TensorRanks::broadcast_bytes(std::span<std::byte> bytes) const {
  if (size() > 1 && !bytes.empty()) group_->broadcast(values_of(bytes), 0);
}

std::vector<double> TensorRanks::gather(const std::vector<double>& own) const {
  if (size() == 1) return own;
  std::vector<double> all(own.size() * static_cast<size_t>(size()));
  std::ranges::copy(own, all.begin() + static_cast<ptrdiff_t>(own.size()) * rank());
  gather_bytes(std::as_writable_bytes(std::span(all)));
  return all;
}

std::vector<float> TensorRanks::gather_sections(const std::vector<float>& own,
                                                const WeightLayout& layout,
                                                int64_t LayoutSection::*offset,
                                                int64_t LayoutSection::*size_of) const {
  if (size() == 1) return own;
  const std::vector<LayoutSection>& sections = layout.sections();
  const int64_t whole = sections.front().*size_of, part = sections.back().*size_of;
  const int64_t count = layout.split().count * part;
  std::vector<float> all(static_cast<size_t>(whole + count * size()));
  std::copy_n(own.begin(), whole, all.begin());
  std::copy_n(own.begin() + sections[1].*offset, count, all.begin() + whole + count * rank());
  group_->all_gather(values_of(std::span(all).subspan(static_cast<size_t>(whole))));
  return all;
}

}  // namespace rl

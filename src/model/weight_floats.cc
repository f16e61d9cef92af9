// Fused parameters are contiguous, so a range may span several tensors.
#include "model/weight_floats.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

WeightFloats::WeightFloats(const WeightSource& source, const WeightLayout& layout, int num_workers,
                           int64_t room, ArenaLedger* ledger)
    : source_(&source),
      layout_(&layout),
      room_(room),
      rooms_("weights being read",
             (CheckedU64(static_cast<uint64_t>(num_workers)) *
              CheckedU64(static_cast<uint64_t>(room)) * CheckedU64(sizeof(float)))
                 .get(),
             Touch::kLater, ledger) {
  for (const Parameter& p : layout.parameters()) {
    tensors_.push_back(source.find(p.name));
    RL_CHECK(tensors_.back() >= 0);
  }
}

const float* WeightFloats::get(int64_t offset, int64_t count, int64_t at, int worker) const {
  if (masters_ != nullptr) return masters_ + offset;
  RL_CHECK(at + count <= room_);
  float* const to = rooms_.at<float>(0) + worker * room_ + at;
  copy(offset, {to, static_cast<size_t>(count)});
  return to;
}

void WeightFloats::copy(int64_t offset, std::span<float> out) const {
  if (masters_ != nullptr) {
    std::copy_n(masters_ + offset, out.size(), out.data());
    return;
  }
  const std::vector<Parameter>& all = layout_->parameters();
  const auto after = [](int64_t at, const Parameter& p) { return at < p.offset; };
  auto p = std::upper_bound(all.begin(), all.end(), offset, after) - 1;
  for (; !out.empty(); ++p) {
    RL_CHECK(p != all.end() && offset >= p->offset && offset < p->offset + p->size);
    const int64_t cols = p->shape.back(), first = offset - p->offset;
    const int64_t count = std::min(static_cast<int64_t>(out.size()), p->size - first);
    RL_CHECK(first % cols == 0 && count % cols == 0);
    source_->read(tensors_[static_cast<size_t>(p - all.begin())], first / cols,
                  out.first(static_cast<size_t>(count)));
    out = out.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

}  // namespace rl

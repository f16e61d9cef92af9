// Fused parameters are contiguous, so a range may span several tensors.
#include "model/weight_floats.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

WeightFloats::WeightFloats(const WeightSource& source, const WeightLayout& layout)
    : source_(&source), layout_(&layout) {
  for (const Parameter& p : layout.parameters()) {
    tensors_.push_back(source.find(p.tensor()));
    RL_CHECK(tensors_.back() >= 0);
  }
}

void WeightFloats::read(int64_t offset, std::span<float> out) const {
  if (!from_file()) {
    return masters_.part(offset, static_cast<int64_t>(out.size())).read(out);
  }
  const std::vector<Parameter>& all = layout_->parameters();
  const auto after = [](int64_t at, const Parameter& p) { return at < p.offset; };
  auto p = std::upper_bound(all.begin(), all.end(), offset, after) - 1;
  for (; !out.empty(); ++p) {
    RL_CHECK(p != all.end() && offset >= p->offset && offset < p->offset + p->size);
    const int64_t cols = p->columns(), first = offset - p->offset;
    const int64_t count = std::min(static_cast<int64_t>(out.size()), p->size - first);
    RL_CHECK(first % cols == 0 && count % cols == 0);
    source_->read_block(tensors_[static_cast<size_t>(p - all.begin())],
                        {p->first_row + first / cols, count / cols, p->first_column, cols},
                        out.first(static_cast<size_t>(count)));
    out = out.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

}  // namespace rl

// One row of logits as the head leaves it, on a device whose memory is the host's, and a choice
// from it.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/compute.h"

namespace rl::testing {

constexpr int64_t kTileWidth = 512;  // of the vocabulary, as a model has it

class HeadRow {
 public:
  HeadRow(const std::vector<float>& logits, float inv_temperature) : z_(logits) {
    const auto vocab = static_cast<int64_t>(z_.size());
    const ColumnSlices slices = slices_of_width(vocab, kTileWidth);
    width_ = slices.width;
    for (int64_t tile = 0; tile < slices.count(); ++tile) {
      tiles_.push_back(
          scale_and_measure(z_.data() + slices.first(tile), slices.size(tile), inv_temperature));
    }
    stats_ = combine_tiles(tiles_.data(), slices.count());
  }

  float logprob(int32_t id) const { return log_prob(z_[static_cast<size_t>(id)], stats_); }
  // scratch: of one thread. `row` names the parameters; its row is this one.
  TokenChoice choose(Compute& compute, SampleRow row, std::byte* scratch) const {
    TokenChoice choice;
    row.row = 0;
    sample_rows(compute, {{&row, 1},
                          z_.data(),
                          tiles_.data(),
                          &stats_,
                          static_cast<int64_t>(z_.size()),
                          width_,
                          scratch,
                          {&choice, 1}});
    return choice;
  }

 private:
  std::vector<float> z_;
  int64_t width_ = 0;
  std::vector<TileStats> tiles_;
  RowStats stats_{};
};

}  // namespace rl::testing

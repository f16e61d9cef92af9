#include "model/backward_work.h"

#include "core/error.h"
#include "model/transformer.h"
#include "ops/convert.h"

namespace rl {

BackwardWork::BackwardWork(int64_t max_rows, int64_t sum_width) : max_rows_(max_rows), sum_width_(sum_width) {
  const auto most = static_cast<size_t>(max_rows);
  sequences_.reserve(most);
  parts_.reserve(most);
  trunks_.reserve(most);
}

void BackwardWork::cut(std::span<const SequenceRows> sequences, float* sums) {
  sums_ = sums;
  sequences_.clear();
  parts_.clear();
  trunks_.clear();
  used_rows_ = 0;
  for (const SequenceRows& s : sequences) sequences_.push_back({s.first_row, s.rows, s.first_position, s.blocks});
  for (size_t i = 0; i < sequences.size();) {
    const auto trunk = static_cast<int32_t>(i);
    const SequenceRows& t = sequences[i];
    RL_CHECK(t.first_position == 0 && t.trunk < 0);
    add_part(i++, 1, 0);
    const size_t first_part = parts_.size();
    while (i < sequences.size() && sequences[i].trunk == trunk) {
      const size_t first = i;
      int64_t rows = 0;
      for (; i < sequences.size() && sequences[i].trunk == trunk && rows < t.rows; ++i) {
        RL_CHECK(sequences[i].first_position == t.rows);
        rows += sequences[i].rows;
      }
      add_part(first, i - first, t.rows);
    }
    if (parts_.size() > first_part) trunks_.push_back({t.first_row, t.rows, first_part, parts_.size()});
  }
}

void BackwardWork::add_part(size_t first_sequence, size_t count, int64_t prefix) {
  float* sums = prefix == 0 ? nullptr : sums_ + used_rows_ * sum_width_;
  used_rows_ += prefix;
  RL_CHECK(used_rows_ <= max_rows_);
  parts_.push_back({std::span(sequences_).subspan(first_sequence, count), sums});
}

void BackwardWork::add_row(const float* sum, float* to) const { add_elements(sum, sum_width_, to); }

}  // namespace rl

// How the rows of a training batch are cut into calls of the attention backward, and how the gradients of shared
// prompts come together. A trunk is the sequence of a prompt; sequences that follow it read its keys and values. They
// are taken in parts, in order, until a part has as many rows as the trunk: each part sums the gradients of the
// prompt's keys and values on its own, and the trunk adds the sums of its parts in order. The cut follows from the
// rows alone, never from threads. Then all sums together have at most as many rows as the batch, and a part has at most
// as many as its longest sequence with its prompt.
// Nothing is allocated after construction.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention.h"

namespace rl {

struct SequenceRows;

class BackwardWork {
 public:
  BackwardWork(int64_t max_rows, int64_t sum_width);
  // Valid until the next call; block tables are those of the sequences. sums: (max_rows, sum_width), of the caller.
  void cut(std::span<const SequenceRows> sequences, float* sums);

  // One call of the attention backward, every row of the batch once.
  std::span<const AttentionBackwardRows> parts() const { return parts_; }

  // Adds the sums of all parts to rows [first_row, first_row + count) of the trunks among them; row_of(row) is where a
  // row's gradients of keys and values are. Rows are independent.
  template <typename RowOf>
  void add_sums(int64_t first_row, int64_t count, const RowOf& row_of) const {
    for (const Trunk& t : trunks_) {
      const int64_t begin = std::max(first_row, t.first_row), end = std::min(first_row + count, t.first_row + t.rows);
      for (int64_t row = begin; row < end; ++row) {
        for (size_t p = t.first_part; p < t.end_part; ++p) {
          add_row(parts_[p].d_prefix + (row - t.first_row) * sum_width_, row_of(row));
        }
      }
    }
  }

 private:
  struct Trunk {
    int64_t first_row, rows;
    size_t first_part, end_part;
  };
  void add_part(size_t first_sequence, size_t count, int64_t prefix);
  void add_row(const float* sum, float* to) const;

  int64_t max_rows_, sum_width_, used_rows_ = 0;
  float* sums_ = nullptr;
  std::vector<AttentionRows> sequences_;
  std::vector<AttentionBackwardRows> parts_;
  std::vector<Trunk> trunks_;
};

}  // namespace rl

// How the rows of a training batch are cut into calls of the attention backward, in which order,
// and how the gradients of shared prompts come together.
//
// Rows and keys are cut at multiples of kAttentionBackwardChunk positions of their sequence; a
// piece is a chunk of rows against a chunk of keys that they attend. Pieces go in steps: those of a
// step have neither rows nor keys in common, so they may run at once, and what a row or key gets is
// added in the order of the steps. Step s takes the row chunk i of a sequence against its own key
// chunk i - s; step 0 overwrites what the gradients held, all others add. A long sequence is thus
// as many tasks as it has chunks, and no thread needs memory for more than one chunk.
//
// A trunk is the sequence of a prompt; sequences that follow it read its keys and values. They are
// taken in parts, in order, until a part has as many rows as the trunk: each part sums the
// gradients of the prompt's keys and values on its own, and the trunk adds the sums of its parts in
// order. After its own keys, row chunk r of a part takes the prompt's chunks in turns: r, r - 1,
// ..., around the end. Then all sums together have at most as many rows as the batch.
//
// The cut follows from the rows alone, never from threads. Nothing is allocated after construction.
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
  // Valid until the next call; block tables are those of the sequences. sums: (max_rows,
  // sum_width), of the caller.
  void cut(std::span<const SequenceRows> sequences, float* sums);

  // The sums of all parts: to be set to zero before the first step.
  std::span<float> sums() const { return {sums_, static_cast<size_t>(used_rows_ * sum_width_)}; }
  int64_t steps() const { return steps_; }
  // The pieces of a step that hold keys in reach of a window; valid until the next call.
  std::span<const AttentionBackwardPiece> pieces(int64_t step, const AttentionRule& rule);

  // Adds the sums of all parts to rows [first_row, first_row + count) of the trunks among them;
  // row_of(row) is where a row's gradients of keys and values are. Rows are independent.
  template <typename RowOf>
  void add_sums(int64_t first_row, int64_t count, const RowOf& row_of) const {
    for (const Trunk& t : trunks_) {
      const int64_t begin = std::max(first_row, t.first_row),
                    end = std::min(first_row + count, t.first_row + t.rows);
      for (int64_t row = begin; row < end; ++row) {
        for (size_t p = t.first_part; p < t.end_part; ++p) {
          add_row(parts_[p].sums + (row - t.first_row) * sum_width_, row_of(row));
        }
      }
    }
  }

 private:
  struct Trunk {
    int64_t first_row, rows;
    size_t first_part, end_part;
  };
  struct Part {
    int64_t prefix;      // positions of the trunk; 0: the part is a sequence of its own
    float* sums;         // (prefix, sum width), or null
    int64_t chunks = 0;  // of rows
    int64_t own_steps = 0;
    int64_t prefix_chunks() const {
      return (prefix + kAttentionBackwardChunk - 1) / kAttentionBackwardChunk;
    }
    int64_t turns() const { return prefix == 0 ? 0 : std::max(chunks, prefix_chunks()); }
  };
  struct Chunk {
    AttentionRows rows;
    int64_t of_part, of_sequence;  // its place among the row chunks
    size_t part;
  };
  void add_part(std::span<const SequenceRows> sequences, int64_t prefix);
  void add_piece(const Chunk& chunk, int64_t step, const AttentionRule& rule);
  void add_row(const float* sum, float* to) const;

  int64_t max_rows_, sum_width_, used_rows_ = 0, steps_ = 0;
  float* sums_ = nullptr;
  std::vector<Part> parts_;
  std::vector<Chunk> chunks_;
  std::vector<AttentionBackwardPiece> pieces_;
  std::vector<Trunk> trunks_;
};

}  // namespace rl

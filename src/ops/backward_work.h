// How the rows of a training batch are split into calls of the attention backward, in which order,
// and how the gradients of shared prefixes are summed.
//
// Rows and keys are split at multiples of kAttentionBackwardChunk positions of their sequence; a
// piece is a chunk of rows against a chunk of keys that they attend. Pieces run in steps. Pieces of
// one step share neither rows nor keys, so they may run concurrently; what a row or key receives is
// added in step order. Step s takes row chunk i of a sequence against its own key chunk i - s; step
// 0 overwrites the gradients, all others add. So a long sequence has as many tasks as chunks, and
// no thread needs memory for more than one chunk.
//
// A shared prefix is the sequence of a prompt; the sequences that continue it read its keys
// and values. They are grouped into parts, in order; a part is closed once it has as many rows as
// the prefix. Each part sums the gradients of the prompt's keys and values separately, and the
// prefix adds the sums of its parts in order. After its own keys, row chunk r of a part takes the
// prompt's chunks in turn: r, r - 1, ..., wrapping around. Closing parts this way bounds all sums
// together by the number of rows of the batch.
//
// If ranks divide the rows (ops/divided_rows.h), a sequence of a rank that begins within one of the
// whole batch takes the keys before it as a prefix, as does one that continues a prompt. Their
// gradients are summed at the places of their rows, for the ranks that have them. Parts that take
// keys of one prompt or sequence do so one after the other. The keys may also be taken of one rank
// at a time. Those of this rank come with its rows' own keys, and have their gradients beside them;
// what other ranks' keys receive is summed apart.
//
// A device may compute whole sequences instead of pieces: all rows that take a key at once, in an
// order of its own (ops/cuda/attention_tiles.h).
//
// The split depends on the rows alone, never on threads. Nothing is allocated after construction,
// unless ranks divide the rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/divided_rows.h"
#include "ops/sequence_rows.h"

namespace rl {

class BackwardWork {
 public:
  BackwardWork(int64_t max_rows, int64_t sum_width);
  // The results are valid until the next call; block tables are the sequences' own. sums:
  // (max_rows, sum_width), owned by the caller.
  void cut(std::span<const SequenceRows> sequences, float* sums);
  // The sequences of one rank. sums: (all.rows, sum_width). After the last step the caller adds the
  // sums of all ranks, and then reads those of this rank's rows.
  void cut(std::span<const SequenceRows> own, const DividedRows& all, float* sums);
  // The same with the keys of one rank's rows alone, whose blocks the tables name. Steps of this
  // rank's own rows come first. The gradients of keys that are not a sequence's own are added to
  // `gradients`, (rows of that rank, .), which is zeroed before unless that rank is this one.
  struct KeyGradients {
    float* gradients;
    int64_t stride;  // floats from row to row
  };
  void cut(std::span<const SequenceRows> own, const DividedRows& all, const RankRows& keys,
           const KeyGradients& to);
  // Nothing to compute: sums (rows, sum width) for the first rows.
  void take_sums(int64_t rows, float* sums);
  // Sums of another width from now on, at most that of the constructor.
  void set_sum_width(int64_t width);

  // Whether the rows attend some of their keys here, and others in calls before and after.
  bool of_one_rank() const { return sum_stride_ != 0; }
  // Whether keys of a sequence's own rows are among them.
  bool has_own_keys() const { return has_own_keys_; }
  // The sums of all parts, in memory of the device; the caller zeroes them before the first step.
  float* sums() const { return sums_; }
  int64_t num_sums() const { return used_rows_ * sum_width_; }
  int64_t steps() const { return steps_; }
  // The pieces of a step that hold keys within reach of a window; valid until the next call.
  std::span<const AttentionBackwardPiece> pieces(int64_t step, const AttentionRule& rule);

  // Adds the sums of all parts to rows [first_row, first_row + count), where these are rows of a
  // shared prefix; row_of(row) returns a row's key and value gradients. Rows are independent.
  template <typename RowOf>
  void add_sums(int64_t first_row, int64_t count, const RowOf& row_of) const {
    for (const SharedPrefix& t : shared_prefixes_) {
      const int64_t begin = std::max(first_row, t.first_row),
                    end = std::min(first_row + count, t.first_row + t.rows);
      for (int64_t row = begin; row < end; ++row) {
        for (size_t p = t.first_part; p < t.end_part; ++p) {
          add_row(parts_[p].sums + (row - t.first_row) * sum_width_, row_of(row));
        }
      }
    }
  }
  // Calls part(first_row, rows, sums) for every part of every shared prefix, in the order in which
  // the sums are added to the prefix's rows; sums are (rows, sum width).
  template <typename OnPart>
  void for_each_part(const OnPart& on_part) const {
    for (const SharedPrefix& t : shared_prefixes_)
      for (size_t p = t.first_part; p < t.end_part; ++p)
        on_part(t.first_row, t.rows, parts_[p].sums);
  }
  // Calls on_sequence(rows, part) for every sequence in order, with all its rows. Sequences of one
  // part follow one another; part is its index.
  template <typename OnSequence>
  void for_each_sequence(const OnSequence& on_sequence) const {
    for (size_t i = 0; i < chunks_.size();) {
      AttentionRows rows = chunks_[i].rows;
      const size_t of_part = chunks_[i].part;
      for (++i; i < chunks_.size() && chunks_[i].of_sequence > 0; ++i)
        rows.rows += chunks_[i].rows.rows;
      on_sequence(rows, of_part);
    }
  }
  // Keys of a part's prefix. All sequences of the part attend keys [first, end), as far as a window
  // lets them.
  struct TakenKeys {
    int64_t first, end;
    float* sums;  // of key `first`: (end - first, sum width), rows `stride` floats apart
    int64_t stride;
    const int32_t* blocks;  // ids by position; null: each sequence finds them in its own table
  };
  // Calls on_keys(TakenKeys) for the keys of a part's prefix, in order. If ranks divide the rows,
  // several parts may take the same keys, with the same first, end and sums. Between two of them
  // there is none that does not.
  template <typename OnKeys>
  void for_each_prefix_keys(size_t part, const OnKeys& on_keys) const {
    const Part& p = parts_[part];
    const int64_t stride = of_one_rank() ? sum_stride_ : sum_width_;
    if (!p.divided && p.prefix > 0) on_keys(TakenKeys{0, p.prefix, p.sums, stride, nullptr});
    for (size_t i = p.first_keys; i < p.end_keys; ++i) {
      const PrefixKeys& keys = prefix_keys_[i];
      on_keys(TakenKeys{keys.first, keys.end, sums_ + keys.sum_row * stride, stride, keys.blocks});
    }
  }

 private:
  struct SharedPrefix {
    int64_t first_row, rows;
    size_t first_part, end_part;
  };
  // Keys of a prefix, and the row of the sums that the first of them has.
  struct PrefixKeys {
    int64_t first, end, sum_row;
    const int32_t* blocks;  // null: the rows' own table
  };
  struct Part {
    int64_t prefix;      // positions of the shared prefix; 0: a sequence without one
    float* sums;         // (prefix, sum width), or null
    int64_t sum_row;     // of all sums, their first row
    int64_t chunks = 0;  // row chunks
    int64_t own_steps = 0;
    int64_t first_step = 0;
    bool divided = false;  // ranks divide the rows, and the prefix has the keys of this range
    size_t first_keys = 0, end_keys = 0;
    int64_t prefix_chunks() const {
      if (divided) return static_cast<int64_t>(end_keys - first_keys);
      return (prefix + kAttentionBackwardChunk - 1) / kAttentionBackwardChunk;
    }
    int64_t prefix_steps() const {
      return prefix_chunks() == 0 ? 0 : std::max(chunks, prefix_chunks());
    }
    int64_t end_step() const { return first_step + own_steps + prefix_steps(); }
  };
  struct Chunk {
    AttentionRows rows;
    int64_t of_part, of_sequence;  // its index among the row chunks of its part and sequence
    size_t part;
  };
  void clear(float* sums);
  // Of sequences that continue one prefix, whose sums are in rows of the sums.
  Part part_of(int64_t prefix, int64_t sum_row) const;
  void add_part(std::span<const SequenceRows> sequences, Part part, bool with_own_keys = true);
  // The keys before a part that are in some rows.
  struct KeysBefore {
    const SequenceRows& whole;
    int64_t end;
    const RankRows& rows;
    bool of_rank;  // rows are counted from the rank's first, and blocks are those of the runs
  };
  void add_prefix_keys(const DividedRows& all, const KeysBefore& keys, Part& part);
  // The part that was added last takes keys of its prefix from step `turn` on, which becomes the
  // end of its steps.
  void wait_turn(int64_t& turn);
  void add_piece(const Chunk& chunk, int64_t of_all, const AttentionRule& rule);
  void take_prefix_keys(const Part& part, int64_t at, AttentionBackwardPiece& piece) const;
  void add_row(const float* sum, float* to) const;

  int64_t max_rows_, sum_width_, used_rows_ = 0, steps_ = 0;
  int64_t sum_stride_ = 0;  // floats from row to row, of a cut for one rank's keys; else 0
  bool has_own_keys_ = true;
  float* sums_ = nullptr;
  std::vector<Part> parts_;
  std::vector<Chunk> chunks_;
  std::vector<PrefixKeys> prefix_keys_;
  std::vector<KeyRun> runs_;
  std::vector<AttentionBackwardPiece> pieces_;
  std::vector<SharedPrefix> shared_prefixes_;
};

}  // namespace rl

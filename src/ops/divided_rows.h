// A packed batch whose rows several ranks divide. Each computes some rows of every op, and
// attention of its rows reads keys of the others. A rank's rows are some chunks of the batch; ranks
// in order, each with its chunks in order, give every row its place: those of one rank follow one
// another.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/sequence_rows.h"

namespace rl {

struct RowChunk {
  int64_t first_row, end_row;  // of the whole batch
  int64_t place;               // of first_row
};

struct DividedRows {
  std::span<const SequenceRows> sequences;  // of the whole batch
  std::span<const RowChunk> chunks;         // in row order, covering all its rows
  // Of each sequence of this rank, whose rows lie within one chunk: which one of the whole batch it
  // is a part of; -1: padding of a rank that has no rows.
  std::span<const int32_t> own;
  int64_t rows = 0;                     // of the whole batch
  int64_t own_place = 0, own_rows = 0;  // of this rank's rows
};

// The rows of one rank, by their places.
struct RankRows {
  int64_t begin, end;
  bool own;  // they are this rank's
  int64_t count() const { return end - begin; }
};

// Appends the keys that a sequence has in these rows before position `end`: of its prompt, then its
// own, in order. `whole` is one of all.sequences.
void add_key_runs(const DividedRows& all, const SequenceRows& whole, int64_t end,
                  const RankRows& rows, std::vector<KeyRun>& out);
// The same for sequence `index` of this rank, up to its last row. Padding has one key, its own.
void add_key_runs(const DividedRows& all, size_t index, const SequenceRows& own,
                  const RankRows& rows, std::vector<KeyRun>& out);

}  // namespace rl

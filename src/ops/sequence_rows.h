// How the rows of a packed batch belong to sequences. The rows of several sequences follow one
// another, each sequence's rows at consecutive positions with a block table that covers positions
// 0..last.
//
// Training may compute a prompt once for several sequences. Each of them continues a shared-prefix
// sequence (`prefix_sequence`): it starts where the prefix ends and lists the prefix's full blocks
// first. If the prefix ends inside a block, each sequence has its own block there, and the prefix's
// last keys and values are copied into it.
#pragma once
#include <cstdint>

namespace rl {

struct SequenceRows {
  int32_t first_row;
  int32_t rows;
  int32_t first_position;
  const int32_t* blocks;         // block ids of positions 0..first_position + rows - 1
  int32_t prefix_sequence = -1;  // index of the sequence of this batch that computes the shared
                                 // prefix, positions 0..first_position - 1; -1: none
};

// Keys of a sequence that follow one another: some of those that its rows attend, where ranks have
// the others (ops/divided_rows.h).
struct KeyRun {
  int64_t first, end;     // positions
  const int32_t* blocks;  // block ids by position, as in SequenceRows
  int64_t place;          // of the row of the first key
};

}  // namespace rl

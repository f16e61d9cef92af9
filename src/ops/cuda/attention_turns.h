// Attention of rows that have their keys in several calls, some of them in each (ops/attention.h,
// ops/backward_work.h): how a call becomes turns, each a few launches. No turn has a row or a key
// twice; what a later turn gives is merged with what earlier ones gave, or added to it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/backward_work.h"
#include "ops/cuda/attention_tiles.h"

namespace rl::cuda {

// Turn t has a run of keys of each sequence, counted from its last one, so the first turn of a
// rank's own keys has those of the rows themselves.
std::vector<AttentionRuns> turns_of_calls(std::span<const AttentionRows> calls, int64_t block_size);

// Of work.of_one_rank(). The first turn of a rank's own keys has those of the rows themselves, each
// of which it has once.
std::vector<BackwardTiles> backward_turns(const AttentionShape& shape, const BackwardWork& work,
                                          int32_t tile_keys, float* dqkv);

}  // namespace rl::cuda

// How the rows of a batch become runs and tiles of the kernels of attention. Neither changes a bit
// of the forward. The backward's key tiles follow from the rows of the batch alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/backward_work.h"
#include "ops/cuda/kernels/attention/attention_backward.h"
#include "ops/cuda/kernels/attention/attention_forward.h"

namespace rl::cuda {

// Error(kUnsupported) if a head is larger than kMaxAttentionWidth.
AttentionSizes attention_sizes(const AttentionShape& shape, const AttentionRule& rule);

// Consecutive rows of one sequence, and their block tables one after the other.
struct AttentionRuns {
  std::vector<AttentionRun> runs;
  std::vector<int32_t> blocks;

  void add(const AttentionRows& rows, int64_t block_size);
  // Rows of sequences that attend some keys alone, which one table finds.
  void add(std::span<const AttentionRows> rows, const KeyRun& keys, int64_t block_size);
};
// Calls of one sequence that follow one another become one run.
AttentionRuns runs_of_calls(std::span<const AttentionRows> calls, int64_t block_size);

// Tiles of up to `pairs` pairs that attend a key of their run.
std::vector<AttentionTile> tiles_of_runs(const AttentionSizes& sizes,
                                         std::span<const AttentionRun> runs, int32_t pairs);

// Gives each split of a run of one row a tile of its own, as long as there are at most `most_pairs`
// partial results; merged() says what is to be merged. So a long sequence keeps a whole GPU busy.
struct SplitTiles {
  std::vector<AttentionTile> tiles;
  std::vector<MergedTile> merged;
  int64_t partial_pairs = 0;
};
SplitTiles split_tiles(const AttentionSizes& sizes, std::span<const AttentionRun> runs,
                       std::span<const AttentionTile> tiles, int64_t most_pairs);

// Appends the tiles of the keys of `all`, whose gradients begin at all.to: cut at multiples of
// `tile_keys` positions.
void add_key_tiles(const KeyTile& all, int32_t tile_keys, std::vector<KeyTile>& tiles);

// Of the whole batch, in the order of the work. Keys of a sequence are cut at multiples of
// `tile_keys` positions. No two tiles write one place: the tile of a prefix's keys has the runs of
// all parts that add to the same sums, one after the other. Where ranks divide the rows, sums of
// keys that no row of this rank attends are in no tile and stay zero.
struct BackwardTiles {
  AttentionRuns runs;
  std::vector<KeyTile> keys;
  int64_t rows = 0;
};
BackwardTiles backward_tiles(const AttentionShape& shape, const BackwardWork& work,
                             int32_t tile_keys, float* dqkv);

}  // namespace rl::cuda

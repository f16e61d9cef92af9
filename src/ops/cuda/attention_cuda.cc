// Attention and its backward: tables and tiles of a batch go to the device, then a few launches.
#include <algorithm>

#include "core/error.h"
#include "ops/cuda/attention_tiles.h"
#include "ops/cuda/attention_turns.h"
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/rope_cuda.h"

namespace rl::cuda {
namespace {

// Tiles of single splits at once: enough for any GPU. Their partial results are what limits them.
constexpr int64_t kMostSplitRows = 1024;

bool uses_mma(const AttentionShape& s, AttentionProducts products) {
  const bool rounded = s.dtype == Dtype::kBf16 && s.kv_dtype == Dtype::kBf16;
  RL_CHECK(rounded || products != AttentionProducts::kBf16Dot);
  return rounded && products != AttentionProducts::kFp32;
}

// What asynchronous copies of 16 bytes read.
void check_aligned(const void* q, const std::byte* pool) {
  RL_CHECK(reinterpret_cast<uintptr_t>(q) % 16 == 0 && reinterpret_cast<uintptr_t>(pool) % 16 == 0);
}

// Computes tiles of at most `pairs` pairs.
void attend_tiles(CudaCompute& gpu, AttendParams p, std::span<const AttentionTile> tiles,
                  int32_t pairs, bool mma) {
  if (tiles.empty()) return;
  p.tiles = gpu.upload_table(tiles);
  p.num_tiles = static_cast<int64_t>(tiles.size());
  p.tile_pairs = pairs;
  if (mma)
    attend_mma(gpu.stream(), p);
  else
    attend_fma(gpu.stream(), p);
}

// Tiles that one warp computes go apart from others, whose blocks have more.
void attend_all(CudaCompute& gpu, const AttendParams& p, std::vector<AttentionTile>& tiles,
                bool mma) {
  constexpr int32_t kOneWarp = 16;
  const auto wide = std::stable_partition(
      tiles.begin(), tiles.end(),
      [](const AttentionTile& tile) { return tile.end_pair - tile.first_pair <= kOneWarp; });
  const auto most = mma ? attend_mma_pairs(p.sizes.width) : kAttendFmaPairs;
  attend_tiles(gpu, p, {tiles.begin(), wide}, std::min(kOneWarp, most), mma);
  attend_tiles(gpu, p, {wide, tiles.end()}, most, mma);
}

// Rows that have their keys in several calls, in this one some of them.
void attend_some_keys(CudaCompute& gpu, const AttendArgs& args, const AttentionSizes& sizes) {
  const AttentionArgs& a = args.attention;
  RL_CHECK(args.heads == nullptr && a.lse != nullptr);
  const bool mma = uses_mma(a.shape, a.products);
  const int32_t pairs = mma ? attend_mma_pairs(sizes.width) : kAttendFmaPairs;
  bool merges = a.merges;
  for (const AttentionRuns& turn : turns_of_calls(args.work.by_sequence(), a.shape.block_size)) {
    const AttendParams p{.sizes = sizes,
                         .runs = gpu.upload_table(turn.runs),
                         .blocks = gpu.upload_table(turn.blocks),
                         .q = a.q,
                         .pool = a.pool,
                         .out = nullptr,
                         .lse = a.lse,
                         .calls = a.partial,
                         .merges = merges};
    std::vector<AttentionTile> tiles = tiles_of_runs(sizes, turn.runs, pairs);
    attend_all(gpu, p, tiles, mma);
    merges = true;
  }
}

void add_gradients(CudaCompute& gpu, const AttentionGradientInputs& in, const BackwardTiles& tiles,
                   float* dqkv, bool mma) {
  const int32_t width = in.sizes.width;
  const std::vector<AttentionTile> queries =
      tiles_of_runs(in.sizes, tiles.runs.runs,
                    mma ? query_gradient_pairs_mma(width) : query_gradient_pairs_fma(width));
  const QueryGradientParams query{in, gpu.upload_table(queries),
                                  static_cast<int64_t>(queries.size()), dqkv};
  const KeyGradientParams key{in, gpu.upload_table(tiles.keys),
                              static_cast<int64_t>(tiles.keys.size())};
  if (mma) {
    query_gradient_mma(gpu.stream(), query);
    key_gradient_mma(gpu.stream(), key);
  } else {
    query_gradient_fma(gpu.stream(), query);
    key_gradient_fma(gpu.stream(), key);
  }
}

}  // namespace

void attend(Compute& compute, const AttendArgs& args) {
  CudaCompute& gpu = cuda_of(compute);
  const AttentionArgs& a = args.attention;
  const AttentionSizes sizes = attention_sizes(a.shape, a.rule);
  check_aligned(a.q, a.pool);
  if (a.partial != nullptr) return attend_some_keys(gpu, args, sizes);
  if (args.heads != nullptr) rope_and_write_kv(gpu, *args.heads);
  const bool mma = uses_mma(a.shape, a.products);
  const AttentionRuns runs = runs_of_calls(args.work.by_sequence(), a.shape.block_size);
  const int32_t pairs = mma ? attend_mma_pairs(sizes.width) : kAttendFmaPairs;
  const auto* device_runs = gpu.upload_table(runs.runs);
  const auto* blocks = gpu.upload_table(runs.blocks);
  const int64_t partial_floats = a.shape.kv_heads * (a.shape.padded_dim() + 2);
  const int64_t most = std::min(kMostSplitRows * a.shape.group(),
                                gpu.scratch_rows(partial_floats * int64_t{sizeof(float)}) / 2);
  SplitTiles split = split_tiles(sizes, runs.runs, tiles_of_runs(sizes, runs.runs, pairs), most);
  AttendParams p{
      .sizes = sizes,
      .runs = device_runs,
      .blocks = blocks,
      .q = a.q,
      .pool = a.pool,
      .out = a.out,
      .lse = a.lse,
      .partial_values = gpu.scratch<float>(split.partial_pairs * a.shape.kv_heads * sizes.width),
      .partial_states = gpu.scratch<float>(split.partial_pairs * a.shape.kv_heads * 2)};
  attend_all(gpu, p, split.tiles, mma);
  attend_merged(gpu.stream(), {sizes, device_runs, gpu.upload_table(split.merged),
                               static_cast<int64_t>(split.merged.size()), p.partial_values,
                               p.partial_states, a.out, a.lse});
}

void attend_backward(Compute& compute, const AttendBackwardArgs& args) {
  CudaCompute& gpu = cuda_of(compute);
  const AttentionBackwardArgs& a = args.attention;
  const AttentionSizes sizes = attention_sizes(a.shape, a.rule);
  check_aligned(a.q, a.pool);
  const bool mma = uses_mma(a.shape, a.products);
  const int32_t keys =
      mma ? key_gradient_keys_mma(sizes.width) : key_gradient_keys_fma(sizes.width);
  cuda::zero_floats(compute, {args.work.sums(), args.work.num_sums()});  // not all are in tiles
  const std::vector<BackwardTiles> turns =
      args.work.of_one_rank() ? backward_turns(a.shape, args.work, keys, a.dqkv)
                              : std::vector{backward_tiles(a.shape, args.work, keys, a.dqkv)};
  int64_t rows = 0;
  for (const BackwardTiles& tiles : turns) rows = std::max(rows, tiles.rows);
  const int64_t places = rows * a.shape.heads;
  float* const delta = gpu.scratch<float>(places);
  attention_delta(gpu.stream(), {a.out, a.d_out, delta, a.shape.dtype, places, sizes.head_dim});
  AttentionGradientInputs in{.sizes = sizes,
                             .q = a.q,
                             .pool = a.pool,
                             .lse = a.lse,
                             .delta = delta,
                             .d_out = a.d_out,
                             .adds = !args.work.has_own_keys()};
  for (const BackwardTiles& tiles : turns) {
    in.runs = gpu.upload_table(tiles.runs.runs);
    in.blocks = gpu.upload_table(tiles.runs.blocks);
    add_gradients(gpu, in, tiles, a.dqkv, mma);
    in.adds = true;
  }
}

}  // namespace rl::cuda

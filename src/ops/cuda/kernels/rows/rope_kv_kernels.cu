// A lane has components i and i + D / 2 for i = lane, lane + 32, ...: the pairs that turn together.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/norm_row.h"
#include "ops/cuda/kernels/rows/rope_kv_kernels.h"

namespace rl::cuda {
namespace {

constexpr int kWarps = kRowThreads / kLanes;

LaunchShape head_warps(int64_t heads) { return {(heads + kWarps - 1) / kWarps, kRowThreads}; }
RL_DEVICE int64_t warp_of_grid() { return block_x() * kWarps + warp_index(); }
RL_DEVICE RowTeam lanes_of_head() { return {0, lane_index(), kLanes}; }

struct Pair {
  float low, high;
};
// Direction -1 is the inverse.
RL_DEVICE Pair rotate(const Angles& angles, int64_t at, float direction, const Pair& x) {
  const float cos = angles.cos[at], sin = angles.sin[at] * direction;
  return {fma_rn(-x.high, sin, x.low * cos), fma_rn(x.low, sin, x.high * cos)};
}

RL_DEVICE const NormParams& norm_of_head(const HeadNorms& norms, const HeadsOfRow& s,
                                         int64_t head) {
  return head < s.heads ? norms.q : norms.k;
}

// Where components of a head of a row are stored.
struct HeadPlace {
  void* to;
  int64_t first, step;  // component d at element first + d * step
  Dtype dtype;
};
RL_DEVICE HeadPlace place_of_head(const RopeKvParams& p, int64_t row, int64_t head) {
  const HeadsOfRow& s = p.shape;
  const int64_t wide = s.padded_dim, size = s.block_size;
  if (head < s.heads) return {p.q, (row * s.heads + head) * wide, 1, s.dtype};
  const RowTurn turn = p.angles.turns[row];
  const int64_t token = turn.position % size;
  const int64_t kv_head = (head - s.heads) % s.kv_heads;
  const int64_t block = (turn.block * s.kv_heads + kv_head) * 2 * wide * size;
  if (head < s.heads + s.kv_heads) return {p.pool, block + token, size, s.kv_dtype};
  return {p.pool, block + wide * size + token * wide, 1, s.kv_dtype};
}

// A head of a row before rotation: the projection with its bias, or normed.
struct HeadInput {
  const float* x;
  const float* bias;  // or null
  NormParams norm;    // or none
  float inverse;
};
RL_DEVICE HeadInput head_input(const RopeKvParams& p, int64_t row, int64_t head) {
  const HeadsOfRow& s = p.shape;
  HeadInput in = {p.qkv + row * p.stride + (head - p.first_head) * s.head_dim, nullptr, {}, 0.0f};
  if (p.bias != nullptr) in.bias = p.bias + head * s.head_dim;
  if (head >= s.heads + s.kv_heads) return in;
  in.norm = norm_of_head(p.norms, s, head);
  if (in.norm.weight != nullptr)
    in.inverse = inverse_rms(lanes_of_head(), in.x, s.head_dim, in.norm.eps);
  return in;
}
RL_DEVICE float component(const HeadInput& in, int64_t i) {
  const float x = in.bias != nullptr ? in.x[i] + in.bias[i] : in.x[i];
  return in.norm.weight != nullptr ? normed(in.norm, i, x, in.inverse) : x;
}

RL_KERNEL void rope_and_write_kv_kernel(RopeKvParams p) {
  const HeadsOfRow& s = p.shape;
  const int64_t heads = p.end_head - p.first_head, warp = warp_of_grid();
  if (warp >= p.rows * heads) return;
  const int64_t row = warp / heads, head = p.first_head + warp % heads, half = s.head_dim / 2;
  const HeadInput in = head_input(p, row, head);
  const HeadPlace to = place_of_head(p, row, head);
  const auto put = [&](int64_t d, float v) {
    store_element(to.dtype, to.to, to.first + d * to.step, v);
  };
  const bool turns = head < s.heads + s.kv_heads;
  for (int64_t i = lane_index(); i < half; i += kLanes) {
    Pair x = {component(in, i), component(in, half + i)};
    if (turns) x = rotate(p.angles, p.angles.turns[row].angle * half + i, 1.0f, x);
    put(i, x.low);
    put(half + i, x.high);
  }
  for (int64_t d = s.head_dim + lane_index(); d < s.padded_dim; d += kLanes) put(d, 0.0f);
}

// Element i of the part of a KV head that the tokens take: keys, then values.
RL_KERNEL void copy_partial_blocks_kernel(CopyPartialBlocksParams p) {
  const HeadsOfRow& s = p.shape;
  const PartialBlock block = p.blocks[block_x() / s.kv_heads];
  const int64_t kv_head = block_x() % s.kv_heads, half = s.padded_dim * s.block_size;
  const int64_t from = (block.from * s.kv_heads + kv_head) * 2 * half,
                to = (block.to * s.kv_heads + kv_head) * 2 * half;
  const int64_t count = s.padded_dim * block.tokens;
  for (int64_t i = thread_index(); i < 2 * count; i += block_threads()) {
    const int64_t j = i - count;  // among the values
    const int64_t at = j < 0 ? i / block.tokens * s.block_size + i % block.tokens : half + j;
    store_element(s.kv_dtype, p.pool, to + at, load_element(s.kv_dtype, p.pool, from + at));
  }
}

RL_KERNEL void add_prefix_sums_kernel(AddPrefixSumsParams p) {
  const PrefixSums prefix = p.prefixes[block_x()];
  const int64_t count = prefix.rows * p.width, step = grid_y() * block_threads();
  for (int64_t i = block_y() * block_threads() + thread_index(); i < count; i += step) {
    float* to = p.to + (prefix.first_row + i / p.width) * p.stride + i % p.width;
    float sum = *to;
    for (int32_t part = prefix.first_part; part < prefix.end_part; ++part) sum += p.parts[part][i];
    *to = sum;
  }
}

// The sum over the head of (dy * w) * x, where dy is the gradient of the norm's output.
RL_DEVICE float norm_pull(const NormParams& norm, const float* x, const Pair& dy, int64_t i,
                          int64_t half, float sum) {
  sum = fma_rn(dy.low * norm_weight(norm, i), x[i], sum);
  return fma_rn(dy.high * norm_weight(norm, half + i), x[half + i], sum);
}

RL_KERNEL void rope_rows_backward_kernel(RopeBackwardParams p) {
  const HeadsOfRow& s = p.shape;
  const int64_t turning = s.heads + s.kv_heads, warp = warp_of_grid();
  if (warp >= p.rows * turning) return;
  const int64_t row = warp / turning, head = warp % turning, half = s.head_dim / 2;
  const int64_t at = (row * (turning + s.kv_heads) + head) * s.head_dim;
  const NormParams& norm = norm_of_head(p.norms, s, head);
  const bool normed_heads = norm.weight != nullptr;
  float sum = 0;
  for (int64_t i = lane_index(); i < half; i += kLanes) {
    const Pair x = {p.dqkv[at + i], p.dqkv[at + half + i]};
    const Pair dy = rotate(p.angles, p.angles.turns[row].angle * half + i, -1.0f, x);
    p.dqkv[at + i] = dy.low;
    p.dqkv[at + half + i] = dy.high;
    if (normed_heads) sum = norm_pull(norm, p.qkv + at, dy, i, half, sum);
  }
  if (!normed_heads) return;
  const float inverse = inverse_rms(lanes_of_head(), p.qkv + at, s.head_dim, norm.eps);
  const NormSlope slope = norm_slope(inverse, add_lanes(sum), s.head_dim);
  if (lane_index() != 0) return;
  p.inverse[warp] = slope.inverse;
  p.pull[warp] = slope.pull;
}

RL_KERNEL void round_head_gradients_kernel(RoundHeadsParams p) {
  const HeadsOfRow& s = p.of.shape;
  const int64_t turning = s.heads + s.kv_heads, width = (turning + s.kv_heads) * s.head_dim;
  for_each_in_row(width, [&](int64_t row, int64_t column) {
    const int64_t head = column / s.head_dim, at = row * width + column;
    const NormParams& norm = norm_of_head(p.of.norms, s, head);
    float d = p.of.dqkv[at];
    if (head < turning && norm.weight != nullptr) {
      const int64_t of_head = row * turning + head;
      const NormSlope slope = {p.of.inverse[of_head], p.of.pull[of_head]};
      d = norm_gradient(norm, column % s.head_dim, slope, p.of.qkv[at], d);
      p.of.dqkv[at] = d;
    }
    store_element(s.dtype, p.rounded, at, d);
  });
}

}  // namespace

void rope_and_write_kv(cudaStream_t stream, const RopeKvParams& params) {
  launch("rope_and_write_kv", rope_and_write_kv_kernel,
         head_warps(params.rows * (params.end_head - params.first_head)), stream, params);
}

void copy_partial_blocks(cudaStream_t stream, const CopyPartialBlocksParams& params) {
  launch("copy_partial_blocks", copy_partial_blocks_kernel,
         LaunchShape{params.count * params.shape.kv_heads, kElementThreads}, stream, params);
}

// Prefixes differ in length, so each has the same number of blocks, which walk over it.
void add_prefix_sums(cudaStream_t stream, const AddPrefixSumsParams& params) {
  constexpr int64_t kBlocksOfPrefix = 32;
  launch("add_prefix_sums", add_prefix_sums_kernel,
         LaunchShape{.grid_x = params.count, .threads = kElementThreads, .grid_y = kBlocksOfPrefix},
         stream, params);
}

void rope_rows_backward(cudaStream_t stream, const RopeBackwardParams& params) {
  launch("rope_rows_backward", rope_rows_backward_kernel,
         head_warps(params.rows * (params.shape.heads + params.shape.kv_heads)), stream, params);
}

void round_head_gradients(cudaStream_t stream, const RoundHeadsParams& params) {
  const HeadsOfRow& s = params.of.shape;
  launch("round_head_gradients", round_head_gradients_kernel,
         row_blocks(params.of.rows, (s.heads + 2 * s.kv_heads) * s.head_dim), stream, params);
}

}  // namespace rl::cuda

// fp32 skinny GEMM. A register tile is up to 6 rows by as many vectors as the registers can
// accumulate; each pass takes a whole chunk of K, so no partial sum is stored. While a chunk of a
// column block is computed, the next one is prefetched into L2 at an even rate: its lines are far
// apart, so the hardware does not prefetch them, and issuing all at once would stall. From L2 a
// core reads many steps ahead without waiting.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm_skinny_f32_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <algorithm>

#include "core/error.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gemm_skinny.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kRowsOfTile = 6;
constexpr int64_t kLineFloats = 16, kLineBytes = 64;
constexpr int64_t kUnroll = 4;
const hn::ScalableTag<float> kVector;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(kVector));
// Accumulators that fit next to weights and a value of x: AVX2 has 16 registers, AVX-512 32.
constexpr int64_t kMaxSums = HWY_TARGET > HWY_AVX3 ? 12 : 24;

// Prefetches the lines of consecutive steps of a column block, evenly over passes.
class Prefetcher {
 public:
  Prefetcher(const std::byte* first, int64_t step_bytes, int64_t lines_of_step)
      : at_(first),
        left_(lines_of_step),
        lines_of_step_(lines_of_step),
        skip_(step_bytes - lines_of_step * kLineBytes) {}
  // From here on, `lines` lines over `times` calls.
  void set_rate(int64_t lines, int64_t times) { rate_ = lines * kWhole / times; }
  HWY_INLINE void prefetch() {
    for (due_ += rate_; due_ >= kWhole; due_ -= kWhole) {
      __builtin_prefetch(at_, 0, 2);
      at_ += kLineBytes;
      if (--left_ == 0) {
        at_ += skip_;
        left_ = lines_of_step_;
      }
    }
  }

 private:
  static constexpr int64_t kWhole = 1 << 16;  // 1.0 in the fixed point of rates
  const std::byte* at_;
  int64_t left_, lines_of_step_, skip_;
  int64_t rate_ = 0, due_ = 0;
};

// Some rows against one chunk of some columns.
struct Pass {
  const float* x;  // the first row at the first step
  int64_t x_stride;
  const float* weights;
  int64_t step_floats, steps;
  float* y;
  int64_t y_stride;
  bool add;  // add to y instead of overwriting it
};

template <int R, int V>
HWY_INLINE void add_step(hn::Vec<decltype(kVector)> (&sums)[R][V], const float* x, int64_t x_stride,
                         const float* weights) {
  hn::Vec<decltype(kVector)> w[V];
  for (int v = 0; v < V; ++v) w[v] = hn::LoadU(kVector, weights + v * kLanes);
  for (int r = 0; r < R; ++r) {
    const auto both = hn::Set(kVector, x[r * x_stride]);
    for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(both, w[v], sums[r][v]);
  }
}

template <int R, int V>
HWY_NOINLINE void run_pass(const Pass& p, Prefetcher& prefetcher_of_block) {
  hn::Vec<decltype(kVector)> sums[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sums[r][v] = hn::Zero(kVector);
  Prefetcher prefetcher = prefetcher_of_block;
  const float *x = p.x, *weights = p.weights;
  const int64_t x_stride = p.x_stride, step = p.step_floats;
  for (int64_t i = 0; i < p.steps / kUnroll; ++i) {
    prefetcher.prefetch();
    for (int64_t u = 0; u < kUnroll; ++u, ++x, weights += step)
      add_step<R, V>(sums, x, x_stride, weights);
  }
  for (int64_t u = 0; u < p.steps % kUnroll; ++u, ++x, weights += step)
    add_step<R, V>(sums, x, x_stride, weights);
  prefetcher_of_block = prefetcher;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      float* at = p.y + r * p.y_stride + v * kLanes;
      hn::StoreU(p.add ? hn::Add(hn::LoadU(kVector, at), sums[r][v]) : sums[r][v], kVector, at);
    }
  }
}

template <int V>
HWY_INLINE void run_pass(int64_t rows, const Pass& p, Prefetcher& prefetcher) {
  if constexpr (6 * V <= kMaxSums) {
    if (rows == 6) return run_pass<6, V>(p, prefetcher);
    if (rows == 5) return run_pass<5, V>(p, prefetcher);
    if (rows == 4) return run_pass<4, V>(p, prefetcher);
  }
  if constexpr (3 * V <= kMaxSums) {
    if (rows == 3) return run_pass<3, V>(p, prefetcher);
    if (rows == 2) return run_pass<2, V>(p, prefetcher);
  }
  run_pass<1, V>(p, prefetcher);
}

// K steps first..last against columns col0..col0 + cols, which lie in one column block.
struct Chunk {
  const GemmSkinnyArgs& product;
  int64_t col0, cols, first, last;

  int64_t steps() const { return last - first; }
  const std::byte* weights() const {
    const SkinnyWeights& w = product.weights;
    return w.first + first * w.layout.step_bytes + col0 * kSkinnyColumnBytes;
  }
  // Prefetches what is read next.
  Prefetcher next_prefetcher() const {
    const GemmSkinnyArgs& p = product;
    const int64_t behind = col0 + cols;
    if (last < p.k) return Chunk{p, col0, cols, last, p.k}.prefetcher();
    const int64_t next_cols = std::min(p.cols - behind, kSkinnyColumnBlock);
    if (next_cols > 0) return Chunk{p, behind, next_cols, 0, p.k}.prefetcher();
    return {p.next.first, p.next.layout.step_bytes, kSkinnyColumnBlock / kLineFloats};
  }
  Prefetcher prefetcher() const {
    return {weights(), product.weights.layout.step_bytes, cols / kLineFloats};
  }
};

// All rows against a chunk, in tiles of V vectors; the remaining columns in tiles of one cache
// line.
template <int V>
void run_chunk(const Chunk& c) {
  constexpr int kNarrow = std::min<int>(V, std::max<int64_t>(1, kLineFloats / kLanes));
  constexpr int64_t kWide = V * kLanes;
  const GemmSkinnyArgs& p = c.product;
  const int64_t groups = (p.rows + kRowsOfTile - 1) / kRowsOfTile;
  const int64_t step = p.weights.layout.step_bytes / kSkinnyColumnBytes;
  const int64_t passes = groups * (c.cols / kWide + c.cols % kWide / (kNarrow * kLanes));
  Prefetcher prefetcher = c.next_prefetcher();
  prefetcher.set_rate(c.steps() * c.cols / kLineFloats / passes,
                      std::max<int64_t>(1, c.steps() / kUnroll));
  for (int64_t col = 0; col < c.cols;) {
    const bool wide = c.cols - col >= kWide;
    const auto* weights = reinterpret_cast<const float*>(c.weights()) + col;
    for (int64_t g = 0, row = 0; g < groups; ++g) {
      const int64_t rows = (p.rows - row + groups - g - 1) / (groups - g);
      const Pass pass{static_cast<const float*>(p.x) + row * p.k + c.first,
                      p.k,
                      weights,
                      step,
                      c.steps(),
                      p.y + row * p.y_stride + c.col0 + col,
                      p.y_stride,
                      c.first > 0};
      wide ? run_pass<V>(rows, pass, prefetcher) : run_pass<kNarrow>(rows, pass, prefetcher);
      row += rows;
    }
    col += wide ? kWide : kNarrow * kLanes;
  }
}

// Vectors of a tile: a power of two, so that tiles divide column blocks, with as many accumulators
// as fit.
void run_chunk_of_rows(int64_t rows, const Chunk& c) {
  constexpr int64_t kWidest = kSkinnyColumnBlock / kLanes;
  const int64_t groups = (rows + kRowsOfTile - 1) / kRowsOfTile,
                most = (rows + groups - 1) / groups;
  if constexpr (kWidest >= 8)
    if (8 * most <= kMaxSums) return run_chunk<8>(c);
  if (4 * most <= kMaxSums) return run_chunk<4>(c);
  run_chunk<2>(c);
}

void gemm_skinny_f32_target(const GemmSkinnyArgs& p) {
  for (int64_t col0 = 0; col0 < p.cols; col0 += kSkinnyColumnBlock) {
    const int64_t cols = std::min(p.cols - col0, kSkinnyColumnBlock);
    for (int64_t first = 0; first < p.k;) {
      const int64_t last = skinny_chunk_end(first, p.k, p.chunk);
      run_chunk_of_rows(p.rows, {p, col0, cols, first, last});
      first = last;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(gemm_skinny_f32_target);
void gemm_skinny_f32(const GemmSkinnyArgs& p) {
  RL_CHECK(p.rows >= 1 && p.rows <= kMaxSkinnyRows && p.k > 0 && p.chunk > 0 && p.cols % 16 == 0);
  HWY_DYNAMIC_DISPATCH(gemm_skinny_f32_target)(p);
}
}  // namespace rl
#endif

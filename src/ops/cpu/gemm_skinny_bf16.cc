// bf16 skinny GEMM. A register tile is up to 6 rows by 4 vectors of 16 columns. Weights stream
// through L1 in runs of kRunPairs K pairs: every row group passes over the run, and each
// prefetches its share of the next one. The same share of what lies kFarBytes further is prefetched
// into L2, because L1 cannot keep as many lines in flight as memory needs. No NTA prefetch:
// bypassing L2 hides the stream from its hardware prefetcher, which halves bandwidth on some CPUs.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/gemm_skinny.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace rl {
namespace {

constexpr int64_t kTileRows = 6;
constexpr int64_t kLanes = 16;
constexpr int64_t kRunPairs = 64;
constexpr int64_t kPairBytes = kSkinnyColumnBytes * kSkinnyColumnBlock;
constexpr int64_t kLine = 64;
constexpr int64_t kUnroll = 4;
constexpr int64_t kPrefetchPairs = 32;  // for a single row group
constexpr int64_t kFarBytes = 64 << 10;

// Some rows against one run of a column block.
struct Pass {
  const std::byte* x;  // the first row at the first pair
  int64_t row_bytes;
  const std::byte* weights;
  int64_t pairs;
  float* partial;  // sums of the chunk so far, kSkinnyColumnBlock per row
  bool fresh;      // the chunk begins here
  float* y;        // where the chunk's sums go if it ends here, else null
  int64_t y_stride;
  bool add;                     // add to y instead of overwriting it
  const std::byte *near, *far;  // to prefetch, pairs_per_step pairs per kUnroll pairs
  int64_t pairs_per_step;
};

template <int R, int V>
using Sums = __m512[R][V];

template <int R, int V>
inline __attribute__((always_inline)) void add_pair(Sums<R, V>& sums, const std::byte* x,
                                                    int64_t row_bytes, const std::byte* weights) {
  __m512bh w[V];
  for (int v = 0; v < V; ++v) w[v] = (__m512bh)_mm512_loadu_si512(weights + v * kLine);
  for (int r = 0; r < R; ++r) {
    int32_t pair;
    std::memcpy(&pair, x + r * row_bytes, sizeof(pair));
    const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
    for (int v = 0; v < V; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], both, w[v]);
  }
}

template <int R, int V>
inline __attribute__((always_inline)) void end_pass(const Pass& p, Sums<R, V>& sums) {
  float* to = p.y ? p.y : p.partial;
  const int64_t stride = p.y ? p.y_stride : kSkinnyColumnBlock;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      float* at = to + r * stride + v * kLanes;
      if (p.y && p.add) sums[r][v] = _mm512_add_ps(sums[r][v], _mm512_loadu_ps(at));
      _mm512_storeu_ps(at, sums[r][v]);
    }
  }
}

template <int R, int V>
void run_pass(const Pass& p) {
  Sums<R, V> sums;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      const float* at = p.partial + r * kSkinnyColumnBlock + v * kLanes;
      sums[r][v] = p.fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(at);
    }
  }
  const std::byte *x = p.x, *weights = p.weights, *near = p.near, *far = p.far;
  for (int64_t step = 0; step < p.pairs / kUnroll; ++step) {
    for (int64_t i = 0; i < p.pairs_per_step; ++i, near += kPairBytes) {
      for (int v = 0; v < V; ++v) _mm_prefetch(near + v * kLine, _MM_HINT_T0);
    }
    for (int64_t i = 0; i < p.pairs_per_step; ++i, far += kPairBytes) {
      for (int v = 0; v < V; ++v) _mm_prefetch(far + v * kLine, _MM_HINT_T1);
    }
#pragma GCC unroll 4
    for (int64_t u = 0; u < kUnroll; ++u)
      add_pair<R, V>(sums, x + 4 * u, p.row_bytes, weights + u * kPairBytes);
    x += 4 * kUnroll;
    weights += kUnroll * kPairBytes;
  }
  for (int64_t u = 0; u < p.pairs % kUnroll; ++u, x += 4, weights += kPairBytes)
    add_pair<R, V>(sums, x, p.row_bytes, weights);
  end_pass<R, V>(p, sums);
}

template <int V>
void run_pass(int64_t rows, const Pass& p) {
  switch (rows) {
    case 1:
      return run_pass<1, V>(p);
    case 2:
      return run_pass<2, V>(p);
    case 3:
      return run_pass<3, V>(p);
    case 4:
      return run_pass<4, V>(p);
    case 5:
      return run_pass<5, V>(p);
    default:
      return run_pass<6, V>(p);
  }
}

// One column block against all rows. The product's weights end at `end`; the next product's follow
// for prefetching.
struct ColumnBlock {
  const GemmSkinnyArgs& product;
  int64_t col0;
  const std::byte *weights, *end;

  const std::byte* from_byte(int64_t byte) const {
    const int64_t beyond = weights + byte - end;
    return beyond < 0 ? end + beyond : product.next.first + beyond;
  }

  // Pairs first..last of the chunk that starts at chunk_pair.
  template <int V>
  void run_pairs(int64_t chunk_pair, int64_t first, int64_t last, bool chunk_ends) const {
    const GemmSkinnyArgs& p = product;
    const int64_t groups = (p.rows + kTileRows - 1) / kTileRows;
    const int64_t pairs = last - first, steps = pairs / kUnroll;
    const int64_t next = (first + (groups == 1 ? kPrefetchPairs : pairs)) * kPairBytes;
    const std::byte *near = from_byte(next), *far = from_byte(next + kFarBytes);
    int64_t row = 0, prefetched = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t rows = (p.rows - row + groups - g - 1) / (groups - g);
      const int64_t share = kUnroll * (g + 1) / groups - prefetched;
      const auto* x =
          reinterpret_cast<const std::byte*>(static_cast<const bf16*>(p.x) + row * p.k + 2 * first);
      run_pass<V>(rows, {x, p.k * 2, weights + first * kPairBytes, pairs,
                         p.scratch + row * kSkinnyColumnBlock, first == chunk_pair,
                         chunk_ends ? p.y + row * p.y_stride + col0 : nullptr, p.y_stride,
                         chunk_pair > 0, near + prefetched * steps * kPairBytes,
                         far + prefetched * steps * kPairBytes, share});
      row += rows;
      prefetched += share;
    }
  }

  template <int V>
  void run() const {
    const int64_t pairs = product.k / 2, chunk = product.chunk / 2;
    for (int64_t from = 0; from < pairs; from += chunk) {
      const int64_t to = std::min(pairs, from + chunk);
      for (int64_t first = from; first < to; first += kRunPairs) {
        const int64_t last = std::min(to, first + kRunPairs);
        run_pairs<V>(from, first, last, last == to);
      }
    }
  }
};

}  // namespace

void gemm_skinny_bf16(const GemmSkinnyArgs& p) {
  RL_CHECK(p.rows >= 1 && p.rows <= kMaxSkinnyRows && p.k % 2 == 0 && p.chunk % 2 == 0 &&
           p.cols % kLanes == 0);
  const int64_t bytes = p.weights.layout.block_bytes;
  const std::byte* weights = p.weights.first;
  const std::byte* end = weights + (p.cols + kSkinnyColumnBlock - 1) / kSkinnyColumnBlock * bytes;
  for (int64_t col0 = 0; col0 < p.cols; col0 += kSkinnyColumnBlock, weights += bytes) {
    const ColumnBlock block{p, col0, weights, end};
    switch (std::min(p.cols - col0, kSkinnyColumnBlock) / kLanes) {
      case 1:
        block.run<1>();
        break;
      case 2:
        block.run<2>();
        break;
      case 3:
        block.run<3>();
        break;
      default:
        block.run<4>();
        break;
    }
  }
}

}  // namespace rl
#pragma GCC pop_options

#else
namespace rl {
void gemm_skinny_bf16(const GemmSkinnyArgs&) { RL_CHECK(false); }
}  // namespace rl
#endif

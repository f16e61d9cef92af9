// A register tile is up to 6 rows by 64 columns, or 12 by 32. Two rows of b are interleaved within
// 128-bit lanes, which takes one instruction per vector: columns are permuted until the tile is
// stored. Few rows interleave b as they read it. For more, the columns of a tile are interleaved
// once for all rows, because these instructions take the place of dot products.
#include "ops/cpu/gemm_bf16dot.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
bool has_bf16_dot() {
  static const bool has = cpu_has_bf16_dot();
  return has;
}

void check_gemm_bf16dot(const GemmBf16DotArgs& p) {
  RL_CHECK(p.rows >= 0 && p.k >= 1 && p.lda % 2 == 0 && p.step % 2 == 0 && p.cols % 16 == 0);
}
}  // namespace rl

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 on its own intrinsics

namespace rl {
namespace {

constexpr int64_t kTileRows = 6, kTallTileRows = 12;
constexpr int64_t kLanes = 16;
constexpr int64_t kLine = 64;
// From so many rows on columns of b are interleaved once, if they have at most so many K steps.
constexpr int64_t kSharedRows = 2 * kTallTileRows, kSharedSteps = 256;

// Some rows against some columns of a product, from their first elements on.
struct Tile {
  const GemmBf16DotArgs& product;
  const bf16 *a, *b;
  float* c;
  const float* keep;
  const std::byte* prefetch;  // null: no prefetch
  const __m512i* pairs;       // b interleaved, or null
};

// Two K steps of 32 columns as two vectors of pairs: of every eight columns, the first vector holds
// the first four.
inline __attribute__((always_inline)) void load_pairs(const bf16* b, const bf16* next,
                                                      __m512bh (&pairs)[2]) {
  const __m512i even = _mm512_loadu_si512(b),
                odd = next ? _mm512_loadu_si512(next) : _mm512_setzero_si512();
  pairs[0] = (__m512bh)_mm512_unpacklo_epi16(even, odd);
  pairs[1] = (__m512bh)_mm512_unpackhi_epi16(even, odd);
}
inline __attribute__((always_inline)) __m512i widened(const bf16* from) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
// Two K steps of 16 columns as one vector of pairs, columns in order.
inline __attribute__((always_inline)) void load_pairs(const bf16* b, const bf16* next,
                                                      __m512bh (&pairs)[1]) {
  const __m512i odd = next ? _mm512_slli_epi32(widened(next), 16) : _mm512_setzero_si512();
  pairs[0] = (__m512bh)_mm512_or_si512(widened(b), odd);
}

inline __attribute__((always_inline)) void in_order(__m512 (&sums)[2]) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512d low = _mm512_castps_pd(sums[0]), high = _mm512_castps_pd(sums[1]);
  sums[0] = _mm512_castpd_ps(_mm512_permutex2var_pd(low, first, high));
  sums[1] = _mm512_castpd_ps(_mm512_permutex2var_pd(low, second, high));
}
inline __attribute__((always_inline)) void in_order(__m512 (&)[1]) {}

// Cache lines after `from`, some for each pair of K steps.
class Prefetch {
 public:
  Prefetch(const std::byte* from, const GemmBf16DotArgs& p) : from_(from) {
    const int64_t pairs = std::max<int64_t>(1, p.k / 2);
    if (from != nullptr) lines_ = (p.prefetch_lines + pairs - 1) / pairs;
  }
  void next() {
    for (int64_t i = 0; i < lines_; ++i, from_ += kLine) _mm_prefetch(from_, _MM_HINT_T0);
  }

 private:
  const std::byte* from_;
  int64_t lines_ = 0;
};

template <int G, int V>
inline __attribute__((always_inline)) void load_groups(const bf16* b, const bf16* next,
                                                       __m512bh (&pairs)[G][V]) {
  for (int g = 0; g < G; ++g)
    load_pairs(b + g * V * kLanes, next ? next + g * V * kLanes : nullptr, pairs[g]);
}

// R rows by G groups of V vectors.
template <int R, int G, int V>
inline __attribute__((always_inline)) void add_step(__m512 (&sums)[R][G][V], const bf16* a,
                                                    int64_t lda, const __m512bh (&pairs)[G][V]) {
  for (int r = 0; r < R; ++r) {
    int32_t pair;
    std::memcpy(&pair, a + r * lda, sizeof(pair));
    const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
    for (int g = 0; g < G; ++g)
      for (int v = 0; v < V; ++v)
        sums[r][g][v] = _mm512_dpbf16_ps(sums[r][g][v], both, pairs[g][v]);
  }
}

template <int R, int G, int V>
inline __attribute__((always_inline)) void end_tile(const Tile& t, __m512 (&sums)[R][G][V]) {
  for (int r = 0; r < R; ++r) {
    for (int g = 0; g < G; ++g) {
      in_order(sums[r][g]);
      for (int v = 0; v < V; ++v) {
        float* at = t.c + r * t.product.cols + (g * V + v) * kLanes;
        const __m512 sum = sums[r][g][v];
        if (t.keep)
          _mm512_storeu_ps(at,
                           _mm512_fmadd_ps(_mm512_loadu_ps(at), _mm512_set1_ps(t.keep[r]), sum));
        else
          _mm512_storeu_ps(at, _mm512_mul_ps(sum, _mm512_set1_ps(t.product.scale)));
      }
    }
  }
}

// Columns of b as they are read, or as share_columns() left them.
template <int R, int G, int V>
inline __attribute__((always_inline)) void add_steps(const Tile& t, __m512 (&sums)[R][G][V]) {
  const int64_t lda = t.product.lda, step = t.product.step, cols = t.product.cols;
  const bf16 *a = t.a, *b = t.b;
  Prefetch prefetch(t.prefetch, t.product);
  __m512bh pairs[G][V];
  for (int64_t left = t.product.k / 2; left > 0; --left, a += step, b += 2 * cols) {
    prefetch.next();
    load_groups(b, b + cols, pairs);
    add_step(sums, a, lda, pairs);
  }
  if (t.product.k % 2 == 0) return;
  load_groups(b, nullptr, pairs);
  add_step(sums, a, lda, pairs);
}
template <int R, int G, int V>
inline __attribute__((always_inline)) void add_shared_steps(const Tile& t,
                                                            __m512 (&sums)[R][G][V]) {
  const bf16* a = t.a;
  const __m512i* from = t.pairs;
  for (int64_t left = (t.product.k + 1) / 2; left > 0; --left, a += t.product.step) {
    __m512bh pairs[G][V];
    for (auto& group : pairs)
      for (__m512bh& p : group) p = (__m512bh)_mm512_load_si512(from++);
    add_step(sums, a, t.product.lda, pairs);
  }
}

template <int R, int G, int V>
void run_tile(const Tile& t) {
  __m512 sums[R][G][V];
  for (auto& row : sums)
    for (auto& group : row)
      for (__m512& s : group) s = _mm512_setzero_ps();
  t.pairs ? add_shared_steps(t, sums) : add_steps(t, sums);
  end_tile<R, G, V>(t, sums);
}

template <int G, int V>
void run_tile(int64_t rows, const Tile& t) {
  if constexpr (G * V <= 2) {
    if (rows == kTallTileRows) return run_tile<kTallTileRows, G, V>(t);
  }
  switch (rows) {
    case 1:
      return run_tile<1, G, V>(t);
    case 2:
      return run_tile<2, G, V>(t);
    case 3:
      return run_tile<3, G, V>(t);
    case 4:
      return run_tile<4, G, V>(t);
    case 5:
      return run_tile<5, G, V>(t);
    default:
      return run_tile<6, G, V>(t);
  }
}

// G groups of V vectors of all K steps, from col0 on; the first columns prefetch.
template <int G, int V>
void share_columns(const GemmBf16DotArgs& p, int64_t col0, __m512i* to) {
  const bf16* b = p.b + col0;
  Prefetch prefetch(col0 == 0 ? p.prefetch : nullptr, p);
  for (int64_t step = 0; step < p.k; step += 2, b += 2 * p.cols) {
    prefetch.next();
    __m512bh pairs[G][V];
    load_groups(b, step + 1 < p.k ? b + p.cols : nullptr, pairs);
    for (const auto& group : pairs)
      for (const __m512bh& vector : group) _mm512_store_si512(to++, (__m512i)vector);
  }
}

// All rows against the G groups of V vectors from col0 on. The first tile of a product prefetches,
// unless its columns are shared and have done so.
template <int G, int V>
void run_columns(const GemmBf16DotArgs& p, int64_t col0) {
  __m512i pairs[kSharedSteps / 2 * G * V];
  const bool shared = p.rows >= kSharedRows && p.k <= kSharedSteps;
  if (shared) share_columns<G, V>(p, col0, pairs);
  for (int64_t row = 0; row < p.rows;) {
    const int64_t left = p.rows - row;
    const int64_t rows =
        G * V <= 2 && left >= kTallTileRows ? kTallTileRows : std::min(kTileRows, left);
    const std::byte* prefetch = row == 0 && col0 == 0 && !shared ? p.prefetch : nullptr;
    run_tile<G, V>(rows, {p, p.a + row * p.lda, p.b + col0, p.c + row * p.cols + col0,
                          p.keep ? p.keep + row : nullptr, prefetch, shared ? pairs : nullptr});
    row += rows;
  }
}

void native_product(const GemmBf16DotArgs& p) {
  check_gemm_bf16dot(p);
  int64_t col0 = 0;
  for (; col0 + 4 * kLanes <= p.cols; col0 += 4 * kLanes) run_columns<2, 2>(p, col0);
  for (; col0 + 2 * kLanes <= p.cols; col0 += 2 * kLanes) run_columns<1, 2>(p, col0);
  for (; col0 < p.cols; col0 += kLanes) run_columns<1, 1>(p, col0);
}

void native_round(const float* from, int64_t n, bf16* to) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
    std::memcpy(to + i, &rounded, sizeof(rounded));
  }
}

}  // namespace
}  // namespace rl
#pragma GCC pop_options

#else
namespace rl {
namespace {
void native_product(const GemmBf16DotArgs&) { RL_CHECK(false); }
void native_round(const float*, int64_t, bf16*) { RL_CHECK(false); }
}  // namespace
}  // namespace rl
#endif

namespace rl {
void gemm_bf16dot(const GemmBf16DotArgs& p) {
  has_bf16_dot() ? native_product(p) : gemm_bf16dot_portable(p);
}
void round_for_bf16dot(const float* from, int64_t n, bf16* to) {
  has_bf16_dot() ? native_round(from, n, to) : round_for_bf16dot_portable(from, n, to);
}
}  // namespace rl

// Shared by attention and its backward: multiply_accumulate, one small GEMM with a fixed reduction
// order; gathering rows as (row, head) pairs; and which keys of a block they attend. Included once
// per target inside HWY_NAMESPACE blocks of *_simd.cc files.
#if defined(RL_OPS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RL_OPS_CPU_ATTENTION_INL_H_
#undef RL_OPS_CPU_ATTENTION_INL_H_
#else
#define RL_OPS_CPU_ATTENTION_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "ops/attention.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// Cache lines to prefetch, spread over the steps of a product. Blocks are scattered, so the
// hardware prefetcher cannot guess the next one, and prefetching it all at once would stall. A
// prefetch never faults.
struct PrefetchRange {
  static constexpr uint64_t kLine = 64;
  const std::byte* at = nullptr;  // null: nothing
  uint64_t lines = 0;
};

// c[i, 0..n) += sum over t in [0, k), in order, of a(i, t) * b[t, 0..n). a(i, t) = a[i * row_step +
// t * step]. b is fp32 or bf16 widened on the fly: the same bits either way.
template <typename B>
struct Product {
  const float* a;
  int64_t row_step, step;
  const B* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  int64_t m, k, n;  // n is a multiple of 16
  PrefetchRange prefetch = {};
  bool fresh = false;  // c counts as zero, whatever it holds
};

// Spreads the prefetches of a PrefetchRange evenly over the steps.
class SpreadPrefetch {
 public:
  SpreadPrefetch(const PrefetchRange& prefetch, int64_t steps)
      : at_(prefetch.at),
        rate_(prefetch.lines * kWhole / static_cast<uint64_t>(std::max<int64_t>(1, steps))) {}
  HWY_INLINE void step() {
    for (due_ += rate_; due_ >= kWhole; due_ -= kWhole, at_ += PrefetchRange::kLine)
      hwy::Prefetch(reinterpret_cast<const uint8_t*>(at_));
  }

 private:
  static constexpr uint64_t kWhole = 1 << 16;
  const std::byte* at_;
  uint64_t rate_, due_ = kWhole - 1;
};
struct NoPrefetch {
  HWY_INLINE void step() {}
};

// A register tile of MR rows and NV vectors; element chains run over t from the value c held.
template <int MR, int NV, typename B, typename Prefetch>
HWY_INLINE void product_tile(const Product<B>& p, int64_t i, int64_t j, Prefetch prefetch) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[MR][NV];
  float* c = p.c + i * p.ldc + j;
  for (int r = 0; r < MR; ++r)
    for (int v = 0; v < NV; ++v)
      acc[r][v] = p.fresh ? hn::Zero(d) : hn::LoadU(d, c + r * p.ldc + v * lanes);
  const float* a = p.a + i * p.row_step;
  const B* b = p.b + j;
  const int64_t row_step = p.row_step, step = p.step, ldb = p.ldb;  // kept in registers
  for (int64_t left = p.k; left > 0; --left, a += step, b += ldb) {
    prefetch.step();
    hn::Vec<decltype(d)> bv[NV];
    for (int v = 0; v < NV; ++v) bv[v] = load(d, b + v * lanes);
    for (int r = 0; r < MR; ++r) {
      const auto av = hn::Set(d, a[r * row_step]);
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::MulAdd(av, bv[v], acc[r][v]);
    }
  }
  for (int r = 0; r < MR; ++r)
    for (int v = 0; v < NV; ++v) hn::StoreU(acc[r][v], d, c + r * p.ldc + v * lanes);
}

// The first tile of a product does the prefetching.
template <int MR, int NV, typename B>
HWY_INLINE void product_tile(const Product<B>& p, int64_t i, int64_t j) {
  if (p.prefetch.at != nullptr && i == 0 && j == 0)
    product_tile<MR, NV>(p, i, j, SpreadPrefetch(p.prefetch, p.k));
  else
    product_tile<MR, NV>(p, i, j, NoPrefetch());
}

// Rows of a tile: as many as let its sums, b and one value of a fit the registers (AVX2 has 16,
// AVX-512 32).
template <int NV>
constexpr int64_t kTileRows = NV == 4 && HWY_TARGET > HWY_AVX3 ? 3 : 6;

template <int NV, typename B>
HWY_INLINE void product_rows(const Product<B>& p, int64_t rows, int64_t i, int64_t j) {
  if constexpr (kTileRows < NV >> 3) {
    if (rows == 6) return product_tile<6, NV>(p, i, j);
    if (rows == 5) return product_tile<5, NV>(p, i, j);
    if (rows == 4) return product_tile<4, NV>(p, i, j);
  }
  if (rows == 3) return product_tile<3, NV>(p, i, j);
  if (rows == 2) return product_tile<2, NV>(p, i, j);
  product_tile<1, NV>(p, i, j);
}

// Rows are distributed evenly: a tile with few rows stalls on its own accumulators.
template <int NV, typename B>
void product_columns(const Product<B>& p, int64_t j) {
  int64_t tiles = (p.m + kTileRows<NV> - 1) / kTileRows<NV>;
  for (int64_t i = 0; tiles > 0; --tiles) {
    const int64_t rows = (p.m - i + tiles - 1) / tiles;
    product_rows<NV>(p, rows, i, j);
    i += rows;
  }
}

template <typename B>
void multiply_accumulate(const Product<B>& p) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  if (kTileRows<4> == kTileRows<2> ||
      p.m <= kTileRows<4>) {  // few rows take wide tiles, which have as many accumulators
    for (; j + 4 * lanes <= p.n; j += 4 * lanes) product_columns<4>(p, j);
  }
  for (; j + 2 * lanes <= p.n; j += 2 * lanes) product_columns<2>(p, j);
  for (; j + lanes <= p.n; j += lanes) product_columns<1>(p, j);
}

template <typename T>
HWY_INLINE void widen(const T* from, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(load(d, from + i), d, to + i);
}

// `count` query rows of one kv head, from first_row on, as scaled fp32 pairs: pair i = row * group
// + head.
template <typename T>
void gather_pairs(const AttentionShape& s, const T* q, int64_t first_row, int64_t count,
                  int64_t kv_head, float scale, float* pairs) {
  const hn::ScalableTag<float> d;
  const int64_t W = s.padded_dim(), group = s.group();
  for (int64_t r = 0; r < count; ++r) {
    const T* from = q + ((first_row + r) * s.heads + kv_head * group) * W;
    float* to = pairs + r * group * W;
    for (int64_t i = 0; i < group * W; i += static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreU(hn::Mul(load(d, from + i), hn::Set(d, scale)), d, to + i);
  }
}

// The keys of one block that a row attends, relative to the block's start. Not empty.
struct KeyRange {
  int64_t first, end;
};
HWY_INLINE KeyRange keys_of_row(const AttentionRule& rule, int64_t position, int64_t start,
                                int64_t block) {
  return {std::max<int64_t>(0, rule.first_key(position) - start),
          std::min(block, position + 1 - start)};
}
// Lanes of the vector at j that lie in the range.
template <class D>
HWY_INLINE hn::Mask<D> in_range(D d, const KeyRange& keys, int64_t j) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto before = [&](int64_t n) {
    return hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(n - j, 0, lanes)));
  };
  return hn::AndNot(before(keys.first), before(keys.end));
}

// The pairs whose rows attend a key of the block starting at `start`.
struct PairRange {
  int64_t first, end;
};
HWY_INLINE PairRange pairs_of_block(const AttentionRule& rule, const AttentionShape& s,
                                    const AttentionRows& rows, int64_t start) {
  const int64_t first = std::max<int64_t>(0, start - rows.first_position);
  if (rule.window == 0) return {first * s.group(), rows.rows * s.group()};
  // The last row that attends the block's last key is window - 1 positions after it.
  const int64_t behind = start + s.block_size - rows.first_position + rule.window - 1;
  return {first * s.group(), std::min(rows.rows, behind) * s.group()};
}
// The same for the keys of the block that are in a run. May be empty.
HWY_INLINE PairRange pairs_of_run(const AttentionRule& rule, const AttentionShape& s,
                                  const AttentionRows& rows, const KeyRun& run, int64_t start) {
  const int64_t first_key = std::max(start, run.first),
                end_key = std::min(start + s.block_size, run.end);
  const int64_t first = std::max<int64_t>(0, first_key - rows.first_position);
  if (rule.window == 0) return {first * s.group(), rows.rows * s.group()};
  const int64_t behind = end_key - rows.first_position + rule.window - 1;
  return {first * s.group(), std::min(rows.rows, behind) * s.group()};
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();
#endif

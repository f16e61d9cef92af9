// GEMMs of the attention backward over one block of keys and values, in fp32 or with bf16 pairs.
// Included once per target inside HWY_NAMESPACE blocks of *_simd.cc files.
#if defined(RL_OPS_CPU_ATTENTION_BACKWARD_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RL_OPS_CPU_ATTENTION_BACKWARD_PRODUCTS_INL_H_
#undef RL_OPS_CPU_ATTENTION_BACKWARD_PRODUCTS_INL_H_
#else
#define RL_OPS_CPU_ATTENTION_BACKWARD_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "ops/attention_scratch.h"
#include "ops/cpu/attention-inl.h"
#include "ops/cpu/gemm_bf16dot.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// (row, head) pairs of a call, against one block. The scores of a tile are (kTilePairs, P).
struct BackwardTile {
  int64_t first, count;  // at most kTilePairs pairs
  int64_t keys;          // of the block, up to the last one that any of the pairs attends
  int64_t columns() const { return (keys + 15) / 16 * 16; }
};

// to (cols, rows) = from (rows, cols) transposed; both are multiples of 16.
#if HWY_TARGET == HWY_SCALAR
template <typename T>
void transpose(const T* from, int64_t rows, int64_t cols, T* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
}
#else
// In squares of 128-bit vectors.
template <typename T>
void transpose(const T* from, int64_t rows, int64_t cols, T* to) {
  using Lane = std::conditional_t<sizeof(T) == 2, uint16_t, float>;
  constexpr int64_t kSide = 16 / sizeof(T);
  const hn::Full128<Lane> d;
  for (int64_t r = 0; r < rows; r += kSide) {
    for (int64_t c = 0; c < cols; c += kSide) {
      hn::Vec<decltype(d)> x[kSide], y[kSide];
      const Lane* corner = reinterpret_cast<const Lane*>(from + r * cols + c);
      for (int64_t i = 0; i < kSide; ++i) x[i] = hn::LoadU(d, corner + i * cols);
      for (int64_t stage = 1; stage < kSide;
           stage *= 2) {  // each interleaves row i with row i + kSide / 2
        for (int64_t i = 0; i < kSide / 2; ++i) {
          y[2 * i] = hn::InterleaveLower(d, x[i], x[i + kSide / 2]);
          y[2 * i + 1] = hn::InterleaveUpper(d, x[i], x[i + kSide / 2]);
        }
        std::copy_n(y, kSide, x);
      }
      for (int64_t i = 0; i < kSide; ++i)
        hn::StoreU(x[i], d, reinterpret_cast<Lane*>(to + (c + i) * rows + r));
    }
  }
}
#endif

// Gathers output gradients as pairs, like gather_pairs() does queries.
HWY_INLINE void gather_gradients(const AttentionShape& s, const float* d_out, int64_t first_row,
                                 int64_t count, int64_t kv_head, float* pairs) {
  const int64_t D = s.head_dim, W = s.padded_dim();
  for (int64_t i = 0; i < count * s.group(); ++i) {
    const float* from = d_out + s.place_of_pair(first_row, kv_head, i) * D;
    std::fill_n(std::copy_n(from, D, pairs + i * W), W - D, 0.0f);
  }
}

// fp32 arithmetic for any type of queries (T) and of keys and values (K).
template <typename T, typename K>
class Fp32Backward {
 public:
  Fp32Backward(const AttentionBackwardArgs& a, const AttentionRows& rows, int64_t kv_head,
               FloatScratch scratch)
      : shape_(a.shape) {
    const int64_t W = shape_.padded_dim(), run = rows.rows * shape_.group() * W,
                  block = W * shape_.block_size;
    q_ = scratch.take<float>(run);
    d_out_ = scratch.take<float>(run);
    dq = scratch.take<float>(run);
    for (float** to : {&widened_, &k_, &v_t_, &dk, &dv}) *to = scratch.take<float>(block);
    gather_pairs(shape_, static_cast<const T*>(a.q), rows.first_row, rows.rows, kv_head,
                 a.rule.scale, q_);
    gather_gradients(shape_, a.d_out, rows.first_row, rows.rows, kv_head, d_out_);
    std::fill_n(dq, run, 0.0f);
  }
  static constexpr bool kScaledQueries = true;  // dk is then the gradient for unscaled queries

  void load(const std::byte* block) {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size;
    const K* keys = reinterpret_cast<const K*>(block);
    transpose(as_floats(keys + W * P), P, W, v_t_);
    k_t_ = as_floats(keys);
    transpose(k_t_, W, P, k_);
    std::fill_n(dk, P * W, 0.0f);
    std::fill_n(dv, P * W, 0.0f);
  }

  void scores(const BackwardTile& t, float* s, float* dp) const {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size, at = t.first * W;
    multiply_accumulate<float>({q_ + at, W, 1, k_t_, P, s, P, t.count, W, t.columns(), {}, true});
    multiply_accumulate<float>(
        {d_out_ + at, W, 1, v_t_, P, dp, P, t.count, W, t.columns(), {}, true});
  }

  void add(const BackwardTile& t, const float* p, const float* ds) {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size, at = t.first * W;
    multiply_accumulate<float>({p, 1, P, d_out_ + at, W, dv, W, t.keys, t.count, W});
    multiply_accumulate<float>({ds, 1, P, q_ + at, W, dk, W, t.keys, t.count, W});
    multiply_accumulate<float>({ds, P, 1, k_, W, dq + at, W, t.count, t.keys, W});
  }

  float *dq, *dk, *dv;  // (pairs, W) of the call, (P, W) of the block

 private:
  // Widens half a block (its keys or its values).
  const float* as_floats(const K* from) {
    if constexpr (std::is_same_v<K, float>) return from;
    widen(from, widened_, shape_.padded_dim() * shape_.block_size);
    return widened_;
  }

  const AttentionShape& shape_;
  const float* k_t_ = nullptr;
  float *q_, *d_out_, *widened_, *k_, *v_t_;
};

// Two rows (2t, 2t + 1) of n floats as n pairs, rounded to bf16; a missing last row is zeros.
HWY_INLINE void interleave_rounded(const float* from, int64_t rows, int64_t stride, int64_t n,
                                   bf16* to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> d32;
  const bf16* type = nullptr;
  for (int64_t r = 0; r < rows; r += 2) {
    const float* row = from + r * stride;
    for (int64_t j = 0; j < n; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto even = hn::BitCast(d32, round_as(d, hn::LoadU(d, row + j), type));
      const auto odd = r + 1 < rows
                           ? hn::BitCast(d32, round_as(d, hn::LoadU(d, row + stride + j), type))
                           : hn::Zero(d32);
      hn::StoreU(hn::Or(hn::ShiftRight<16>(even), odd), d32,
                 reinterpret_cast<uint32_t*>(to + r * stride + 2 * j));
    }
  }
}

// bf16 pair products (gemm_bf16dot.h). Scores have the forward's bits. Weights and score gradients
// are rounded to bf16; d_out, which is fp32, is split into a sum of two bf16.
class Bf16DotBackward {
 public:
  Bf16DotBackward(const AttentionBackwardArgs& a, const AttentionRows& rows, int64_t kv_head,
                  FloatScratch scratch)
      : shape_(a.shape), scale_(a.rule.scale) {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size, group = shape_.group(),
                  run = rows.rows * group * W;
    for (bf16** to : {&q_, &d_out_, &d_out_rest_}) *to = scratch.take<bf16>(run);
    dq = scratch.take<float>(run);
    for (bf16** to : {&k_, &v_t_}) *to = scratch.take<bf16>(W * P);
    for (float** to : {&dk, &dv}) *to = scratch.take<float>(W * P);
    for (bf16** to : {&p_pairs_, &ds_pairs_, &ds_}) *to = scratch.take<bf16>(kTilePairs * P);
    ones_ = scratch.take<float>(std::max(kTilePairs, P));
    std::fill_n(ones_, std::max(kTilePairs, P), 1.0f);
    std::fill_n(dq, run, 0.0f);
    for (int64_t i = 0; i < rows.rows * group; ++i) {
      const int64_t place = shape_.place_of_pair(rows.first_row, kv_head, i);
      std::copy_n(static_cast<const bf16*>(a.q) + place * W, W, q_ + i * W);
      split(a.d_out + place * shape_.head_dim, d_out_ + i * W, d_out_rest_ + i * W);
    }
  }
  static constexpr bool kScaledQueries = false;

  void load(const std::byte* block) {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size;
    k_t_ = reinterpret_cast<const bf16*>(block);
    transpose(k_t_, W, P, k_);
    transpose(k_t_ + W * P, P, W, v_t_);
    std::fill_n(dk, P * W, 0.0f);
    std::fill_n(dv, P * W, 0.0f);
  }

  void scores(const BackwardTile& t, float* s, float* dp) const {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size, at = t.first * W;
    gemm_bf16dot({q_ + at, W, k_t_, s, t.count, W, P, scale_});
    gemm_bf16dot({d_out_ + at, W, v_t_, dp, t.count, W, P, 1.0f});
    gemm_bf16dot({d_out_rest_ + at, W, v_t_, dp, t.count, W, P, 1.0f, ones_});
  }

  void add(const BackwardTile& t, const float* p, const float* ds) {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size, at = t.first * W;
    interleave_rounded(p, t.count, P, t.columns(), p_pairs_);
    interleave_rounded(ds, t.count, P, t.columns(), ds_pairs_);
    for (int64_t i = 0; i < t.count; ++i) round_for_bf16dot(ds + i * P, t.columns(), ds_ + i * P);
    add_keys(t, p_pairs_, d_out_ + at, dv);
    add_keys(t, p_pairs_, d_out_rest_ + at, dv);
    add_keys(t, ds_pairs_, q_ + at, dk);
    gemm_bf16dot({ds_, P, k_, dq + at, t.count, t.keys, W, 1.0f, ones_});
  }

  float *dq, *dk, *dv;

 private:
  // Splits one head: from = high + low, up to half a unit in the last place of low.
  void split(const float* from, bf16* high, bf16* low) const {
    const int64_t D = shape_.head_dim, padding = shape_.padded_dim() - D;
    for_each_lane(D, [&](auto d, int64_t i) {
      const auto v = hn::LoadU(d, from + i), rounded = round_as(d, v, high);
      store(rounded, d, high + i);
      store(hn::Sub(v, rounded), d, low + i);
    });
    std::fill_n(high + D, padding, bf16{});
    std::fill_n(low + D, padding, bf16{});
  }
  // to (keys, W) += the transposed weights of a tile times rows (pairs, W).
  void add_keys(const BackwardTile& t, const bf16* weights, const bf16* rows, float* to) const {
    gemm_bf16dot({weights, 2, rows, to, t.keys, t.count, shape_.padded_dim(), 1.0f, ones_, nullptr,
                  0, 2 * shape_.block_size});
  }

  const AttentionShape& shape_;
  const float scale_;
  const bf16* k_t_ = nullptr;
  bf16 *q_, *d_out_, *d_out_rest_, *k_, *v_t_, *p_pairs_, *ds_pairs_, *ds_;
  float* ones_;
};

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();
#endif

// The two GEMMs of attention over one block of keys and values: scores (q k^T), and the weighted
// sum of values. Included once per target inside HWY_NAMESPACE blocks of *_simd.cc files.
#if defined(RL_OPS_CPU_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RL_OPS_CPU_ATTENTION_PRODUCTS_INL_H_
#undef RL_OPS_CPU_ATTENTION_PRODUCTS_INL_H_
#else
#define RL_OPS_CPU_ATTENTION_PRODUCTS_INL_H_
#endif

#include <algorithm>

#include "core/error.h"
#include "ops/cpu/attention-inl.h"
#include "ops/cpu/gemm_bf16dot.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// Whether queries, keys and values are multiplied with bf16 dot products.
HWY_INLINE bool uses_bf16_dot(const AttentionShape& s, AttentionProducts products) {
  const bool rounded = s.dtype == Dtype::kBf16 && s.kv_dtype == Dtype::kBf16;
  RL_CHECK(rounded || products != AttentionProducts::kBf16Dot);
  return products == AttentionProducts::kBest ? rounded && has_bf16_dot()
                                              : products == AttentionProducts::kBf16Dot;
}

// Calls use<type of q and out, products> for the types of a call. The fp32 products are Fp32<type
// of q, type of k and v>, the bf16 ones Bf16Dot.
template <template <typename, typename> class Fp32, typename Bf16Dot, typename Use>
void with_products(const AttentionShape& s, AttentionProducts products, const Use& use) {
  const bool wide_kv = s.kv_dtype == Dtype::kF32;
  if (uses_bf16_dot(s, products))
    use.template operator()<bf16, Bf16Dot>();
  else if (s.dtype == Dtype::kF32 && wide_kv)
    use.template operator()<float, Fp32<float, float>>();
  else if (s.dtype == Dtype::kF32)
    use.template operator()<float, Fp32<float, bf16>>();
  else if (wide_kv)
    use.template operator()<bf16, Fp32<bf16, float>>();
  else
    use.template operator()<bf16, Fp32<bf16, bf16>>();
}

// One block against a range of pairs of a call. Scores and weights are (pairs, P), values (pairs,
// W), keep has one factor per pair; all start at the range's first pair.
struct BlockProduct {
  const std::byte* block;  // keys, then values
  int64_t written;         // keys that have been written
  PairRange pairs;
  PrefetchRange prefetch_keys, prefetch_values;
  int64_t count() const { return pairs.end - pairs.first; }
};

// fp32 arithmetic for any type of queries (T) and of keys and values (K). Scores are one fused
// multiply-add chain over d. Values are one chain over keys in order, starting from the rescaled
// previous sum.
template <typename T, typename K>
class Fp32Products {
 public:
  Fp32Products(const AttentionArgs& a, int64_t first_row, int64_t rows, int64_t kv_head,
               float* scratch)
      : shape_(a.shape),
        q_(scratch),
        k_t_(q_ + rows * a.shape.group() * a.shape.padded_dim()),
        v_(k_t_ + a.shape.padded_dim() * a.shape.block_size) {
    gather_pairs(a.shape, static_cast<const T*>(a.q), first_row, rows, kv_head, a.rule.scale, q_);
  }

  void scores(const BlockProduct& p, float* scores) const {
    const K* keys = reinterpret_cast<const K*>(p.block);
    if (direct(p)) return add_scores(p, keys, scores);
    widen(keys, k_t_, shape_.padded_dim() * shape_.block_size);
    add_scores(p, k_t_, scores);
  }

  void values(const BlockProduct& p, const float* weights, const float* keep, float* out) const {
    const int64_t W = shape_.padded_dim();
    for (int64_t i = 0; i < p.count(); ++i)
      if (keep[i] != 1.0f) scale_row(out + i * W, W, keep[i]);
    const K* v = reinterpret_cast<const K*>(p.block) + W * shape_.block_size;
    if (direct(p)) return add_values(p, v, weights, out);
    widen(v, v_, p.written * W);
    add_values(p, v_, weights, out);
  }

 private:
  // Up to this many pairs, widening the block in registers is faster than a widened copy.
  static constexpr int64_t kDirectPairs = 4;
  static bool direct(const BlockProduct& p) { return p.count() <= kDirectPairs; }

  static void scale_row(float* row, int64_t n, float factor) {
    const hn::ScalableTag<float> d;
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, row + i);
  }
  template <typename B>
  void add_scores(const BlockProduct& p, const B* k_t, float* scores) const {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size;
    multiply_accumulate<B>(
        {q_ + p.pairs.first * W, W, 1, k_t, P, scores, P, p.count(), W, P, p.prefetch_keys, true});
  }
  template <typename B>
  void add_values(const BlockProduct& p, const B* v, const float* weights, float* out) const {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size;
    multiply_accumulate<B>(
        {weights, P, 1, v, W, out, W, p.count(), p.written, W, p.prefetch_values});
  }

  const AttentionShape& shape_;
  float *q_, *k_t_, *v_;
};

// bf16 pair products (gemm_bf16dot.h), for bf16 queries, keys and values: twice the throughput.
// Scores are scaled after their sum; weights are rounded to bf16, the running sum of weights is
// not.
class Bf16DotProducts {
 public:
  Bf16DotProducts(const AttentionArgs& a, int64_t first_row, int64_t rows, int64_t kv_head,
                  float* scratch)
      : shape_(a.shape),
        scale_(a.rule.scale),
        q_(reinterpret_cast<bf16*>(scratch)),
        weights_(q_ + rows * a.shape.group() * a.shape.padded_dim()) {
    const int64_t W = shape_.padded_dim(), run = shape_.group() * W;
    const bf16* q = static_cast<const bf16*>(a.q) + first_row * shape_.heads * W + kv_head * run;
    for (int64_t r = 0; r < rows; ++r) std::copy_n(q + r * shape_.heads * W, run, q_ + r * run);
  }

  void scores(const BlockProduct& p, float* scores) const {
    const int64_t W = shape_.padded_dim();
    gemm_bf16dot({q_ + p.pairs.first * W, W, reinterpret_cast<const bf16*>(p.block), scores,
                  p.count(), W, shape_.block_size, scale_, nullptr, p.prefetch_keys.at,
                  static_cast<int64_t>(p.prefetch_keys.lines)});
  }

  void values(const BlockProduct& p, const float* weights, const float* keep, float* out) const {
    const int64_t W = shape_.padded_dim(), P = shape_.block_size;
    round_for_bf16dot(weights, p.count() * P, weights_);
    gemm_bf16dot({weights_, P, reinterpret_cast<const bf16*>(p.block) + W * P, out, p.count(),
                  p.written, W, 1.0f, keep, p.prefetch_values.at,
                  static_cast<int64_t>(p.prefetch_values.lines)});
  }

 private:
  const AttentionShape& shape_;
  const float scale_;
  bf16 *q_, *weights_;
};

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();
#endif

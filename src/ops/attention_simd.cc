// Attention forward and backward on the CPU. Everything reduces to one small product with a fixed order,
// multiply_accumulate, over fp32 copies of one KV block that stay in the first-level cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/attention.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// Lines to ask for ahead of use, spread over the steps of a product: blocks are scattered, so the hardware cannot guess
// the next, and asking for all of it at once would stall. Asking never faults.
struct Ahead {
  static constexpr uint64_t kLine = 64;
  const std::byte* at = nullptr;  // null: nothing
  uint64_t lines = 0;
};

// c[i, 0..n) += sum over t in [0, k), in order, of a(i, t) * b[t, 0..n). a(i, t) = a[i * row_step + t * step].
// b is fp32 or bf16 widened on the fly: the same bits either way.
template <typename B>
struct Product {
  const float* a;
  int64_t row_step, step;
  const B* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  int64_t m, k, n;  // n is a multiple of the vector width
  Ahead ahead = {};
};

// Hands out the lines of an Ahead evenly over the steps.
class Asking {
 public:
  Asking(const Ahead& ahead, int64_t steps)
      : at_(ahead.at), rate_(ahead.lines * kWhole / static_cast<uint64_t>(std::max<int64_t>(1, steps))) {}
  HWY_INLINE void step() {
    for (due_ += rate_; due_ >= kWhole; due_ -= kWhole, at_ += Ahead::kLine)
      hwy::Prefetch(reinterpret_cast<const uint8_t*>(at_));
  }

 private:
  static constexpr uint64_t kWhole = 1 << 16;
  const std::byte* at_;
  uint64_t rate_, due_ = kWhole - 1;
};
struct NotAsking {
  HWY_INLINE void step() {}
};

// A register tile of MR rows and NV vectors; element chains run over t from the value c held.
template <int MR, int NV, typename B, typename Ask>
HWY_INLINE void product_tile(const Product<B>& p, int64_t i, int64_t j, Ask ask) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[MR][NV];
  float* c = p.c + i * p.ldc + j;
  for (int r = 0; r < MR; ++r)
    for (int v = 0; v < NV; ++v) acc[r][v] = hn::LoadU(d, c + r * p.ldc + v * lanes);
  const float* a = p.a + i * p.row_step;
  const B* b = p.b + j;
  for (int64_t t = 0; t < p.k; ++t) {
    ask.step();
    hn::Vec<decltype(d)> bv[NV];
    for (int v = 0; v < NV; ++v) bv[v] = load(d, b + t * p.ldb + v * lanes);
    for (int r = 0; r < MR; ++r) {
      const auto av = hn::Set(d, a[r * p.row_step + t * p.step]);
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::MulAdd(av, bv[v], acc[r][v]);
    }
  }
  for (int r = 0; r < MR; ++r)
    for (int v = 0; v < NV; ++v) hn::StoreU(acc[r][v], d, c + r * p.ldc + v * lanes);
}

// The first tile of a product asks for what comes ahead.
template <int MR, int NV, typename B>
HWY_INLINE void product_tile(const Product<B>& p, int64_t i, int64_t j) {
  if (p.ahead.at != nullptr && i == 0 && j == 0) product_tile<MR, NV>(p, i, j, Asking(p.ahead, p.k));
  else product_tile<MR, NV>(p, i, j, NotAsking());
}

template <int NV, typename B>
HWY_INLINE void product_columns(const Product<B>& p, int64_t j) {
  constexpr int kRows = NV == 4 ? 4 : NV == 2 ? 6 : 8;
  int64_t i = 0;
  for (; i + kRows <= p.m; i += kRows) product_tile<kRows, NV>(p, i, j);
  for (; i + 3 <= p.m; i += 3) product_tile<3, NV>(p, i, j);
  for (; i < p.m; ++i) product_tile<1, NV>(p, i, j);
}

template <typename B>
void multiply_accumulate(const Product<B>& p) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + 4 * lanes <= p.n; j += 4 * lanes) product_columns<4>(p, j);
  for (; j + 2 * lanes <= p.n; j += 2 * lanes) product_columns<2>(p, j);
  for (; j + lanes <= p.n; j += lanes) product_columns<1>(p, j);
}

template <typename T>
HWY_INLINE void widen(const T* from, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) hn::StoreU(load(d, from + i), d, to + i);
}

// `count` query rows from first_row on of one kv head as fp32 pairs: pair i = row * group + head, scaled.
template <typename T>
void gather_pairs(const AttentionShape& s, const T* q, int64_t first_row, int64_t count, int64_t kv_head,
                  float scale, float* pairs) {
  const hn::ScalableTag<float> d;
  const int64_t group = s.group();
  for (int64_t r = 0; r < count; ++r) {
    const T* from = q + ((first_row + r) * s.heads + kv_head * group) * s.head_dim;
    float* to = pairs + r * group * s.head_dim;
    for (int64_t i = 0; i < group * s.head_dim; i += static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreU(hn::Mul(load(d, from + i), hn::Set(d, scale)), d, to + i);
  }
}

// The keys of one block that a row attends, counted from the block's first. Not empty.
struct KeyRange {
  int64_t first, end;
};
HWY_INLINE KeyRange keys_of_row(const AttentionRule& rule, int64_t position, int64_t start, int64_t block) {
  return {std::max<int64_t>(0, rule.first_key(position) - start), std::min(block, position + 1 - start)};
}
// Lanes of a vector at j that lie in the range.
template <class D>
HWY_INLINE hn::Mask<D> in_range(D d, const KeyRange& keys, int64_t j) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto before = [&](int64_t n) {
    return hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(n - j, 0, lanes)));
  };
  return hn::AndNot(before(keys.first), before(keys.end));
}

// The largest score among `keys`; the other scores become minus infinity.
HWY_INLINE float mask_and_max(float* s, const KeyRange& keys, int64_t block) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
  const bool whole = keys.first == 0 && keys.end == block;
  auto top = low;
  for (int64_t j = 0; j < block; j += lanes) {
    auto v = hn::LoadU(d, s + j);
    if (!whole) {
      v = hn::IfThenElse(in_range(d, keys, j), v, low);
      hn::StoreU(v, d, s + j);
    }
    top = hn::Max(top, v);
  }
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// One online-softmax update of a pair with its scores of this block; turns scores into weights, zero outside `keys`.
HWY_INLINE void softmax_block(float* s, const KeyRange& keys, int64_t block, float& max, float& sum, float* out,
                              int64_t dim) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float new_max = std::max(max, mask_and_max(s, keys, block));
  auto total = hn::Zero(d);
  for (int64_t j = 0; j < block; j += lanes) {
    const auto shifted = hn::Sub(hn::LoadU(d, s + j), hn::Set(d, new_max));
    const auto masked = hn::Eq(shifted, hn::Set(d, -std::numeric_limits<float>::infinity()));
    const auto e = hn::IfThenZeroElse(masked, hn::Exp(d, shifted));
    hn::StoreU(e, d, s + j);
    total = hn::Add(total, e);
  }
  const float block_sum = hn::GetLane(hn::SumOfLanes(d, total));
  if (new_max == max) {  // what was kept counts as before: exp(0) = 1
    sum += block_sum;
    return;
  }
  const hn::CappedTag<float, 1> one;
  const float keep_old = hn::GetLane(hn::Exp(one, hn::Set(one, max - new_max)));
  sum = sum * keep_old + block_sum;
  max = new_max;
  for (int64_t i = 0; i < dim; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, out + i), hn::Set(d, keep_old)), d, out + i);
}

// The pairs whose rows attend a key of the block starting at `start`.
struct PairRange {
  int64_t first, end;
};
HWY_INLINE PairRange pairs_of_block(const AttentionRule& rule, const AttentionShape& s, const AttentionRows& rows,
                                    int64_t start) {
  const int64_t first = std::max<int64_t>(0, start - rows.first_position);
  if (rule.window == 0) return {first * s.group(), rows.rows * s.group()};
  // The last row that attends the block's last key stands window - 1 positions behind it.
  const int64_t behind = start + s.block_size - rows.first_position + rule.window - 1;
  return {first * s.group(), std::min(rows.rows, behind) * s.group()};
}

// Up to this many pairs, widening the block in registers beats a widened copy.
constexpr int64_t kDirectPairs = 4;

// The running softmax of the pairs of one call, block by block. T is the type of q, keys, values and output.
template <typename T>
class Attending {
 public:
  Attending(const AttentionArgs& args, int64_t first_row, int64_t rows, int64_t kv_head, float* scratch)
      : args_(args), shape_(args.shape), first_row_(first_row), kv_head_(kv_head),
        pairs_(rows * args.shape.group()) {
    const int64_t D = shape_.head_dim, P = shape_.block_size;
    q_ = scratch;
    out_ = q_ + pairs_ * D;
    scores_ = out_ + pairs_ * D;
    k_t_ = scores_ + pairs_ * P;
    v_ = k_t_ + D * P;
    max_ = v_ + P * D;
    sum_ = max_ + pairs_;
    gather_pairs(shape_, static_cast<const T*>(args.q), first_row, rows, kv_head, args.rule.scale, q_);
    std::fill_n(out_, pairs_ * D, 0.0f);
    std::fill_n(max_, pairs_, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, pairs_, 0.0f);
  }

  const std::byte* block(int32_t id) const {
    return args_.pool + (id * shape_.kv_heads + kv_head_) * shape_.kv_head_bytes();
  }
  // The next call of visit() goes over the block at `next`, or null.
  void ask_for(const std::byte* next) { next_ = next; }

  // The block `id` of the keys from `start` on, `written` of which are there, against some pairs; position_of(row) is
  // the position of a row of the call.
  template <typename Positions>
  void visit(int32_t id, int64_t start, int64_t written, const PairRange& pairs, const Positions& position_of) {
    const int64_t D = shape_.head_dim, P = shape_.block_size;
    const T* k_bits = reinterpret_cast<const T*>(block(id));
    if (pairs.end - pairs.first > kDirectPairs) {
      widen(k_bits, k_t_, D * P);
      widen(k_bits + D * P, v_, written * D);
      attend_block(k_t_, v_, start, written, pairs, position_of);
    } else {
      attend_block(k_bits, k_bits + D * P, start, written, pairs, position_of);
    }
  }

  void finish() const {
    const hn::ScalableTag<float> d;
    const int64_t D = shape_.head_dim, group = shape_.group();
    for (int64_t i = 0; i < pairs_; ++i) {
      const int64_t row = first_row_ + i / group, head = kv_head_ * group + i % group;
      T* to = static_cast<T*>(args_.out) + (row * shape_.heads + head) * D;
      for (int64_t c = 0; c < D; c += static_cast<int64_t>(hn::Lanes(d)))
        store(hn::Div(hn::LoadU(d, out_ + i * D + c), hn::Set(d, sum_[i])), d, to + c);
      if (args_.lse) args_.lse[row * shape_.heads + head] = max_[i] + std::log(sum_[i]);
    }
  }

 private:
  // K (D, P) and V (P, D) in the type in which they are read.
  template <typename B, typename Positions>
  void attend_block(const B* k_t, const B* v, int64_t start, int64_t written, const PairRange& pairs,
                    const Positions& position_of) {
    const int64_t D = shape_.head_dim, P = shape_.block_size, first = pairs.first, m = pairs.end - first;
    const uint64_t half = shape_.kv_head_bytes() / 2;
    float* scores = scores_ + first * P;
    std::fill_n(scores, m * P, 0.0f);
    multiply_accumulate<B>({q_ + first * D, D, 1, k_t, P, scores, P, m, D, P, {next_, half / Ahead::kLine}});
    for (int64_t i = first; i < pairs.end; ++i) {
      const KeyRange keys = keys_of_row(args_.rule, position_of(i / shape_.group()), start, P);
      softmax_block(scores_ + i * P, keys, P, max_[i], sum_[i], out_ + i * D, D);
    }
    const std::byte* next_values = next_ ? next_ + half : nullptr;
    multiply_accumulate<B>(
        {scores, P, 1, v, D, out_ + first * D, D, m, written, D, {next_values, half / Ahead::kLine}});
  }

  const AttentionArgs& args_;
  const AttentionShape& shape_;
  int64_t first_row_, kv_head_, pairs_;
  const std::byte* next_ = nullptr;
  float *q_, *out_, *scores_, *k_t_, *v_, *max_, *sum_;
};

template <typename T>
void attend(const AttentionArgs& a, const AttentionRows& rows, int64_t kv_head, float* scratch) {
  const int64_t P = a.shape.block_size, last = rows.first_position + rows.rows - 1;
  Attending<T> pass(a, rows.first_row, rows.rows, kv_head, scratch);
  const auto position_of = [&](int64_t row) { return rows.first_position + row; };
  for (int64_t start = a.rule.first_key(rows.first_position) / P * P; start <= last; start += P) {
    pass.ask_for(start + P <= last ? pass.block(rows.blocks[start / P + 1]) : a.next);
    pass.visit(rows.blocks[start / P], start, std::min(P, last + 1 - start),
               pairs_of_block(a.rule, a.shape, rows, start), position_of);
  }
  pass.finish();
}

// First the shared blocks with all rows, then each row's own.
template <typename T>
void attend_shared(const AttentionArgs& a, const SharedAttentionRows& rows, int64_t kv_head, float* scratch) {
  const int64_t P = a.shape.block_size, group = a.shape.group(), count = static_cast<int64_t>(rows.rows.size());
  Attending<T> pass(a, rows.first_row, count, kv_head, scratch);
  const auto position_of = [&](int64_t row) { return rows.rows[row].position; };
  const int32_t* shared = rows.rows.front().blocks;
  for (int64_t b = 0; b < rows.shared_blocks; ++b) {
    pass.ask_for(pass.block(shared[b + 1]));  // the first row's own block after the last shared one
    pass.visit(shared[b], b * P, P, {0, count * group}, position_of);
  }
  for (int64_t r = 0; r < count; ++r) {
    const SharedRow& row = rows.rows[r];
    for (int64_t start = rows.shared_blocks * P; start <= row.position; start += P) {
      const bool more = start + P <= row.position;
      pass.ask_for(more            ? pass.block(row.blocks[start / P + 1])
                   : r + 1 < count ? pass.block(rows.rows[r + 1].blocks[rows.shared_blocks])
                                   : a.next);
      pass.visit(row.blocks[start / P], start, std::min(P, row.position + 1 - start),
                 {r * group, (r + 1) * group}, position_of);
    }
  }
  pass.finish();
}

void attention_shared_target(const AttentionArgs& a, const SharedAttentionRows& rows, int64_t kv_head,
                             float* scratch) {
  if (a.shape.dtype == Dtype::kF32) attend_shared<float>(a, rows, kv_head, scratch);
  else attend_shared<bf16>(a, rows, kv_head, scratch);
}

void attention_target(const AttentionArgs& a, const AttentionRows& rows, int64_t kv_head, float* scratch) {
  if (a.shape.dtype == Dtype::kF32) attend<float>(a, rows, kv_head, scratch);
  else attend<bf16>(a, rows, kv_head, scratch);
}

void transpose(const float* from, int64_t rows, int64_t cols, float* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
}

// Everything the backward of one (sequence, kv head) works on.
struct BackwardScratch {
  float *q, *d_out, *dq;               // (pairs, D)
  float *lse, *delta;                  // (pairs)
  float *p, *dp;                       // (kTile, P)
  float *k_t, *k, *v_t, *dk, *dv;      // one block
};
constexpr int64_t kTile = 48;  // pairs per inner step: scores of a tile stay in the first-level cache

BackwardScratch carve(const AttentionShape& s, int64_t pairs, float* next) {
  const int64_t D = s.head_dim, P = s.block_size;
  BackwardScratch b;
  const auto take = [&](int64_t n) { return std::exchange(next, next + n); };
  b.q = take(pairs * D);
  b.d_out = take(pairs * D);
  b.dq = take(pairs * D);
  b.lse = take(pairs);
  b.delta = take(pairs);
  b.p = take(kTile * P);
  b.dp = take(kTile * P);
  b.k_t = take(D * P);
  b.k = take(D * P);
  b.v_t = take(D * P);
  b.dk = take(D * P);
  b.dv = take(D * P);
  return b;
}

template <typename T>
void gather_backward(const AttentionBackwardArgs& a, const AttentionRows& rows, int64_t kv_head,
                     BackwardScratch& b) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, group = s.group(), pairs = rows.rows * group;
  gather_pairs(s, static_cast<const T*>(a.q), rows.first_row, rows.rows, kv_head, a.rule.scale, b.q);
  gather_pairs(s, a.d_out, rows.first_row, rows.rows, kv_head, 1.0f, b.d_out);
  std::fill_n(b.dq, pairs * D, 0.0f);
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t index = (rows.first_row + i / group) * s.heads + kv_head * group + i % group;
    const T* out = static_cast<const T*>(a.out) + index * D;
    const float* d_out = b.d_out + i * D;
    b.lse[i] = a.lse[index];
    b.delta[i] = sum_lanes(D, [&](auto d, int64_t c) { return hn::Mul(load(d, d_out + c), load(d, out + c)); });
  }
}

// Probabilities and score gradients of pairs [i0, i0 + m) against the block starting at `start`.
void backward_tile(const AttentionBackwardArgs& a, int64_t start, int64_t i0, int64_t m, BackwardScratch& b) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t D = a.shape.head_dim, P = a.shape.block_size, group = a.shape.group();
  std::fill_n(b.p, m * P, 0.0f);
  std::fill_n(b.dp, m * P, 0.0f);
  multiply_accumulate<float>({b.q + i0 * D, D, 1, b.k_t, P, b.p, P, m, D, P});
  multiply_accumulate<float>({b.d_out + i0 * D, D, 1, b.v_t, P, b.dp, P, m, D, P});
  for (int64_t i = 0; i < m; ++i) {
    const KeyRange keys = keys_of_row(a.rule, (i0 + i) / group, start, P);  // rows start at position 0
    for (int64_t j = 0; j < P; j += lanes) {
      const auto keep = in_range(d, keys, j);
      const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, b.p + i * P + j), hn::Set(d, b.lse[i0 + i])));
      const auto p = hn::IfThenElseZero(keep, e);
      const auto slope = hn::Sub(hn::LoadU(d, b.dp + i * P + j), hn::Set(d, b.delta[i0 + i]));
      hn::StoreU(p, d, b.p + i * P + j);
      hn::StoreU(hn::IfThenElseZero(keep, hn::Mul(p, slope)), d, b.dp + i * P + j);
    }
  }
}

void scatter_rows(const float* from, int64_t rows, int64_t dim, float scale, float* to, int64_t stride) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < dim; c += static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreU(hn::Mul(hn::LoadU(d, from + r * dim + c), hn::Set(d, scale)), d, to + r * stride + c);
}

template <typename T>
void attend_backward(const AttentionBackwardArgs& a, const AttentionRows& rows, int64_t kv_head,
                     float* scratch) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, P = s.block_size, group = s.group(), pairs = rows.rows * group;
  const int64_t stride = (s.heads + 2 * s.kv_heads) * D;
  BackwardScratch b = carve(s, pairs, scratch);
  gather_backward<T>(a, rows, kv_head, b);
  float* base = a.dqkv + rows.first_row * stride;
  for (int64_t start = 0; start < rows.rows; start += P) {
    const std::byte* block = a.pool + (rows.blocks[start / P] * s.kv_heads + kv_head) * s.kv_head_bytes();
    const int64_t written = std::min(P, rows.rows - start);
    widen(reinterpret_cast<const T*>(block), b.k_t, D * P);
    transpose(b.k_t, D, P, b.k);
    std::fill_n(b.dv, P * D, 0.0f);  // dv holds v for the transpose, then its gradient
    widen(reinterpret_cast<const T*>(block) + D * P, b.dv, written * D);
    transpose(b.dv, P, D, b.v_t);
    std::fill_n(b.dv, P * D, 0.0f);
    std::fill_n(b.dk, P * D, 0.0f);
    const PairRange seen = pairs_of_block(a.rule, s, rows, start);
    for (int64_t i = seen.first; i < seen.end; i += kTile) {
      const int64_t m = std::min(kTile, seen.end - i);
      backward_tile(a, start, i, m, b);
      multiply_accumulate<float>({b.p, 1, P, b.d_out + i * D, D, b.dv, D, written, m, D});
      multiply_accumulate<float>({b.dp, 1, P, b.q + i * D, D, b.dk, D, written, m, D});
      multiply_accumulate<float>({b.dp, P, 1, b.k, D, b.dq + i * D, D, m, written, D});
    }
    float* dk = base + start * stride + (s.heads + kv_head) * D;
    scatter_rows(b.dk, written, D, 1.0f, dk, stride);  // q was scaled already
    scatter_rows(b.dv, written, D, 1.0f, dk + s.kv_heads * D, stride);
  }
  for (int64_t r = 0; r < rows.rows; ++r)
    scatter_rows(b.dq + r * group * D, group, D, a.rule.scale, base + r * stride + kv_head * group * D, D);
}

void attention_backward_target(const AttentionBackwardArgs& a, const AttentionRows& rows, int64_t kv_head,
                               float* scratch) {
  if (a.shape.dtype == Dtype::kF32) attend_backward<float>(a, rows, kv_head, scratch);
  else attend_backward<bf16>(a, rows, kv_head, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(attention_target);
HWY_EXPORT(attention_shared_target);
HWY_EXPORT(attention_backward_target);

int64_t attention_scratch_floats(const AttentionShape& s) {
  const int64_t pairs = kAttentionMaxRows * s.group();
  return pairs * (2 * s.head_dim + s.block_size + 2) + 2 * s.head_dim * s.block_size;
}
int64_t attention_backward_scratch_floats(const AttentionShape& s, int64_t max_rows) {
  return max_rows * s.group() * (3 * s.head_dim + 2) + 2 * 48 * s.block_size +
         5 * s.head_dim * s.block_size;
}
void attention(const AttentionArgs& args, const AttentionRows& rows, int64_t kv_head, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_target)(args, rows, kv_head, scratch);
}
void attention_shared(const AttentionArgs& args, const SharedAttentionRows& rows, int64_t kv_head, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_shared_target)(args, rows, kv_head, scratch);
}
void attention_backward(const AttentionBackwardArgs& args, const AttentionRows& rows, int64_t kv_head,
                        float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_backward_target)(args, rows, kv_head, scratch);
}
}  // namespace rl
#endif

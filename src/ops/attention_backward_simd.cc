// Backward of attention on the CPU: probabilities again from q, k and lse, then five small products a tile of pairs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention_backward_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <utility>

#include "ops/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

void transpose(const float* from, int64_t rows, int64_t cols, float* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
}

// Everything the backward of the rows of one call works on.
struct BackwardScratch {
  float *q, *d_out, *dq;               // (pairs, W)
  float *lse, *delta;                  // (pairs)
  float *p, *dp;                       // (kTile, P)
  float *k_t, *k, *v_t, *dk, *dv;      // one block
};
constexpr int64_t kTile = 48;  // pairs per inner step: scores of a tile stay in the first-level cache

BackwardScratch carve(const AttentionShape& s, int64_t pairs, float* next) {
  const int64_t W = s.padded_dim(), P = s.block_size;
  BackwardScratch b;
  const auto take = [&](int64_t n) { return std::exchange(next, next + n); };
  b.q = take(pairs * W);
  b.d_out = take(pairs * W);
  b.dq = take(pairs * W);
  b.lse = take(pairs);
  b.delta = take(pairs);
  b.p = take(kTile * P);
  b.dp = take(kTile * P);
  b.k_t = take(W * P);
  b.k = take(W * P);
  b.v_t = take(W * P);
  b.dk = take(W * P);
  b.dv = take(W * P);
  return b;
}

// Gradients of the output as pairs, as gather_pairs() has queries.
void gather_gradients(const AttentionShape& s, const float* d_out, int64_t first_row, int64_t count, int64_t kv_head,
                      float* pairs) {
  const int64_t D = s.head_dim, W = s.padded_dim(), group = s.group();
  for (int64_t i = 0; i < count * group; ++i) {
    const float* from = d_out + ((first_row + i / group) * s.heads + kv_head * group + i % group) * D;
    std::fill_n(std::copy_n(from, D, pairs + i * W), W - D, 0.0f);
  }
}

template <typename T>
void gather_backward(const AttentionBackwardArgs& a, int64_t first_row, int64_t rows, int64_t kv_head,
                     BackwardScratch& b) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, W = s.padded_dim(), group = s.group(), pairs = rows * group;
  gather_pairs(s, static_cast<const T*>(a.q), first_row, rows, kv_head, a.rule.scale, b.q);
  gather_gradients(s, a.d_out, first_row, rows, kv_head, b.d_out);
  std::fill_n(b.dq, pairs * W, 0.0f);
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t index = (first_row + i / group) * s.heads + kv_head * group + i % group;
    const T* out = static_cast<const T*>(a.out) + index * D;
    const float* d_out = b.d_out + i * W;
    b.lse[i] = a.lse[index];
    b.delta[i] = sum_lanes(D, [&](auto d, int64_t c) { return hn::Mul(load(d, d_out + c), load(d, out + c)); });
  }
}

// A block of keys and values as the products want it, its gradients zero. `written` of its keys are there.
template <typename K>
void load_block(const AttentionShape& s, const K* block, int64_t written, BackwardScratch& b) {
  const int64_t W = s.padded_dim(), P = s.block_size;
  widen(block, b.k_t, W * P);
  transpose(b.k_t, W, P, b.k);
  std::fill_n(b.dv, P * W, 0.0f);  // dv holds v for the transpose, then its gradient
  widen(block + W * P, b.dv, written * W);
  transpose(b.dv, P, W, b.v_t);
  std::fill_n(b.dv, P * W, 0.0f);
  std::fill_n(b.dk, P * W, 0.0f);
}
void load_backward(const AttentionShape& s, const std::byte* block, int64_t written, BackwardScratch& b) {
  if (s.kv_dtype == Dtype::kF32) load_block(s, reinterpret_cast<const float*>(block), written, b);
  else load_block(s, reinterpret_cast<const bf16*>(block), written, b);
}

// Rows of one sequence among those of the call.
struct BackwardSequence {
  const AttentionRows& rows;
  int64_t first_pair;
};

// Probabilities and score gradients of pairs [i0, i0 + m) of a sequence against the block starting at `start`.
void backward_tile(const AttentionBackwardArgs& a, const BackwardSequence& seq, int64_t start, int64_t i0, int64_t m,
                   BackwardScratch& b) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t W = a.shape.padded_dim(), P = a.shape.block_size, group = a.shape.group();
  std::fill_n(b.p, m * P, 0.0f);
  std::fill_n(b.dp, m * P, 0.0f);
  multiply_accumulate<float>({b.q + i0 * W, W, 1, b.k_t, P, b.p, P, m, W, P});
  multiply_accumulate<float>({b.d_out + i0 * W, W, 1, b.v_t, P, b.dp, P, m, W, P});
  for (int64_t i = 0; i < m; ++i) {
    const int64_t position = seq.rows.first_position + (i0 + i - seq.first_pair) / group;
    const KeyRange keys = keys_of_row(a.rule, position, start, P);
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

// Adds what the rows of a sequence give to the loaded block, which starts at `start`, and takes their dq from it.
void backward_block(const AttentionBackwardArgs& a, const BackwardSequence& seq, int64_t start, int64_t written,
                    BackwardScratch& b) {
  const int64_t W = a.shape.padded_dim(), P = a.shape.block_size;
  const PairRange seen = pairs_of_block(a.rule, a.shape, seq.rows, start);
  const int64_t end = seq.first_pair + seen.end;
  for (int64_t i = seq.first_pair + seen.first; i < end; i += kTile) {
    const int64_t m = std::min(kTile, end - i);
    backward_tile(a, seq, start, i, m, b);
    multiply_accumulate<float>({b.p, 1, P, b.d_out + i * W, W, b.dv, W, written, m, W});
    multiply_accumulate<float>({b.dp, 1, P, b.q + i * W, W, b.dk, W, written, m, W});
    multiply_accumulate<float>({b.dp, P, 1, b.k, W, b.dq + i * W, W, m, written, W});
  }
}

// Padded rows to the D columns of rows that stand `stride` floats apart.
void scatter_rows(const AttentionShape& s, const float* from, int64_t rows, float scale, float* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, from += s.padded_dim(), to += stride) {
    for_each_lane(s.head_dim,
                  [&](auto d, int64_t c) { store(hn::Mul(load(d, from + c), hn::Set(d, scale)), d, to + c); });
  }
}

void add_rows(const AttentionShape& s, const float* from, int64_t rows, float* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, from += s.padded_dim(), to += stride) {
    for_each_lane(s.head_dim,
                  [&](auto d, int64_t c) { store(hn::Add(load(d, to + c), load(d, from + c)), d, to + c); });
  }
}

// The backward of one kv head. Whole blocks of the prefix are loaded once for all sequences; then each sequence goes
// over its own blocks, the first of which may begin with the prefix's last keys.
template <typename T>
class AttendingBackward {
 public:
  AttendingBackward(const AttentionBackwardArgs& args, const AttentionBackwardRows& rows, int64_t kv_head,
                    float* scratch)
      : args_(args), shape_(args.shape), rows_(rows), kv_head_(kv_head), prefix_(rows.sequences.front().first_position),
        first_row_(rows.sequences.front().first_row) {
    for (const AttentionRows& s : rows.sequences) num_rows_ += s.rows;
    b_ = carve(shape_, num_rows_ * shape_.group(), scratch);
    gather_backward<T>(args, first_row_, num_rows_, kv_head, b_);
  }

  void run() {
    const int64_t P = shape_.block_size, whole = prefix_ / P * P;
    for (int64_t start = 0; start < whole; start += P) prefix_block(start);
    for (int64_t p = whole; p < prefix_; ++p) {
      std::fill_n(prefix_keys(p), shape_.head_dim, 0.0f);
      std::fill_n(prefix_keys(p) + values_after_keys(), shape_.head_dim, 0.0f);
    }
    for (const AttentionRows& s : rows_.sequences) {
      for (int64_t start = whole; start < prefix_ + s.rows; start += P) own_block(s, start);
    }
    const int64_t D = shape_.head_dim, group = shape_.group();
    for (int64_t r = 0; r < num_rows_; ++r) {
      float* to = args_.dqkv + (first_row_ + r) * row_width() + kv_head_ * group * D;
      scatter_rows(shape_, b_.dq + r * group * shape_.padded_dim(), group, args_.rule.scale, to, D);
    }
  }

 private:
  int64_t row_width() const { return (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim; }
  int64_t prefix_width() const { return 2 * shape_.kv_heads * shape_.head_dim; }
  int64_t values_after_keys() const { return shape_.kv_heads * shape_.head_dim; }
  float* prefix_keys(int64_t position) const {
    return rows_.d_prefix + position * prefix_width() + kv_head_ * shape_.head_dim;
  }
  BackwardSequence sequence(const AttentionRows& s) const {
    return {s, (s.first_row - first_row_) * shape_.group()};
  }
  const std::byte* block(const AttentionRows& s, int64_t start) const {
    return args_.pool + (s.blocks[start / shape_.block_size] * shape_.kv_heads + kv_head_) * shape_.kv_head_bytes();
  }

  void prefix_block(int64_t start) {
    const int64_t P = shape_.block_size;
    load_backward(shape_, block(rows_.sequences.front(), start), P, b_);
    for (const AttentionRows& s : rows_.sequences) backward_block(args_, sequence(s), start, P, b_);
    scatter_rows(shape_, b_.dk, P, 1.0f, prefix_keys(start), prefix_width());  // q was scaled already
    scatter_rows(shape_, b_.dv, P, 1.0f, prefix_keys(start) + values_after_keys(), prefix_width());
  }

  void own_block(const AttentionRows& s, int64_t start) {
    const int64_t D = shape_.head_dim, W = shape_.padded_dim(), P = shape_.block_size;
    const int64_t written = std::min(P, prefix_ + s.rows - start), before = std::max<int64_t>(0, prefix_ - start);
    load_backward(shape_, block(s, start), written, b_);
    backward_block(args_, sequence(s), start, written, b_);
    if (before > 0) {
      add_rows(shape_, b_.dk, before, prefix_keys(start), prefix_width());
      add_rows(shape_, b_.dv, before, prefix_keys(start) + values_after_keys(), prefix_width());
    }
    const int64_t row = s.first_row + start + before - prefix_;
    float* dk = args_.dqkv + row * row_width() + (shape_.heads + kv_head_) * D;
    scatter_rows(shape_, b_.dk + before * W, written - before, 1.0f, dk, row_width());
    scatter_rows(shape_, b_.dv + before * W, written - before, 1.0f, dk + values_after_keys(), row_width());
  }

  const AttentionBackwardArgs& args_;
  const AttentionShape& shape_;
  const AttentionBackwardRows& rows_;
  const int64_t kv_head_, prefix_, first_row_;
  int64_t num_rows_ = 0;
  BackwardScratch b_;
};

void attention_backward_target(const AttentionBackwardArgs& a, const AttentionBackwardRows& rows, int64_t kv_head,
                               float* scratch) {
  if (a.shape.dtype == Dtype::kF32) AttendingBackward<float>(a, rows, kv_head, scratch).run();
  else AttendingBackward<bf16>(a, rows, kv_head, scratch).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(attention_backward_target);

int64_t attention_backward_scratch_floats(const AttentionShape& s, int64_t max_rows) {
  return max_rows * s.group() * (3 * s.padded_dim() + 2) + 2 * 48 * s.block_size +
         5 * s.padded_dim() * s.block_size;
}
void attention_backward(const AttentionBackwardArgs& args, const AttentionBackwardRows& rows, int64_t kv_head,
                        float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_backward_target)(args, rows, kv_head, scratch);
}
}  // namespace rl
#endif

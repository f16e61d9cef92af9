// Attention backward on the CPU: recomputes probabilities from q, k and lse, then runs the GEMMs of
// each tile of pairs (attention_backward_products-inl.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_backward_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>

#include "core/error.h"
#include "ops/cpu/attention_backward_products-inl.h"
#include "ops/cpu/attention_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// to = scale * from, or to += scale * from: D columns of padded rows, to rows `stride` floats
// apart.
struct PutRows {
  float scale;
  bool overwrite;
  float* to;
  int64_t stride;
};
void put_rows(const AttentionShape& s, const float* from, int64_t rows, PutRows put) {
  for (int64_t r = 0; r < rows; ++r, from += s.padded_dim(), put.to += put.stride) {
    for_each_lane(s.head_dim, [&](auto d, int64_t c) {
      const auto v = hn::Mul(load(d, from + c), hn::Set(d, put.scale));
      store(put.overwrite ? v : hn::Add(load(d, put.to + c), v), d, put.to + c);
    });
  }
}

// The backward of one piece and kv head. T is the type of q and out.
template <typename T, typename Products>
class AttentionBackwardPass {
 public:
  AttentionBackwardPass(const AttentionBackwardArgs& args, const AttentionBackwardPiece& piece,
                        int64_t kv_head, FloatScratch scratch)
      : args_(args),
        shape_(args.shape),
        piece_(piece),
        rows_(piece.rows),
        kv_head_(kv_head),
        lse_(scratch.take<float>(rows_.rows * shape_.group())),
        delta_(scratch.take<float>(rows_.rows * shape_.group())),
        p_(scratch.take<float>(kTilePairs * shape_.block_size)),
        dp_(scratch.take<float>(kTilePairs * shape_.block_size)),
        products_(args, rows_, kv_head, scratch) {
    const int64_t D = shape_.head_dim;
    for (int64_t i = 0; i < rows_.rows * shape_.group(); ++i) {
      const int64_t place = shape_.place_of_pair(rows_.first_row, kv_head, i);
      const T* out = static_cast<const T*>(args.out) + place * D;
      const float* d_out = args.d_out + place * D;
      lse_[i] = args.lse[place];
      delta_[i] = sum_lanes(
          D, [&](auto d, int64_t c) { return hn::Mul(load(d, d_out + c), load(d, out + c)); });
    }
  }

  void run() {
    const int64_t D = shape_.head_dim, P = shape_.block_size, group = shape_.group();
    for (int64_t start = piece_.first_key / P * P; start < piece_.end_key; start += P)
      run_block(start);
    for (int64_t r = 0; r < rows_.rows; ++r) {
      float* to = args_.dqkv + (rows_.first_row + r) * row_width() + kv_head_ * group * D;
      put_rows(shape_, products_.dq + r * group * shape_.padded_dim(), group,
               {args_.rule.scale, piece_.overwrite, to, D});
    }
  }

 private:
  int64_t row_width() const { return (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim; }

  void run_block(int64_t start) {
    const int64_t P = shape_.block_size;
    const PairRange seen = pairs_of_block(args_.rule, shape_, rows_, start);
    if (seen.first >= seen.end && !piece_.overwrite) return;
    const int64_t id = rows_.blocks[start / P];
    products_.load(args_.pool + (id * shape_.kv_heads + kv_head_) * shape_.kv_head_bytes());
    const KeyRange keys{std::max<int64_t>(0, piece_.first_key - start),
                        std::min(P, piece_.end_key - start)};
    for (int64_t i = seen.first; i < seen.end; i += kTilePairs) {
      const int64_t count = std::min(kTilePairs, seen.end - i);
      const BackwardTile tile{i, count, std::min(keys.end, position(i + count - 1) + 1 - start)};
      products_.scores(tile, p_, dp_);
      weigh(tile, start, keys);
      products_.add(tile, p_, dp_);
    }
    put_keys(start, keys);
  }

  int64_t position(int64_t pair) const { return rows_.first_position + pair / shape_.group(); }

  // Replaces scores by probabilities and d_out v^T by score gradients, in place.
  void weigh(const BackwardTile& t, int64_t start, const KeyRange& keys) {
    const hn::ScalableTag<float> d;
    const int64_t P = shape_.block_size, columns = t.columns();
    for (int64_t i = 0; i < t.count; ++i) {
      KeyRange own = keys_of_row(args_.rule, position(t.first + i), start, P);
      own = {std::max(own.first, keys.first), std::min(own.end, keys.end)};
      const bool whole = own.first == 0 && own.end >= columns;
      const auto lse = hn::Set(d, lse_[t.first + i]), delta = hn::Set(d, delta_[t.first + i]);
      float *s = p_ + i * P, *slope = dp_ + i * P;
      for (int64_t j = 0; j < columns; j += static_cast<int64_t>(hn::Lanes(d))) {
        auto p = hn::Exp(d, hn::Sub(hn::LoadU(d, s + j), lse));
        auto ds = hn::Mul(p, hn::Sub(hn::LoadU(d, slope + j), delta));
        if (!whole) {
          const auto keep = in_range(d, own, j);
          p = hn::IfThenElseZero(keep, p);
          ds = hn::IfThenElseZero(keep, ds);
        }
        hn::StoreU(p, d, s + j);
        hn::StoreU(ds, d, slope + j);
      }
    }
  }

  // Stores the gradients of the block's keys and values, in their rows or in d_prefix.
  void put_keys(int64_t start, const KeyRange& keys) {
    const int64_t D = shape_.head_dim, key = start + keys.first, count = keys.end - keys.first;
    const bool own = key >= piece_.prefix;
    const int64_t of_prefix =
        piece_.prefix_stride != 0 ? piece_.prefix_stride : 2 * shape_.kv_heads * D;
    const int64_t stride = own ? row_width() : of_prefix;
    const int64_t first_own_row = rows_.first_row - (rows_.first_position - piece_.prefix);
    float* to = own ? args_.dqkv + (first_own_row + key - piece_.prefix) * stride + shape_.heads * D
                    : piece_.d_prefix + (key - piece_.first_sum) * stride;
    to += kv_head_ * D;
    const float scale = Products::kScaledQueries ? 1.0f : args_.rule.scale;
    const int64_t skipped = keys.first * shape_.padded_dim();
    put_rows(shape_, products_.dk + skipped, count, {scale, piece_.overwrite, to, stride});
    put_rows(shape_, products_.dv + skipped, count,
             {1.0f, piece_.overwrite, to + shape_.kv_heads * D, stride});
  }

  const AttentionBackwardArgs& args_;
  const AttentionShape& shape_;
  const AttentionBackwardPiece& piece_;
  const AttentionRows& rows_;
  const int64_t kv_head_;
  float *lse_, *delta_, *p_, *dp_;
  Products products_;
};

void attention_backward_target(const AttentionBackwardArgs& a, const AttentionBackwardPiece& piece,
                               int64_t kv_head, float* scratch) {
  with_products<Fp32Backward, Bf16DotBackward>(a.shape, a.products, [&]<typename T, typename P>() {
    AttentionBackwardPass<T, P>(a, piece, kv_head, FloatScratch(scratch)).run();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(attention_backward_target);

int64_t attention_backward_scratch_floats(const AttentionShape& s) {
  return backward_scratch_floats(s);
}
void attention_backward(const AttentionBackwardArgs& args, const AttentionBackwardPiece& piece,
                        int64_t kv_head, float* scratch) {
  const AttentionRows& rows = piece.rows;
  const int64_t last = rows.first_position + rows.rows - 1;
  RL_CHECK(rows.rows >= 1 && rows.rows <= kAttentionBackwardChunk &&
           rows.first_position >= piece.prefix);
  RL_CHECK(piece.first_key >= 0 && piece.first_key < piece.end_key && piece.end_key <= last + 1);
  RL_CHECK(piece.first_key >= piece.prefix ||
           (piece.end_key <= piece.prefix && piece.d_prefix != nullptr));
  HWY_DYNAMIC_DISPATCH(attention_backward_target)(args, piece, kv_head, scratch);
}
}  // namespace rl
#endif

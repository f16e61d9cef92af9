// Attention on the CPU: the running softmax over KV blocks. Its products are in
// attention_products-inl.h, the backward is attention_backward_simd.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "ops/cpu/attention_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

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

// One online-softmax update of a pair whose maximum, this block's masked scores included, is
// new_max. Turns scores into weights, zero where masked. Returns the factor for what was summed
// before.
HWY_INLINE float softmax_block(float* s, int64_t block, float new_max, float& max, float& sum) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto total = hn::Zero(d);
  for (int64_t j = 0; j < block; j += lanes) {
    const auto shifted = hn::Sub(hn::LoadU(d, s + j), hn::Set(d, new_max));
    const auto masked = hn::Eq(shifted, hn::Set(d, -std::numeric_limits<float>::infinity()));
    const auto e = hn::IfThenZeroElse(masked, hn::Exp(d, shifted));
    hn::StoreU(e, d, s + j);
    total = hn::Add(total, e);
  }
  const float block_sum = hn::GetLane(hn::SumOfLanes(d, total));
  if (new_max == max) {  // the maximum is unchanged: exp(0) = 1
    sum += block_sum;
    return 1.0f;
  }
  const hn::CappedTag<float, 1> one;
  const float keep_old = hn::GetLane(hn::Exp(one, hn::Set(one, max - new_max)));
  sum = sum * keep_old + block_sum;
  max = new_max;
  return keep_old;
}

// The online softmax of the pairs of one call, block by block. T is the output type.
template <typename T, typename Products>
class AttentionPass {
 public:
  AttentionPass(const AttentionArgs& args, int64_t first_row, int64_t rows, int64_t kv_head,
                float* scratch)
      : args_(args),
        shape_(args.shape),
        first_row_(first_row),
        kv_head_(kv_head),
        pairs_(rows * args.shape.group()),
        out_(scratch),
        scores_(out_ + pairs_ * shape_.padded_dim()),
        max_(scores_ + pairs_ * shape_.block_size),
        new_max_(max_ + pairs_),
        sum_(new_max_ + pairs_),
        keep_(sum_ + pairs_),
        products_(args, first_row, rows, kv_head, keep_ + pairs_) {
    std::fill_n(out_, pairs_ * shape_.padded_dim(), 0.0f);
    std::fill_n(max_, pairs_, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, pairs_, 0.0f);
  }

  const std::byte* block(int32_t id) const {
    return args_.pool + (id * shape_.kv_heads + kv_head_) * shape_.kv_head_bytes();
  }
  // Sets the block that the next visit() prefetches, or null.
  void set_prefetch(const std::byte* next) { next_ = next; }

  // Processes block `id`, whose first `written` keys are valid, against some pairs. keys_of(row)
  // are the keys of the block that a row of the call attends, at least one.
  template <typename KeysOf>
  void visit(int32_t id, int64_t written, const PairRange& pairs, const KeysOf& keys_of) {
    const int64_t P = shape_.block_size, first = pairs.first;
    const uint64_t half = shape_.kv_head_bytes() / 2;
    const BlockProduct product{block(id),
                               written,
                               pairs,
                               {next_, half / PrefetchRange::kLine},
                               {next_ ? next_ + half : nullptr, half / PrefetchRange::kLine}};
    products_.scores(product, scores_ + first * P);
    // Two passes, so that the reductions of one pair overlap with those of the next.
    for (int64_t i = first; i < pairs.end; ++i) {
      const KeyRange keys = keys_of(i / shape_.group());
      new_max_[i] = std::max(max_[i], mask_and_max(scores_ + i * P, keys, P));
    }
    for (int64_t i = first; i < pairs.end; ++i)
      keep_[i] = softmax_block(scores_ + i * P, P, new_max_[i], max_[i], sum_[i]);
    products_.values(product, scores_ + first * P, keep_ + first,
                     out_ + first * shape_.padded_dim());
  }

  void finish() const {
    if (args_.partial != nullptr) return finish_partial();
    const int64_t D = shape_.head_dim, W = shape_.padded_dim();
    for (int64_t i = 0; i < pairs_; ++i) {
      const int64_t place = shape_.place_of_pair(first_row_, kv_head_, i);
      T* to = static_cast<T*>(args_.out) + place * D;
      for_each_lane(D, [&](auto d, int64_t c) {
        store(hn::Div(hn::LoadU(d, out_ + i * W + c), hn::Set(d, sum_[i])), d, to + c);
      });
      if (args_.lse) args_.lse[place] = max_[i] + std::log(sum_[i]);
    }
  }

 private:
  // Of a call with some of the keys. A pair that attends none of them has a sum of 0.
  void finish_partial() const {
    for (int64_t i = 0; i < pairs_; ++i) {
      const int64_t place = shape_.place_of_pair(first_row_, kv_head_, i);
      float* const to = args_.partial + place * shape_.head_dim;
      float& lse = args_.lse[place];
      const float own = max_[i] + std::log(sum_[i]);
      if (!args_.merges) {
        put_partial(i, to, sum_[i] == 0 ? 0.0f : 1.0f / sum_[i]);
        lse = own;
      } else if (sum_[i] != 0) {
        const float most = std::max(lse, own), before = std::exp(lse - most),
                    added = std::exp(own - most), all = before + added;
        merge_partial(i, to, {before / all, added / all / sum_[i]});
        lse = most + std::log(all);
      }
    }
  }
  void put_partial(int64_t pair, float* to, float factor) const {
    const float* const from = out_ + pair * shape_.padded_dim();
    for_each_lane(shape_.head_dim, [&](auto d, int64_t c) {
      store(hn::Mul(hn::LoadU(d, from + c), hn::Set(d, factor)), d, to + c);
    });
  }
  struct MergeFactors {
    float before, added;
  };
  void merge_partial(int64_t pair, float* to, const MergeFactors& factors) const {
    const float* const from = out_ + pair * shape_.padded_dim();
    for_each_lane(shape_.head_dim, [&](auto d, int64_t c) {
      const auto added = hn::Mul(hn::LoadU(d, from + c), hn::Set(d, factors.added));
      store(hn::MulAdd(hn::LoadU(d, to + c), hn::Set(d, factors.before), added), d, to + c);
    });
  }

  const AttentionArgs& args_;
  const AttentionShape& shape_;
  const int64_t first_row_, kv_head_, pairs_;
  const std::byte* next_ = nullptr;
  float *out_, *scores_, *max_, *new_max_, *sum_, *keep_;
  Products products_;
};

// The heads of a range alternate block by block: they are adjacent in a block, so memory is read in
// long runs.
template <typename T, typename Products>
void attend(const AttentionArgs& a, const AttentionRows& rows, const KvHeads& heads,
            float* scratch) {
  const int64_t P = a.shape.block_size, last = rows.first_position + rows.rows - 1,
                count = heads.end - heads.first;
  RL_CHECK(count >= 1 && count <= max_kv_heads_per_call(rows.rows));
  const int64_t stride = attention_scratch_floats(a.shape, rows.rows);
  std::optional<AttentionPass<T, Products>> passes[kAttentionMaxRows];
  for (int64_t i = 0; i < count; ++i)
    passes[i].emplace(a, rows.first_row, rows.rows, heads.first + i, scratch + i * stride);
  for (int64_t start = a.rule.first_key(rows.first_position) / P * P; start <= last; start += P) {
    const std::byte* next =
        start + P <= last ? passes[0]->block(rows.blocks[start / P + 1]) : a.next;
    const auto keys_of = [&](int64_t row) {
      return keys_of_row(a.rule, rows.first_position + row, start, P);
    };
    for (int64_t i = 0; i < count; ++i) {
      passes[i]->set_prefetch(i + 1 < count ? passes[i + 1]->block(rows.blocks[start / P]) : next);
      passes[i]->visit(rows.blocks[start / P], std::min(P, last + 1 - start),
                       pairs_of_block(a.rule, a.shape, rows, start), keys_of);
    }
  }
  for (int64_t i = 0; i < count; ++i) passes[i]->finish();
}

// Blocks that hold no key of any row are skipped.
template <typename Pass>
void visit_run(Pass& pass, const AttentionArgs& a, const AttentionRows& rows, const KeyRun& run) {
  const int64_t P = a.shape.block_size, end = std::min(run.end, rows.first_position + rows.rows);
  const int64_t first = std::max(run.first, a.rule.first_key(rows.first_position));
  for (int64_t start = first / P * P; start < end; start += P) {
    const PairRange pairs = pairs_of_run(a.rule, a.shape, rows, run, start);
    if (pairs.first >= pairs.end) continue;
    pass.set_prefetch(start + P < end ? pass.block(run.blocks[start / P + 1]) : nullptr);
    pass.visit(run.blocks[start / P], std::min(P, end - start), pairs, [&](int64_t row) {
      const KeyRange keys = keys_of_row(a.rule, rows.first_position + row, start, P);
      return KeyRange{std::max(keys.first, run.first - start), std::min(keys.end, run.end - start)};
    });
  }
}

// Some runs of keys alone.
template <typename T, typename Products>
void attend_runs(const AttentionArgs& a, const AttentionRows& rows, const KvHeads& heads,
                 float* scratch) {
  RL_CHECK(a.lse != nullptr && !rows.runs.empty());
  for (int64_t head = heads.first; head < heads.end; ++head) {
    AttentionPass<T, Products> pass(a, rows.first_row, rows.rows, head, scratch);
    for (const KeyRun& run : rows.runs) visit_run(pass, a, rows, run);
    pass.finish();
  }
}

// The shared blocks with all rows first, then each row's own blocks.
template <typename T, typename Products>
void attend_shared(const AttentionArgs& a, const SharedAttentionRows& rows, int64_t kv_head,
                   float* scratch) {
  const int64_t P = a.shape.block_size, group = a.shape.group(),
                count = static_cast<int64_t>(rows.rows.size());
  AttentionPass<T, Products> pass(a, rows.first_row, count, kv_head, scratch);
  const int32_t* shared = rows.rows.front().blocks;
  for (int64_t b = 0; b < rows.shared_blocks; ++b) {
    pass.set_prefetch(pass.block(shared[b + 1]));  // after the last: the first row's own block
    pass.visit(shared[b], P, {0, count * group},
               [&](int64_t row) { return keys_of_row(a.rule, rows.rows[row].position, b * P, P); });
  }
  for (int64_t r = 0; r < count; ++r) {
    const SharedRow& row = rows.rows[r];
    for (int64_t start = rows.shared_blocks * P; start <= row.position; start += P) {
      const bool more = start + P <= row.position;
      pass.set_prefetch(more            ? pass.block(row.blocks[start / P + 1])
                        : r + 1 < count ? pass.block(rows.rows[r + 1].blocks[rows.shared_blocks])
                                        : a.next);
      pass.visit(row.blocks[start / P], std::min(P, row.position + 1 - start),
                 {r * group, (r + 1) * group},
                 [&](int64_t) { return keys_of_row(a.rule, row.position, start, P); });
    }
  }
  pass.finish();
}

void attention_shared_target(const AttentionArgs& a, const SharedAttentionRows& rows,
                             int64_t kv_head, float* scratch) {
  with_products<Fp32Products, Bf16DotProducts>(a.shape, a.products, [&]<typename T, typename P>() {
    attend_shared<T, P>(a, rows, kv_head, scratch);
  });
}

void attention_target(const AttentionArgs& a, const AttentionRows& rows, const KvHeads& heads,
                      float* scratch) {
  with_products<Fp32Products, Bf16DotProducts>(a.shape, a.products, [&]<typename T, typename P>() {
    a.partial != nullptr ? attend_runs<T, P>(a, rows, heads, scratch)
                         : attend<T, P>(a, rows, heads, scratch);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(attention_target);
HWY_EXPORT(attention_shared_target);

int64_t attention_scratch_floats(const AttentionShape& s, int64_t rows) {
  const int64_t W = s.padded_dim(), pairs = rows * s.group();
  const int64_t wide = pairs * W + 2 * W * s.block_size;   // Fp32Products
  const int64_t rounded = pairs * (W + s.block_size) / 2;  // Bf16DotProducts
  return (pairs * (W + s.block_size + 4) + std::max(wide, rounded) + 15) / 16 * 16;
}
int64_t attention_scratch_floats(const AttentionShape& s) {
  int64_t most = 0;
  for (int64_t rows = 1; rows <= kAttentionMaxRows; ++rows)
    most = std::max(most, std::min(s.kv_heads, max_kv_heads_per_call(rows)) *
                              attention_scratch_floats(s, rows));
  return most;
}
void attention(const AttentionArgs& args, const AttentionRows& rows, const KvHeads& heads,
               float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_target)(args, rows, heads, scratch);
}
void attention_shared(const AttentionArgs& args, const SharedAttentionRows& rows, int64_t kv_head,
                      float* scratch) {
  HWY_DYNAMIC_DISPATCH(attention_shared_target)(args, rows, kv_head, scratch);
}
}  // namespace rl
#endif

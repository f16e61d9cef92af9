#include "model/ranks/context_ring.h"

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {

int rank_before(int rank, int size) { return (rank + size - 1) % size; }

// Calls visit(rank, its blocks) for the keys and values of each rank, this one's first.
template <typename Visit>
void for_each_rank(const RingLayer& layer, const AttentionShape& shape, const std::byte* own,
                   const Visit& visit) {
  const ContextRanks& ranks = layer.context.ranks;
  const auto bytes = [&](int rank) {
    return static_cast<size_t>(layer.context.blocks[rank].count() * shape.block_bytes());
  };
  const std::byte* at = own;
  int rank = ranks.rank();
  for (int s = 0; s < ranks.size(); ++s) {
    const int next = rank_before(rank, ranks.size());
    std::byte* const to = s + 1 < ranks.size() ? layer.room.kv[s % 2] : nullptr;
    StartedCall moves;
    if (to != nullptr) {
      moves = ranks.start_shift(std::span(at, bytes(rank)), std::span(to, bytes(next)));
    }
    visit(rank, at);
    moves.wait();
    at = to;
    rank = next;
  }
}

// The gradients of other ranks' keys and values on their way.
class GradientRing {
 public:
  GradientRing(const RingLayer& layer, const RingGradients& room, int64_t width)
      : layer_(layer), room_(room), width_(width) {}

  // Where this rank's part for the keys at hand goes, from zero.
  float* part() const { return room_.kv[turn_ % 3]; }
  // The part is complete, and goes on with what came for the same keys.
  void pass_on(int rank) {
    const std::span<float> out = sums(room_.kv[turn_ % 3], rank);
    if (turn_ > 1) add_received(out);
    const int next = rank_before(rank, layer_.context.ranks.size());
    const std::span<float> in = sums(room_.kv[(turn_ + 2) % 3], next);
    moves_ = layer_.context.ranks.start_shift(std::as_bytes(out), std::as_writable_bytes(in));
    ++turn_;
  }
  // What this rank's own keys have from the others.
  float* received() {
    moves_.wait();
    return room_.kv[(turn_ + 1) % 3];
  }

 private:
  std::span<float> sums(float* at, int rank) const {
    return {at, static_cast<size_t>(layer_.context.rows_of(rank).count() * width_)};
  }
  void add_received(std::span<float> to) {
    const float* const from = received();
    if (!to.empty())
      scale_add(layer_.compute, {{1.0f, to.data(), 1.0f, from}, static_cast<int64_t>(to.size())});
  }

  const RingLayer& layer_;
  const RingGradients& room_;
  const int64_t width_;
  int64_t turn_ = 1;
  StartedCall moves_;
};

}  // namespace

void attend_ring(const RingLayer& layer, AttentionArgs attention, AttentionWork& work) {
  const AttentionShape shape = attention.shape;
  attention.partial = layer.room.partial;
  if (attention.lse == nullptr) attention.lse = layer.room.lse;
  int64_t rows = 0;
  for (const SequenceRows& s : layer.sequences) rows += s.rows;
  for_each_rank(layer, shape, attention.pool, [&](int rank, const std::byte* kv) {
    const RankRows keys = layer.context.rows_of(rank);
    work.cut(layer.sequences, layer.context.rows, keys);
    attention.pool = kv;
    attention.merges = !keys.own;
    attend(layer.compute, {attention, work, nullptr, layer.workspace});
  });
  round_floats(layer.compute, {layer.room.partial, rows * shape.heads * shape.head_dim,
                               static_cast<std::byte*>(attention.out)});
}

void attend_ring_backward(const RingLayer& layer, const AttentionBackwardArgs& attention,
                          const RingGradients& gradients, BackwardWork& work) {
  const AttentionShape& shape = attention.shape;
  const int64_t q = shape.heads * shape.head_dim, kv = 2 * shape.kv_heads * shape.head_dim;
  const DividedRows& all = layer.context.rows;
  AttentionBackwardArgs args = attention;
  GradientRing ring(layer, gradients, kv);
  work.set_sum_width(kv);
  for_each_rank(layer, shape, attention.pool, [&](int rank, const std::byte* blocks) {
    const RankRows keys = layer.context.rows_of(rank);
    const BackwardWork::KeyGradients to =
        keys.own ? BackwardWork::KeyGradients{attention.dqkv + q, q + kv}
                 : BackwardWork::KeyGradients{ring.part(), kv};
    work.cut(layer.sequences, all, keys, to);
    args.pool = blocks;
    attend_backward(layer.compute, {args, work, layer.workspace});
    if (!keys.own) ring.pass_on(rank);
  });
  work.take_sums(all.own_rows, ring.received());
}

}  // namespace rl

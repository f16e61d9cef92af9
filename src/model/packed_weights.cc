// Packed forms of all matrices. How each is split follows from its shape and its epilogue
// (ops/matmul_slices.h).
#include "model/packed_weights.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {
constexpr SliceCut kWholeSlices{}, kAnyColumns{1}, kJoinedHalves{2};

PackedShapes plan_shapes(const ModelConfig& c, const ProductRules& r, Dtype t) {
  return {plan_packed(r.qkv, t), plan_packed(r.o, t), plan_packed(r.gate_up, t),
          plan_packed(r.down, t),
          c.scalar_head ? PackedShape{} : plan_packed(r.head, t)};  // a scalar head is not packed
}
}  // namespace

ProductRules forward_rules(const ModelConfig& c, int64_t slice_width) {
  const int64_t q = c.heads * c.head_dim, qkv = q + 2 * c.kv_heads * c.head_dim;
  const SliceCut whole_heads{1, c.head_dim};  // the epilogue applies RoPE to whole heads
  return {.qkv = {c.hidden, qkv, whole_heads, slice_width},
          .o = {q, c.hidden, kAnyColumns, slice_width},
          .gate_up = {c.hidden, 2 * c.ffn, kJoinedHalves, slice_width},
          .down = {c.ffn, c.hidden, kAnyColumns, slice_width},
          .head = {c.hidden, c.vocab, kWholeSlices, kVocabularyTile}};
}

ProductRules backward_rules(const ModelConfig& c, int64_t slice_width) {
  const int64_t q = c.heads * c.head_dim, qkv = q + 2 * c.kv_heads * c.head_dim;
  return {.qkv = {qkv, c.hidden, kWholeSlices, slice_width},
          .o = {c.hidden, q, kWholeSlices, slice_width},
          .gate_up = {2 * c.ffn, c.hidden, kWholeSlices, slice_width},
          .down = {c.hidden, c.ffn, kWholeSlices, slice_width},
          .head = {c.vocab, c.hidden, kWholeSlices, slice_width}};
}

PackedShapes plan_forward_shapes(const ModelConfig& c, Dtype t, int64_t slice_width) {
  return plan_shapes(c, forward_rules(c, slice_width), t);
}
PackedShapes plan_backward_shapes(const ModelConfig& c, Dtype t, int64_t slice_width) {
  return plan_shapes(c, backward_rules(c, slice_width), t);
}

uint64_t packed_bytes(const PackedShapes& s, int64_t layers) {
  return (s.qkv.bytes + s.o.bytes + s.gate_up.bytes + s.down.bytes) * layers + s.head.bytes;
}

int64_t largest_slice(const PackedShapes& shapes) {
  int64_t most = 0;
  for (const PackedShape* s : {&shapes.qkv, &shapes.o, &shapes.gate_up, &shapes.down, &shapes.head})
    most = std::max(most, s->k * s->slices.width);
  return most;
}

PackedWeights::PackedWeights(const ModelConfig& config, const WeightLayout& layout,
                             const PackedShapes& shapes, Direction direction, ArenaLedger* ledger)
    : config_(config),
      layout_(layout),
      direction_(direction),
      shapes_(shapes),
      arena_(
          direction == Direction::kForward ? "packed weights, forward" : "packed weights, backward",
          packed_bytes(shapes_, config.layers), Touch::kLater, ledger) {
  layers_.resize(config.layers);
}

void PackedWeights::pack(Matmul& matmul, const float* master) {
  if (direction_ == Direction::kForward)
    pack(matmul, WeightFloats(master));
  else
    pack_backward(matmul, master);
}

void PackedWeights::pack(Matmul& matmul, const WeightFloats& weights) {
  RL_CHECK(direction_ == Direction::kForward);
  std::byte* next = arena_.data();
  using Range = Matmul::RowRange;
  const auto plain = [&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    matmul.pack_rows(
        shape, next,
        [&](int64_t s, int worker) {
          const int64_t first = shape.slices.first(s), count = shape.slices.size(s);
          return std::vector<Range>{
              {weights.get(offset + first * shape.k, count * shape.k, 0, worker), count}};
        },
        out);
    next += shape.bytes;
  };
  for (int64_t l = 0; l < config_.layers; ++l) {
    const LayerOffsets& at = layout_.layer(l);
    plain(shapes_.qkv, at.qkv, layers_[l].qkv);
    plain(shapes_.o, at.o, layers_[l].o);
    // A slice of 2w columns starting at 2c is gate columns c..c+w, then up columns c..c+w.
    const PackedShape& gu = shapes_.gate_up;
    matmul.pack_rows(
        gu, next,
        [&](int64_t s, int worker) {
          const int64_t first = gu.slices.first(s) / 2, count = gu.slices.size(s) / 2,
                        floats = count * gu.k;
          const auto half = [&](int64_t row, int64_t place) {
            return Range{weights.get(at.gate_up + row * gu.k, floats, place, worker), count};
          };
          return std::vector<Range>{half(first, 0), half(config_.ffn + first, floats)};
        },
        layers_[l].gate_up);
    next += gu.bytes;
    plain(shapes_.down, at.down, layers_[l].down);
  }
  if (!config_.scalar_head) plain(shapes_.head, layout_.head(), head_);
}

void PackedWeights::pack_backward(Matmul& matmul, const float* master) {
  std::byte* next = arena_.data();
  const auto plain = [&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    matmul.pack_columns(shape, next, master + offset, out);
    next += shape.bytes;
  };
  for (int64_t l = 0; l < config_.layers; ++l) {
    const LayerOffsets& at = layout_.layer(l);
    plain(shapes_.qkv, at.qkv, layers_[l].qkv);
    plain(shapes_.o, at.o, layers_[l].o);
    plain(shapes_.gate_up, at.gate_up, layers_[l].gate_up);
    plain(shapes_.down, at.down, layers_[l].down);
  }
  if (!config_.scalar_head) plain(shapes_.head, layout_.head(), head_);
}

}  // namespace rl

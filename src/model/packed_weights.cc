// Packed forms of all matrices. How each is split follows from its shape and its epilogue
// (ops/matmul_slices.h).
#include "model/packed_weights.h"

#include <algorithm>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {
constexpr SliceCut kWholeSlices{}, kAnyColumns{1}, kJoinedHalves{2};

// A scalar head is not packed.
PackedShapes plan_shapes(const Device& device, const ProductRules& r, Dtype t, bool scalar_head) {
  return {device.plan_packed(r.qkv, t), device.plan_packed(r.o, t),
          device.plan_packed(r.gate_up, t), device.plan_packed(r.down, t),
          scalar_head ? PackedShape{} : device.plan_packed(r.head, t)};
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

PackedShapes plan_forward_shapes(const Device& device, const ModelConfig& c, Dtype t,
                                 int64_t slice_width) {
  return plan_shapes(device, forward_rules(c, slice_width), t, c.scalar_head);
}
PackedShapes plan_backward_shapes(const Device& device, const ModelConfig& c, Dtype t,
                                  int64_t slice_width) {
  return plan_shapes(device, backward_rules(c, slice_width), t, c.scalar_head);
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

void PackedWeights::pack(Compute& compute, const float* master) {
  if (direction_ == Direction::kForward)
    pack(compute, WeightFloats(master));
  else
    pack_backward(compute, master);
}

// Calls pack(shape, offset in the layout, matrix) for every matrix, in the order of the arena.
template <typename Pack>
void PackedWeights::for_each_matrix(const Pack& pack) {
  for (int64_t l = 0; l < config_.layers; ++l) {
    const LayerOffsets& at = layout_.layer(l);
    pack(shapes_.qkv, at.qkv, layers_[l].qkv);
    pack(shapes_.o, at.o, layers_[l].o);
    pack(shapes_.gate_up, at.gate_up, layers_[l].gate_up);
    pack(shapes_.down, at.down, layers_[l].down);
  }
  if (!config_.scalar_head) pack(shapes_.head, layout_.head(), head_);
}

// A frozen model's weights are read slice by slice into room that lives as long as the packing.
void PackedWeights::pack(Compute& compute, const WeightFloats& weights) {
  RL_CHECK(direction_ == Direction::kForward);
  const float* master = weights.masters();
  const int64_t room_floats = master ? 0 : largest_slice(shapes_);
  const Arena room("weights being read", pack_room_bytes(room_floats, compute.num_threads()),
                   Touch::kLater, master ? nullptr : compute.ledger());
  const auto copy = [&](int64_t from, std::span<float> out) { weights.copy(from, out); };
  const FloatReader read = copy;
  std::byte* next = arena_.data();
  for_each_matrix([&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    pack_rows(compute, {shape, next, out, master ? master + offset : nullptr, offset, &read,
                        master ? nullptr : room.at<float>(0), room_floats});
    next += shape.bytes;
  });
}

void PackedWeights::pack_backward(Compute& compute, const float* master) {
  std::byte* next = arena_.data();
  for_each_matrix([&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    pack_columns(compute, {shape, next, out, master + offset});
    next += shape.bytes;
  });
}

}  // namespace rl

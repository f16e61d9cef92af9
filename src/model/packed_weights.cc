// Packed compute forms of all matrices. Slice widths are chosen so that every product has enough column slices to keep
// a few cores busy at one row, and wide enough to run at the kernel's full speed.
#include "model/packed_weights.h"

#include <algorithm>

#include "core/error.h"
#include "ops/few_rows.h"

namespace rl {
namespace {
// The matrix of logits in one direction; a scalar head is not packed.
PackedShape plan_head(const ModelConfig& c, int64_t k, int64_t n, int64_t width, Dtype t) {
  return c.scalar_head ? PackedShape{} : plan_packed(k, n, width, t);
}
constexpr int64_t kWidth = 256;      // columns per slice of a layer's products
constexpr int64_t kWideWidth = 512;  // of the widest product, whose slices are many
constexpr int64_t kHiddenWidth = 320;  // of products into the hidden size
constexpr SliceCut kAnyColumns{1}, kPairsOfBlocks{2, 2 * kFewRowsColumnBlock};
// Width of the gate and up slices, which are joined while packing.
int64_t gate_up_width(const ModelConfig& c) {
  return std::clamp<int64_t>(Matmul::kMaxJoinedFloats / c.hidden / 64 * 64, 32, kWideWidth);
}
}  // namespace

PackedShapes plan_forward_shapes(const ModelConfig& c, Dtype t, int64_t slice_width) {
  const int64_t q = c.heads * c.head_dim, qkv = q + 2 * c.kv_heads * c.head_dim;
  const auto width = [&](int64_t own) { return slice_width != 0 ? std::min(slice_width, own) : own; };
  return {plan_packed(c.hidden, qkv, width(kWidth), t, {1, c.head_dim}),  // the epilogue turns whole heads
          plan_packed(q, c.hidden, width(kHiddenWidth), t, kAnyColumns),
          plan_packed(c.hidden, 2 * c.ffn, width(gate_up_width(c)), t, kPairsOfBlocks),
          plan_packed(c.ffn, c.hidden, width(kHiddenWidth), t, kAnyColumns),
          plan_head(c, c.hidden, c.vocab, kVocabularyTile, t)};
}

PackedShapes plan_backward_shapes(const ModelConfig& c, Dtype t, int64_t slice_width) {
  const int64_t q = c.heads * c.head_dim, qkv = q + 2 * c.kv_heads * c.head_dim;
  const auto width = [&](int64_t own) { return slice_width != 0 ? std::min(slice_width, own) : own; };
  return {plan_packed(qkv, c.hidden, width(kHiddenWidth), t), plan_packed(c.hidden, q, width(kHiddenWidth), t),
          plan_packed(2 * c.ffn, c.hidden, width(kHiddenWidth), t), plan_packed(c.hidden, c.ffn, width(kWidth), t),
          plan_head(c, c.vocab, c.hidden, width(kHiddenWidth), t)};
}

uint64_t packed_bytes(const PackedShapes& s, int64_t layers) {
  return (s.qkv.bytes + s.o.bytes + s.gate_up.bytes + s.down.bytes) * layers + s.head.bytes;
}

PackedWeights::PackedWeights(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
                             Direction direction)
    : config_(config), layout_(layout), direction_(direction), shapes_(shapes),
      arena_(direction == Direction::kForward ? "packed weights, forward" : "packed weights, backward",
             packed_bytes(shapes_, config.layers), Touch::kLater) {
  layers_.resize(config.layers);
}

void PackedWeights::pack(Matmul& matmul, const float* master) {
  if (direction_ == Direction::kForward) pack_forward(matmul, master);
  else pack_backward(matmul, master);
}

void PackedWeights::pack_forward(Matmul& matmul, const float* master) {
  std::byte* next = arena_.data();
  using Range = Matmul::RowRange;
  const auto plain = [&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    matmul.pack_rows(shape, next, [&](int64_t s) {
      return std::vector<Range>{{master + offset, shape.slices.first(s), shape.slices.size(s)}};
    }, out);
    next += shape.bytes;
  };
  for (int64_t l = 0; l < config_.layers; ++l) {
    const LayerOffsets& at = layout_.layer(l);
    plain(shapes_.qkv, at.qkv, layers_[l].qkv);
    plain(shapes_.o, at.o, layers_[l].o);
    // A slice of 2w columns starting at 2c is gate columns c..c+w, then up columns c..c+w.
    const PackedShape& gu = shapes_.gate_up;
    matmul.pack_rows(gu, next, [&](int64_t s) {
      const int64_t first = gu.slices.first(s) / 2, count = gu.slices.size(s) / 2;
      return std::vector<Range>{{master + at.gate_up, first, count},
                                {master + at.gate_up, config_.ffn + first, count}};
    }, layers_[l].gate_up);
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

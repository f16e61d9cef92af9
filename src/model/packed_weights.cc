// Packed forms of all matrices. How each is split follows from its shape and its epilogue
// (ops/matmul_slices.h).
#include "model/packed_weights.h"

#include <algorithm>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {
constexpr SliceCut kWholeSlices{}, kAnyColumns{1}, kJoinedHalves{2};

using LayerRules = ProductRules (*)(const ModelConfig&, int64_t slice_width, int64_t layer);

// Layers with the products of the one before are not planned again. A scalar head is not packed.
PackedShapes plan_shapes(const Device& device, const ModelConfig& c, LayerRules rules, Dtype t,
                         int64_t slice_width) {
  PackedShapes shapes;
  shapes.parts = c.split.count;
  const auto sizes = [&](int64_t l) {
    LayerShape s = c.layer(l);
    s.window = 0;
    return s;
  };
  for (int64_t l = 0; l < c.layers; ++l) {
    if (l > 0 && sizes(l) == sizes(l - 1)) {
      shapes.layers.push_back(shapes.layers.back());
      continue;
    }
    const ProductRules r = rules(c, slice_width, l);
    shapes.layers.push_back({device.plan_packed(r.qkv, t), device.plan_packed(r.o, t),
                             device.plan_packed(r.gate_up, t), device.plan_packed(r.down, t)});
  }
  return shapes;
}
}  // namespace

std::vector<HeadPart> head_parts(const Device& device, const ModelConfig& c) {
  const VocabularyCut cut(c);
  const int64_t most = device.vocabulary_part();
  std::vector<HeadPart> parts;
  for (int64_t part = 0; part < c.split.count; ++part) {
    const TokenRange tokens = cut.part(c.split.first + part);
    const ColumnSlices slices = slices_of_width(tokens.count, most != 0 ? most : tokens.count);
    for (int64_t i = 0; i < slices.count(); ++i) {
      parts.push_back(
          {tokens.first - cut.own().first + slices.first(i), slices.size(i), part, i == 0});
    }
  }
  return parts;
}

ProductRules forward_rules(const ModelConfig& c, int64_t slice_width, int64_t layer) {
  const LayerShape s = c.part(layer);
  const VocabularyCut vocabulary(c);
  // The only tile of a small vocabulary has any width; cut_slices() rounds what is asked for down.
  const int64_t tile = c.split.divides() ? vocabulary.tiles().width : kVocabularyTile;
  const SliceCut whole_heads{1, s.head_dim};  // the epilogue applies RoPE to whole heads
  return {.qkv = {c.hidden, s.qkv_width(), whole_heads, slice_width},
          .o = {s.q_width(), c.hidden, kAnyColumns, slice_width},
          .gate_up = {c.hidden, 2 * s.ffn, kJoinedHalves, slice_width},
          .down = {s.ffn, c.hidden, kAnyColumns, slice_width},
          .head = {c.hidden, vocabulary.own().count, kWholeSlices, tile}};
}

ProductRules backward_rules(const ModelConfig& c, int64_t slice_width, int64_t layer) {
  const LayerShape s = c.part(layer);
  return {.qkv = {s.qkv_width(), c.hidden, kWholeSlices, slice_width},
          .o = {c.hidden, s.q_width(), kWholeSlices, slice_width},
          .gate_up = {2 * s.ffn, c.hidden, kWholeSlices, slice_width},
          .down = {c.hidden, s.ffn, kWholeSlices, slice_width},
          .head = {c.vocab, c.hidden, kWholeSlices, slice_width}};
}

PackedShapes plan_forward_shapes(const Device& device, const ModelConfig& c, Dtype t,
                                 int64_t slice_width) {
  PackedShapes shapes = plan_shapes(device, c, forward_rules, t, slice_width);
  if (!c.scalar_head && c.has_head())
    shapes.head = device.plan_packed(forward_rules(c, slice_width).head, t);
  return shapes;
}
PackedShapes plan_backward_shapes(const Device& device, const ModelConfig& c, Dtype t,
                                  int64_t slice_width) {
  PackedShapes shapes = plan_shapes(device, c, backward_rules, t, slice_width);
  if (c.scalar_head || !c.has_head()) return shapes;
  SliceRule rule = backward_rules(c, slice_width).head;
  for (const HeadPart& part : head_parts(device, c)) {
    const bool known = !shapes.head_parts.empty() && part.tokens == rule.k;
    rule.k = part.tokens;
    shapes.head_parts.push_back(known ? shapes.head_parts.back() : device.plan_packed(rule, t));
  }
  return shapes;
}

uint64_t packed_bytes(const PackedShapes& s) {
  uint64_t bytes = 0;
  for (const PackedShapes::Layer& l : s.layers)
    bytes += l.qkv.bytes + l.o.bytes + l.gate_up.bytes + l.down.bytes;
  bytes = bytes * static_cast<uint64_t>(s.parts) + s.head.bytes;
  for (const PackedShape& part : s.head_parts) bytes += part.bytes;
  return bytes;
}

int64_t largest_slice(const PackedShapes& shapes) {
  int64_t most = shapes.head.k * shapes.head.slices.width;
  for (const PackedShapes::Layer& l : shapes.layers) {
    for (const PackedShape* s : {&l.qkv, &l.o, &l.gate_up, &l.down})
      most = std::max(most, s->k * s->slices.width);
  }
  return most;
}

PackedWeights::PackedWeights(const ModelConfig& config, const WeightLayout& layout,
                             const PackedShapes& shapes, const ArenaPlace& place)
    : config_(config),
      layout_(layout),
      shapes_(shapes),
      arena_("packed weights, forward", packed_bytes(shapes_), Touch::kLater, place),
      data_(arena_.data()),
      layers_(static_cast<size_t>(config.layers * shapes_.parts)) {}

PackedWeights::PackedWeights(const ModelConfig& config, const WeightLayout& layout,
                             const PackedShapes& shapes, std::byte* data)
    : config_(config),
      layout_(layout),
      shapes_(shapes),
      data_(data),
      layers_(static_cast<size_t>(config.layers * shapes_.parts)) {}

// Calls pack(shape, offset in the layout, matrix) for every matrix, in the order of the arena.
template <typename Pack>
void PackedWeights::for_each_matrix(const Pack& pack) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto l = static_cast<int64_t>(i) / shapes_.parts;
    const LayerOffsets& at = layout_.layer(l, static_cast<int64_t>(i) % shapes_.parts);
    const PackedShapes::Layer& shape = shapes_.layers[static_cast<size_t>(l)];
    pack(shape.qkv, at.qkv, layers_[i].qkv);
    pack(shape.o, at.o, layers_[i].o);
    pack(shape.gate_up, at.gate_up, layers_[i].gate_up);
    pack(shape.down, at.down, layers_[i].down);
  }
  if (!config_.scalar_head && config_.has_head()) pack(shapes_.head, layout_.head(), head_);
}

void PackedWeights::drop() {
  arena_.decommit();
  dropped_ = true;
}

// A frozen model's weights are read slice by slice into a staging buffer of the host, which lives
// as long as the packing.
void PackedWeights::pack(Compute& compute, const WeightFloats& weights) {
  // Pages of the host come back when they are written.
  if (dropped_ && arena_.space() == MemorySpace::kDevice) arena_.commit();
  dropped_ = false;
  const bool reads = weights.from_file();
  const MasterFloats& masters = weights.masters();
  const int64_t staging_floats = reads ? largest_slice(shapes_) : 0;
  const Arena staging("weights being read",
                      pack_staging_bytes(staging_floats, compute.num_threads()), Touch::kLater,
                      reads ? compute.ledger() : nullptr);
  const auto read = [&](int64_t from, std::span<float> out) { weights.read(from, out); };
  const FloatReader reader = read;
  const std::span<float> floats(staging.at<float>(0), staging.bytes() / sizeof(float));
  std::byte* next = data_;
  for_each_matrix([&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    if (!masters.divides(offset)) weights.await(offset + shape.k * shape.slices.n);
    if (reads || masters.has(offset)) {
      pack_rows(compute, {shape, next, out, reads ? nullptr : masters.at(offset), offset,
                          reads ? &reader : nullptr, floats, staging_floats});
    }
    next += shape.bytes;
  });
}

// Neighbours in memory whose owners ascend go together, so all ranks give at the same time.
void PackedWeights::gather(const MasterCut& cut, const MasterRanks& ranks) {
  std::byte* next = data_;
  std::byte* first = nullptr;
  std::vector<uint64_t> bytes(static_cast<size_t>(ranks.size()));
  int last_owner = 0;
  const auto send = [&] {
    if (first == nullptr) return;
    Pieces pieces{{0}};
    for (const uint64_t count : bytes) pieces.bounds.push_back(pieces.count() + count);
    ranks.gather({first, static_cast<size_t>(pieces.count())}, pieces, arena_.space());
    std::ranges::fill(bytes, 0);
    first = nullptr;
  };
  for_each_matrix([&](const PackedShape& shape, int64_t offset, PackedMatrix&) {
    const int owner = cut.owner(offset);
    if (owner < last_owner) send();
    if (owner >= 0) {
      if (first == nullptr) first = next;
      bytes[static_cast<size_t>(owner)] += shape.bytes;
    }
    last_owner = std::max(owner, 0);
    next += shape.bytes;
  });
  send();
}

std::vector<const PackedMatrix*> PackedWeights::matrices() const {
  std::vector<const PackedMatrix*> all;
  for (const PackedLayer& layer : layers_) {
    for (const PackedMatrix* m : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down})
      all.push_back(m);
  }
  if (!config_.scalar_head && config_.has_head()) all.push_back(&head_);
  return all;
}

void PackedWeights::pack_again(Compute& compute, const PackedWeights& from, RowsOf rows) {
  const std::vector<const PackedMatrix*> matrices = from.matrices();
  auto matrix = matrices.begin();
  std::byte* next = data_;
  for_each_matrix([&](const PackedShape& shape, int64_t offset, PackedMatrix& out) {
    RL_CHECK(matrix != matrices.end());
    pack_rows(compute, {shape, next, out, rows(offset, **matrix++), offset, nullptr, {}, 0});
    next += shape.bytes;
  });
}

}  // namespace rl

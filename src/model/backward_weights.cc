// Each layer keeps its packed form's descriptors, also while its bytes are another layer's.
#include "model/backward_weights.h"

#include <algorithm>

#include "core/error.h"
#include "model/model.h"
#include "ops/compute.h"

namespace rl {
namespace {

uint64_t layer_bytes(const PackedShapes::Layer& l) {
  return l.qkv.bytes + l.o.bytes + l.gate_up.bytes + l.down.bytes;
}

uint64_t held_bytes(const PackedShapes& backward, BackwardPacking packing) {
  if (packing == BackwardPacking::kResident) return packed_bytes(backward);
  uint64_t most = 0;
  for (const PackedShape& part : backward.head_parts) most = std::max(most, part.bytes);
  const auto parts = static_cast<uint64_t>(backward.parts);
  for (const PackedShapes::Layer& l : backward.layers)
    most = std::max(most, layer_bytes(l) * parts);
  return most;
}

// Of the largest matrix whose masters the ranks divide; every rank has such room.
int64_t largest_divided(const Model& model) {
  int64_t most = 0;
  for (const LayerMatrix& m : model.layout().layer_matrices()) {
    if (model.held_masters().divides(m.master)) most = std::max(most, m.size);
  }
  return most;
}

}  // namespace

uint64_t BackwardWeights::bytes(const PackedShapes& backward, BackwardPacking packing,
                                int64_t largest) {
  const uint64_t room = static_cast<uint64_t>(largest) * sizeof(float);
  return held_bytes(backward, packing) + room;
}

BackwardWeights::BackwardWeights(const Model& model, BackwardPacking packing)
    : model_(model),
      packing_(packing),
      shapes_(model.backward_shapes()),
      packed_bytes_(held_bytes(shapes_, packing)),
      arena_("packed weights, backward", bytes(shapes_, packing, largest_divided(model)),
             Touch::kLater, model.compute().memory()),
      layers_(static_cast<size_t>(model.config().layers * shapes_.parts)),
      head_parts_(rl::head_parts(model.compute().device(), model.config())),
      head_(shapes_.head_parts.size()) {}

void BackwardWeights::prepare() {
  if (packed_of_ == model_.num_packings()) return;
  held_ = kNothing;
  if (packing_ == BackwardPacking::kResident) pack_all();
  packed_of_ = model_.num_packings();
}

const PackedLayer& BackwardWeights::layer(int64_t l, int64_t part) {
  RL_CHECK(packed_of_ == model_.num_packings());
  if (must_pack(l)) pack_layer(l, arena_.data());
  held_ = l;
  return layers_[static_cast<size_t>(l * shapes_.parts + part)];
}

const PackedMatrix& BackwardWeights::head(int64_t part) {
  RL_CHECK(packed_of_ == model_.num_packings());
  const int64_t what = model_.config().layers + part;
  if (must_pack(what)) pack_head(part, arena_.data());
  held_ = what;
  return head_[static_cast<size_t>(part)];
}

bool BackwardWeights::must_pack(int64_t what) {
  if (packing_ == BackwardPacking::kResident || held_ == what) return false;
  held_ = kNothing;
  return true;
}

std::byte* BackwardWeights::pack_layer(int64_t l, std::byte* to) {
  const PackedShapes::Layer& shape = shapes_.layers[static_cast<size_t>(l)];
  const auto pack = [&](const PackedShape& s, int64_t offset, const PackedMatrix& forward,
                        PackedMatrix& matrix) {
    pack_columns(model_.compute(), {s, to, matrix, rows(offset, forward)});
    to += s.bytes;
  };
  for (int64_t part = 0; part < shapes_.parts; ++part) {
    const LayerOffsets& at = model_.layout().layer(l, part);
    const PackedLayer& forward = model_.trained().packed().layer(l, part);
    PackedLayer& out = layers_[static_cast<size_t>(l * shapes_.parts + part)];
    pack(shape.qkv, at.qkv, forward.qkv, out.qkv);
    pack(shape.o, at.o, forward.o, out.o);
    pack(shape.gate_up, at.gate_up, forward.gate_up, out.gate_up);
    pack(shape.down, at.down, forward.down, out.down);
  }
  return to;
}

const float* BackwardWeights::rows(int64_t place, const PackedMatrix& packed) const {
  return model_.rows(place, packed, arena_.at<float>(packed_bytes_));
}

void BackwardWeights::pack_head(int64_t part, std::byte* to) {
  const auto i = static_cast<size_t>(part);
  const int64_t first = head_parts_[i].first * model_.config().hidden;
  pack_columns(model_.compute(), {shapes_.head_parts[i], to, head_[i],
                                  model_.held_masters().at(model_.layout().head()) + first});
}

void BackwardWeights::pack_all() {
  std::byte* to = arena_.data();
  for (int64_t l = 0; l < model_.config().layers; ++l) to = pack_layer(l, to);
  for (size_t part = 0; part < head_.size(); ++part) {
    pack_head(static_cast<int64_t>(part), to);
    to += shapes_.head_parts[part].bytes;
  }
}

}  // namespace rl

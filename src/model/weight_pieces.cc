// Of the vocabulary a rank has whole tiles, which are slices of the packed head: those of several
// ranks, one after the other, are the head of a rank that has their tokens.
#include "model/weight_pieces.h"

#include "core/error.h"

namespace rl {
namespace {

using Kind = WeightPiece::Kind;

constexpr PackedMatrix PackedLayer::*kMatrices[] = {&PackedLayer::qkv, &PackedLayer::o,
                                                    &PackedLayer::gate_up, &PackedLayer::down};
constexpr PackedShape PackedShapes::Layer::*kShapes[] = {
    &PackedShapes::Layer::qkv, &PackedShapes::Layer::o, &PackedShapes::Layer::gate_up,
    &PackedShapes::Layer::down};

struct Norm {
  int64_t LayerOffsets::*offset;
  const float* LayerVectors::*vector;
  bool of_head = false;
};
constexpr Norm kNorms[] = {{&LayerOffsets::input_norm, &LayerVectors::input_norm},
                           {&LayerOffsets::q_norm, &LayerVectors::q_norm, true},
                           {&LayerOffsets::k_norm, &LayerVectors::k_norm, true},
                           {&LayerOffsets::mlp_norm, &LayerVectors::mlp_norm},
                           {&LayerOffsets::attention_out_norm, &LayerVectors::attention_out_norm},
                           {&LayerOffsets::mlp_out_norm, &LayerVectors::mlp_out_norm}};

uint64_t float_bytes(int64_t floats) { return static_cast<uint64_t>(floats) * sizeof(float); }

class PieceList {
 public:
  PieceList(const Device& device, const ModelConfig& config, Dtype compute, int64_t slice_width)
      : c_(config), shapes_(plan_forward_shapes(device, config, compute, slice_width)) {}

  std::vector<WeightPiece> take() {
    const WeightLayout layout(c_);
    for (int64_t l = 0; l < c_.layers; ++l) add_layer(layout, l);
    add_ends();
    return std::move(pieces_);
  }

 private:
  bool has_norms() const { return c_.split.first == 0; }

  void add_layer(const WeightLayout& layout, int64_t l) {
    const int64_t layer = c_.stage.first_layer + l;
    const PackedShapes::Layer& shape = shapes_.layers[static_cast<size_t>(l)];
    for (int64_t p = 0; p < c_.split.count; ++p) {
      const int64_t part = c_.split.first + p;
      for (size_t m = 0; m < std::size(kMatrices); ++m) {
        pieces_.push_back({.kind = Kind::kMatrix,
                           .bytes = (shape.*kShapes[m]).bytes,
                           .layer = layer,
                           .part = part,
                           .matrix = kMatrices[m]});
      }
      if (!c_.qkv_bias) continue;
      pieces_.push_back({.kind = Kind::kBias,
                         .bytes = float_bytes(c_.part(l).qkv_width()),
                         .layer = layer,
                         .part = part});
    }
    for (const Norm& norm : kNorms) {
      if (!has_norms() || layout.layer(l).*norm.offset < 0) continue;
      pieces_.push_back({.kind = Kind::kNorm,
                         .bytes = float_bytes(norm.of_head ? c_.head_dim : c_.hidden),
                         .layer = layer,
                         .norm = norm.vector});
    }
  }

  // Embedding, final norm and head.
  void add_ends() {
    const VocabularyCut cut(c_);
    if (c_.has_embedding()) {
      pieces_.push_back({.kind = Kind::kEmbedding,
                         .bytes = float_bytes(cut.own().count * c_.hidden),
                         .token = cut.own().first});
    }
    if (!c_.has_head()) return;
    RL_CHECK(!c_.scalar_head);
    pieces_.push_back(
        {.kind = Kind::kHead, .bytes = shapes_.head.bytes, .tile = cut.first_tile(cut.rank())});
    if (has_norms()) pieces_.push_back({.kind = Kind::kFinalNorm, .bytes = float_bytes(c_.hidden)});
  }

  const ModelConfig& c_;
  const PackedShapes shapes_;
  std::vector<WeightPiece> pieces_;
};

// A copy's own vectors are changed by nobody else; those in masters are only read.
std::byte* at(const float* vector) {
  return reinterpret_cast<std::byte*>(const_cast<float*>(vector));
}

std::byte* head_at(const WeightPiece& piece, const PackedMatrix& head, const ModelConfig& config) {
  const VocabularyCut cut(config);
  const PackedShape& shape = head.shape();
  const int64_t slice = piece.tile - cut.first_tile(cut.rank());
  RL_CHECK(slice >= 0 && slice < shape.slices.count() && !shape.slice_offset.empty());
  const uint64_t offset = shape.slice_offset[static_cast<size_t>(slice)];
  RL_CHECK(offset + piece.bytes <= shape.bytes);
  return head.data() + offset;
}

std::byte* begin_of(const WeightPiece& piece, const ComputeCopy& copy, const ModelConfig& config) {
  const int64_t layer = piece.layer - config.stage.first_layer;
  const int64_t part = piece.part - config.split.first;
  switch (piece.kind) {
    case Kind::kMatrix:
      return (copy.packed().layer(layer, part).*piece.matrix).data();
    case Kind::kBias:
      return at(copy.layer(layer).qkv_bias[static_cast<size_t>(part)]);
    case Kind::kNorm:
      return at(copy.layer(layer).*piece.norm);
    case Kind::kEmbedding:
      return at(copy.embedding() +
                (piece.token - VocabularyCut(config).own().first) * config.hidden);
    case Kind::kHead:
      return head_at(piece, copy.packed().head(), config);
    case Kind::kFinalNorm:
      return at(copy.final_norm());
  }
  return nullptr;
}

}  // namespace

std::vector<WeightPiece> weight_pieces(const Device& device, const ModelConfig& config,
                                       Dtype compute, int64_t slice_width) {
  return PieceList(device, config, compute, slice_width).take();
}

uint64_t bytes_of(std::span<const WeightPiece> pieces) {
  uint64_t sum = 0;
  for (const WeightPiece& piece : pieces) sum += piece.bytes;
  return sum;
}

std::span<std::byte> place_of(const WeightPiece& piece, const ComputeCopy& copy,
                              const ModelConfig& config) {
  std::byte* const begin = begin_of(piece, copy, config);
  RL_CHECK(begin != nullptr);
  return {begin, static_cast<size_t>(piece.bytes)};
}

}  // namespace rl

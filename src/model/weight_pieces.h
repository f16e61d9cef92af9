// What a rank that divides a model has of a version of its weights, as a list of pieces: packed
// matrices, biases and embedded rows of its parts and layers, and norms, which the first
// tensor-parallel rank of a stage has for all. The list follows from the configuration alone; every
// copy that has a piece has it in as many bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/compute_copy.h"

namespace rl {

struct WeightPiece {
  enum class Kind : uint8_t { kMatrix, kBias, kNorm, kEmbedding, kHead, kFinalNorm };
  Kind kind;
  uint64_t bytes;
  int64_t layer = 0, part = 0;  // of all
  PackedMatrix PackedLayer::*matrix = nullptr;
  const float* LayerVectors::*norm = nullptr;
  int64_t token = 0;  // the first one, of an embedding
  int64_t tile = 0;   // the first one, of a head
};

// Of a rank with this configuration. slice_width: see plan_forward_shapes().
std::vector<WeightPiece> weight_pieces(const Device& device, const ModelConfig& config,
                                       Dtype compute, int64_t slice_width = 0);
uint64_t bytes_of(std::span<const WeightPiece> pieces);

// Where a copy of this configuration, which was packed before, has a piece.
std::span<std::byte> place_of(const WeightPiece& piece, const ComputeCopy& copy,
                              const ModelConfig& config);

}  // namespace rl

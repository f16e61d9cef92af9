// Packed matrices of the backward, dx = dy W. Either all of them are resident, packed once per
// version of the masters; or one arena holds those of one layer, or of a part of the head, packed
// each time the backward comes to them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena.h"
#include "model/packed_weights.h"

namespace rl {

class Model;

enum class BackwardPacking : uint8_t { kResident, kByLayer };

class BackwardWeights {
 public:
  // Bytes of the arena. largest: floats of the largest matrix whose masters ranks divide; 0: none.
  static uint64_t bytes(const PackedShapes& backward, BackwardPacking packing, int64_t largest);

  BackwardWeights(const Model& model, BackwardPacking packing);

  // To be called before a step: packs what is resident and stale. The masters stay as they are
  // until the step's last backward.
  void prepare();

  // Of the masters. What layer() and head() return holds until the next call of either. part: of
  // head_parts(), by which the sum over the vocabulary goes.
  const PackedLayer& layer(int64_t l, int64_t part = 0);
  const PackedMatrix& head(int64_t part);
  const std::vector<HeadPart>& head_parts() const { return head_parts_; }

  std::span<std::byte> memory() const { return arena_.span(); }

 private:
  // All parts that the rank has; returns where they end.
  std::byte* pack_layer(int64_t l, std::byte* to);
  // Of a matrix of the forward, in fp32 until the next call.
  const float* rows(int64_t place, const PackedMatrix& packed) const;
  void pack_head(int64_t part, std::byte* to);
  bool must_pack(int64_t what);
  void pack_all();

  static constexpr int64_t kNothing = -1;

  const Model& model_;
  const BackwardPacking packing_;
  const PackedShapes shapes_;
  const uint64_t packed_bytes_;
  Arena arena_;  // the packed bytes, then rows that are unpacked
  std::vector<PackedLayer> layers_;
  const std::vector<HeadPart> head_parts_;
  std::vector<PackedMatrix> head_;  // its parts
  uint64_t packed_of_ = 0;          // Model::num_packings() that all of it is of; 0: none
  int64_t held_ = kNothing;         // by layer: what the arena holds, parts after the layers
};

}  // namespace rl

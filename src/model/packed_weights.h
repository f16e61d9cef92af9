// The packed matrices of the forward, y = x W^T, in one arena; and how the GEMMs of both directions
// are split. Invariant: matrices change only in pack(), which reads nothing but the fp32 weights.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena.h"
#include "core/function_ref.h"
#include "formats/vocabulary_cut.h"
#include "model/ranks/master_ranks.h"
#include "model/weight_floats.h"
#include "ops/device.h"

namespace rl {

class Compute;

// How the GEMMs of a model are split: a pure function of its sizes. forward: y = x W^T; backward:
// dx = dy W. slice_width: columns of a slice in every GEMM except the head's; 0: chosen from the
// shape. Tests use it to give small models several slices. Multiples of 16 change no bit
// (ops/matmul_slices.h).
struct ProductRules {
  SliceRule qkv, o, gate_up, down, head;
};
ProductRules forward_rules(const ModelConfig& config, int64_t slice_width = 0, int64_t layer = 0);
ProductRules backward_rules(const ModelConfig& config, int64_t slice_width = 0, int64_t layer = 0);

// Packed shapes of one model in one compute dtype, on one device. A scalar head has no packed
// shape.
struct PackedShapes {
  struct Layer {
    PackedShape qkv, o, gate_up, down;
  };
  std::vector<Layer> layers;            // shapes of one part of ModelConfig::split
  PackedShape head;                     // of the forward, for the tokens that the rank has
  std::vector<PackedShape> head_parts;  // of the backward, one for each of head_parts()
  int64_t parts = 1;                    // of layers that the rank has, each with such matrices
};
// Tokens that the head's backward computes with at a time, counted from the first one of the rank.
struct HeadPart {
  int64_t first, tokens;
  int64_t part;      // of ModelConfig::split, among those that the rank has
  bool begins_part;  // it has the first tokens of that part
};
std::vector<HeadPart> head_parts(const Device& device, const ModelConfig& config);
PackedShapes plan_forward_shapes(const Device& device, const ModelConfig& config, Dtype compute,
                                 int64_t slice_width = 0);
PackedShapes plan_backward_shapes(const Device& device, const ModelConfig& config, Dtype compute,
                                  int64_t slice_width = 0);
uint64_t packed_bytes(const PackedShapes& shapes);
// Floats of the largest slice; slices are packed one at a time.
int64_t largest_slice(const PackedShapes& shapes);

struct PackedLayer {
  PackedMatrix qkv, o, gate_up, down;
};

// Of the forward. A gate_up slice holds gate columns, then the same up columns.
class PackedWeights {
 public:
  PackedWeights(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
                const ArenaPlace& place = {});
  // In memory of the caller: packed_bytes(shapes), 64-byte aligned.
  PackedWeights(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
                std::byte* data);
  // Packs everything from masters or from a file; called once per version. Of divided masters those
  // that this rank has.
  void pack(Compute& compute, const WeightFloats& weights);
  // Then the ranks give each other what each of them has packed; the bytes of all are alike.
  void gather(const MasterCut& cut, const MasterRanks& ranks);
  // Packs what others of the same matrices were packed from. rows: of such a matrix at this place.
  using RowsOf = FunctionRef<const float*(int64_t place, const PackedMatrix& packed)>;
  void pack_again(Compute& compute, const PackedWeights& from, RowsOf rows);
  // Of one of the parts that the rank has.
  const PackedLayer& layer(int64_t l, int64_t part = 0) const {
    return layers_[static_cast<size_t>(l * shapes_.parts + part)];
  }
  const PackedMatrix& head() const { return head_; }
  // Its own.
  std::span<std::byte> memory() const { return arena_.span(); }
  // Returns its own memory to the system until the next pack().
  void drop();

 private:
  template <typename Pack>
  void for_each_matrix(const Pack& pack);
  std::vector<const PackedMatrix*> matrices() const;
  const ModelConfig config_;
  const WeightLayout& layout_;
  PackedShapes shapes_;
  Arena arena_;
  std::byte* const data_;
  bool dropped_ = false;
  std::vector<PackedLayer> layers_;
  PackedMatrix head_;
};

}  // namespace rl

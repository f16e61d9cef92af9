// Packed compute forms of all matrices, in one arena: forward y = x W^T, backward dx = dy W.
// Invariant: between pack() calls they do not change; pack() reads the fp32 weights and nothing
// else.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena.h"
#include "model/weight_floats.h"
#include "ops/matmul.h"

namespace rl {

// Columns of a vocabulary tile: the head is packed in these slices and log-probs are summed over
// them, in order.
constexpr int64_t kVocabularyTile = 512;

// How the products of a model are cut: a pure function of its sizes. forward: y = x W^T; backward:
// dx = dy W. slice_width: columns of a slice of every product but the head's logits; 0: what each
// shape asks for. Tests give small models several slices with it. Multiples of 16 move no bit
// (ops/matmul_slices.h).
struct ProductRules {
  SliceRule qkv, o, gate_up, down, head;
};
ProductRules forward_rules(const ModelConfig& config, int64_t slice_width = 0);
ProductRules backward_rules(const ModelConfig& config, int64_t slice_width = 0);

// Packed shapes of one model in one compute dtype. A scalar head has none.
struct PackedShapes {
  PackedShape qkv, o, gate_up, down, head;
};
PackedShapes plan_forward_shapes(const ModelConfig& config, Dtype compute, int64_t slice_width = 0);
PackedShapes plan_backward_shapes(const ModelConfig& config, Dtype compute,
                                  int64_t slice_width = 0);
uint64_t packed_bytes(const PackedShapes& shapes, int64_t layers);
// Floats of the largest slice, which is packed at once.
int64_t largest_slice(const PackedShapes& shapes);

// The packed matrices of one direction. The gate_up forward slices hold gate columns first, then
// the same up columns.
class PackedWeights {
 public:
  enum class Direction { kForward, kBackward };
  // shapes: those of the direction.
  PackedWeights(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
                Direction direction, ArenaLedger* ledger = nullptr);
  // Packs everything from the masters; called once per version.
  void pack(Matmul& matmul, const float* master);
  // The same of the forward direction, from masters or from a file.
  void pack(Matmul& matmul, const WeightFloats& weights);
  struct Layer {
    PackedMatrix qkv, o, gate_up, down;
  };
  const Layer& layer(int64_t l) const { return layers_[l]; }
  const PackedMatrix& head() const { return head_; }
  std::span<std::byte> memory() const { return arena_.span(); }
  // Gives the memory back to the system until the next pack().
  void drop() { arena_.decommit(); }

 private:
  void pack_backward(Matmul& matmul, const float* master);
  const ModelConfig config_;
  const WeightLayout& layout_;
  Direction direction_;
  PackedShapes shapes_;
  Arena arena_;
  std::vector<Layer> layers_;
  PackedMatrix head_;
};

}  // namespace rl

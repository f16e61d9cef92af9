// All that a forward reads of one version of the weights: the packed matrices, and the parameters
// that are read as they are (embedding, norms, biases). These are the masters' own, or a copy when
// the masters change while the version is still read, or when there are none.
// Invariant: between update() calls a copy does not change, so whoever reads it sees one version.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "model/packed_weights.h"

namespace rl {

// Parameters of a layer that are not packed; null: the model has none.
struct LayerVectors {
  const float *input_norm = nullptr, *qkv_bias = nullptr, *q_norm = nullptr, *k_norm = nullptr;
  const float *mlp_norm = nullptr, *attention_out_norm = nullptr, *mlp_out_norm = nullptr;
};

struct WeightVectors {
  const float *embedding = nullptr, *final_norm = nullptr;
  const float* score = nullptr;  // of a scalar head
  std::vector<LayerVectors> layers;
};

class ComputeCopy {
 public:
  // master outlives the copy. shapes: of the forward. own_vectors: what is not packed is copied
  // too, as it must be where master is null.
  ComputeCopy(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
              const float* master, bool own_vectors, ArenaLedger* ledger);
  ComputeCopy(const ComputeCopy&) = delete;

  // Takes the weights over, the masters or those of a file. Nobody reads the copy meanwhile.
  void update(Matmul& matmul, const WeightFloats& weights);
  // Before the copy is published. number: that of the model's releases so far.
  void set_release(uint64_t version, uint64_t number) {
    version_.store(version, std::memory_order_release);
    release_.store(number, std::memory_order_release);
  }

  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Tells contents apart also where a checkpoint that was loaded has the version of other weights.
  uint64_t release() const { return release_.load(std::memory_order_acquire); }
  const PackedWeights& packed() const { return packed_; }
  // Gives the memory of the packed matrices back to the system until the next update().
  void drop_packed() { packed_.drop(); }
  const float* embedding() const { return vectors_.embedding; }
  const float* final_norm() const { return vectors_.final_norm; }
  const float* score() const { return vectors_.score; }
  const LayerVectors& layer(int64_t l) const { return vectors_.layers[static_cast<size_t>(l)]; }

  // Of the arena with own vectors.
  static uint64_t vector_bytes(const ModelConfig& config);
  uint64_t arena_bytes() const { return packed_.memory().size() + own_.span().size(); }

 private:
  struct Move {
    int64_t from;  // offset in the layout
    float* to;
    int64_t size;
  };

  PackedWeights packed_;
  Arena own_;
  WeightVectors vectors_;
  std::vector<Move> moves_;  // to the own vectors, in tasks of whole rows
  std::atomic<uint64_t> version_{0}, release_{0};
};

}  // namespace rl

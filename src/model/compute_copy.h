// All that a forward reads of one version of the weights: the packed matrices, and the parameters
// that are not packed (embedding, norms, biases). The latter point into the masters, or are a copy
// if the masters change while the version is still read, or if there are none. Invariant: between
// update() calls a copy does not change, so a reader sees one version. A reader pins the copy, and
// a copy with pins is not updated (Model::pin).
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "model/packed_weights.h"
#include "ops/weight_ops.h"

namespace rl {

// The arena of weights that are in memory of the device only while it computes with them.
inline constexpr const char* kWeightsInHost = "weights, host";

// Parameters of a layer that are not packed; null: the model has none.
struct LayerVectors {
  const float *input_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr;
  const float *mlp_norm = nullptr, *attention_out_norm = nullptr, *mlp_out_norm = nullptr;
  std::vector<const float*> qkv_bias;  // of each part of ModelConfig::split that the rank has
};

struct WeightVectors {
  const float *embedding = nullptr, *final_norm = nullptr;
  const float* score = nullptr;  // scalar heads only
  std::vector<LayerVectors> layers;
};

class ComputeCopy {
 public:
  // masters must outlive the copy. shapes: forward shapes. own_vectors: also copies what is not
  // packed; required if there are no masters.
  ComputeCopy(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
              const MasterFloats& masters, bool own_vectors, const ArenaPlace& place);
  // Without masters, in borrowed memory of borrowed_bytes(): others may write to it between the
  // forwards that read the copy, and bring() restores it from an arena in the host's memory.
  ComputeCopy(const ModelConfig& config, const WeightLayout& layout, const PackedShapes& shapes,
              std::byte* borrowed, ArenaLedger* ledger);
  ComputeCopy(const ComputeCopy&) = delete;

  // Loads the weights, from the masters or from a file. The caller ensures that nobody reads the
  // copy meanwhile.
  void update(Compute& compute, const WeightFloats& weights);
  // After update() with divided masters: what the other ranks have packed.
  void gather(const MasterCut& cut, const MasterRanks& ranks) { packed_.gather(cut, ranks); }
  // Takes the weights of a copy of the same model, whose masters may be divided.
  void update_from(Compute& compute, const ComputeCopy& other, const MasterFloats& masters,
                   PackedWeights::RowsOf rows);
  // What is in borrowed memory is there again; no effect on a copy that has its own.
  void bring(Compute& compute);
  // Called before the copy is published. number: the model's releases so far.
  void set_release(uint64_t version, uint64_t number) {
    version_.store(version, std::memory_order_release);
    release_.store(number, std::memory_order_release);
  }

  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Distinguishes contents even if a loaded checkpoint carries the version of other weights.
  uint64_t release() const { return release_.load(std::memory_order_acquire); }
  const PackedWeights& packed() const { return packed_; }
  // Readers that have pinned it.
  int64_t num_pins() const { return pins_.load(std::memory_order_acquire); }
  // Returns the memory of the packed matrices to the system until the next update().
  void drop_packed() { packed_.drop(); }
  const float* embedding() const { return vectors_.embedding; }  // rows of the rank's tokens
  const float* final_norm() const { return vectors_.final_norm; }
  const float* score() const { return vectors_.score; }
  const LayerVectors& layer(int64_t l) const { return vectors_.layers[static_cast<size_t>(l)]; }

  // Bytes of the arena if own_vectors is set.
  static uint64_t vector_bytes(const ModelConfig& config);
  static uint64_t borrowed_bytes(const ModelConfig& config, const PackedShapes& shapes);
  uint64_t arena_bytes() const { return packed_.memory().size() + own_.bytes() + in_host_.bytes(); }

 private:
  friend class WeightPin;
  void place(const ModelConfig& config, const WeightLayout& layout, const MasterFloats& masters,
             float* own);
  void update_vectors(Compute& compute, const WeightFloats& weights);
  PackedWeights packed_;
  Arena own_;      // of the vectors
  Arena in_host_;  // what borrowed memory gets
  std::byte* const borrowed_ = nullptr;
  WeightVectors vectors_;
  std::vector<FloatRun> moves_;  // from layout offsets to the own vectors, whole rows each
  std::atomic<uint64_t> version_{0}, release_{0};
  mutable std::atomic<int64_t> pins_{0};
};

// A reader's hold on the version that it computes with. Made by Model::pin(); may end on any
// thread.
class WeightPin {
 public:
  WeightPin(const WeightPin&) = delete;
  WeightPin& operator=(const WeightPin&) = delete;
  ~WeightPin() { weights_.pins_.fetch_sub(1, std::memory_order_release); }

  const ComputeCopy& weights() const { return weights_; }

 private:
  friend class Model;
  explicit WeightPin(const ComputeCopy& weights) : weights_(weights) {
    weights_.pins_.fetch_add(1, std::memory_order_relaxed);
  }

  const ComputeCopy& weights_;
};

}  // namespace rl

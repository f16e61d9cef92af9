// A loaded model: configuration, fp32 master weights, the packed compute forms of the current version and the
// rope tables. Shared by reference between engine and trainer; one forward reads it for both (design contract N2).
//
// Versions (synchronous mode): there is one compute copy. The trainer updates the masters in place and calls
// publish(), which repacks and adds one to version(); nobody may be reading meanwhile (the pipeline drains first).
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "core/arena.h"
#include "core/fs.h"
#include "model/kv_cache.h"
#include "model/save_hf.h"
#include "model/weight_source.h"
#include "model/weights.h"
#include "ops/matmul.h"
#include "ops/rope_kv.h"

namespace rl {

// Columns of a vocabulary tile: the head is packed in these slices and log-probs are summed over them, in order.
constexpr int64_t kVocabularyTile = 512;

// Packed shapes of one model in one compute dtype. forward: y = x W^T; backward: dx = dy W.
struct PackedShapes {
  PackedShape qkv, o, gate_up, down, head;
};
PackedShapes plan_forward_shapes(const ModelConfig& config, Dtype compute);
PackedShapes plan_backward_shapes(const ModelConfig& config, Dtype compute);
uint64_t packed_bytes(const PackedShapes& shapes, int64_t layers);

// The packed matrices of one direction. The gate_up forward slices hold gate columns first, then the same up columns.
class PackedWeights {
 public:
  enum class Direction { kForward, kBackward };
  PackedWeights(const ModelConfig& config, const WeightLayout& layout, Dtype compute, Direction direction);
  // Packs everything from the masters; called once per version.
  void pack(Matmul& matmul, const float* master);
  struct Layer {
    PackedMatrix qkv, o, gate_up, down;
  };
  const Layer& layer(int64_t l) const { return layers_[l]; }
  const PackedMatrix& head() const { return head_; }
  std::span<std::byte> memory() const { return arena_.span(); }
  // Gives the memory back to the system until the next pack().
  void drop() { arena_.decommit(); }

 private:
  void pack_forward(Matmul& matmul, const float* master);
  void pack_backward(Matmul& matmul, const float* master);
  const ModelConfig config_;
  const WeightLayout& layout_;
  Direction direction_;
  PackedShapes shapes_;
  Arena arena_;
  std::vector<Layer> layers_;
  PackedMatrix head_;
};

struct ModelOptions {
  int64_t max_positions = 0;     // rope table length; 0: the model's own maximum
  int64_t block_size = 32;       // tokens per KV block; part of the numerics, so engine and trainer share it
};

class Model {
 public:
  // Reads, packs and self-checks. matmul must outlive the model and have the same compute dtype.
  Model(const WeightSource& source, Matmul& matmul, const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  const WeightLayout& layout() const { return layout_; }
  Dtype compute_dtype() const { return matmul_.compute_dtype(); }
  int64_t block_size() const { return block_size_; }
  int64_t max_positions() const { return max_positions_; }
  KvShape kv_shape() const { return rl::kv_shape(config_, block_size_, compute_dtype()); }
  Matmul& matmul() const { return matmul_; }
  const RopeTable& rope(int64_t layer) const {
    return ropes_[config_.local_rope && config_.is_windowed(layer) ? 1 : 0];
  }
  const PackedWeights& packed() const { return packed_; }
  float* master() const { return master_.data() ? master_.at<float>(0) : nullptr; }

  // Any thread, at any time.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Repacks the masters and makes them version() + 1. Not while anything reads the model.
  void publish();
  // Repacks the masters of an optimizer step that another one follows; version() stays. Not while anything reads.
  void repack();
  // For resume: packs the masters as the given version.
  void publish_as(uint64_t version);
  // Gives the memory of the packed matrices back to the system; whoever computes next restores them
  // first. Not while anything computes.
  void drop_packed();
  // Packs the masters again, to the same bits; without effect when nothing was dropped.
  void restore_packed();
  // 64-bit digest of all master parameters (name order of the layout, padding excluded).
  uint64_t weight_digest() const;

  // Saves a Hugging Face directory (atomically, see save_hf.h).
  void save(FileSystem& fs, const std::string& dir, const SaveOptions& options) const;

  // Bytes of the arenas a Model will hold, from the configuration alone.
  static uint64_t master_bytes(const ModelConfig& config);
  static uint64_t packed_forward_bytes(const ModelConfig& config, Dtype compute);

 private:
  ModelConfig config_;
  WeightLayout layout_;
  Matmul& matmul_;
  int64_t block_size_, max_positions_;
  Arena master_;
  PackedWeights packed_;
  bool packed_dropped_ = false;
  std::vector<RopeTable> ropes_;  // of config_.rope, then of config_.local_rope
  std::atomic<uint64_t> version_{0};
};

}  // namespace rl

// A loaded model: configuration, fp32 master weights, the compute copies that forwards read, and
// the rope tables. Shared by reference between engine and trainer; one forward reads it for both
// (contract N2). A frozen one, which nobody trains or saves, has no masters.
//
// Versions. With one compute copy the trainer updates the masters in place and publish() repacks
// and adds one to version(); nobody may be reading meanwhile. With two the published copy is apart
// from the masters: repack() writes the other one, and release() makes it the published one by one
// store, at any time. Whoever computes takes published() once and keeps to it; repack() waits, by
// its caller's doing, until nobody computes with an older copy.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/fs.h"
#include "formats/hf/save_hf.h"
#include "formats/weight_source.h"
#include "model/compute_copy.h"
#include "model/kv_cache.h"
#include "ops/rope_kv.h"

namespace rl {

struct ModelOptions {
  int64_t max_positions = 0;           // rope table length; 0: the model's own maximum
  int64_t block_size = 32;             // tokens per KV block
  std::optional<Dtype> kv_dtype = {};  // of keys and values; none: the compute dtype
  int64_t compute_copies = 1;          // 1 or 2
  int64_t slice_width = 0;             // of packed matrices, see plan_forward_shapes(); for tests
  bool frozen = false;                 // no masters: it is never trained, saved or packed again
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
  int64_t block_size() const { return kv_format_.block_size; }
  int64_t max_positions() const { return max_positions_; }
  const KvFormat& kv_format() const { return kv_format_; }
  PackedShapes backward_shapes() const {
    return plan_backward_shapes(config_, compute_dtype(), slice_width_);
  }
  KvShape kv_shape() const { return rl::kv_shape(config_, compute_dtype(), kv_format_); }
  Matmul& matmul() const { return matmul_; }
  const RopeTable& rope(int64_t layer) const {
    return ropes_[config_.local_rope && config_.is_windowed(layer) ? 1 : 0];
  }
  bool frozen() const { return master_.data() == nullptr; }
  // What engines read. Any thread, at any time.
  const ComputeCopy& published() const { return *published_.load(std::memory_order_acquire); }
  // What was packed last. The same one, but for a repack() that is not released yet.
  const ComputeCopy& trained() const { return *trained_; }
  int64_t num_compute_copies() const { return static_cast<int64_t>(copies_.size()); }
  // Null of a frozen one.
  float* master() const { return master_.data() ? master_.at<float>(0) : nullptr; }

  // Any thread, at any time.
  uint64_t version() const { return published().version(); }
  // The version that the weights packed last have, or would have once released.
  uint64_t trained_version() const { return version() + (trained_ == &published() ? 0 : 1); }
  // repack() and release().
  void publish();
  // Packs the masters; version() stays. Not while anything computes: with one copy nothing may read
  // the model, with two nothing may hold a copy that was published before.
  void repack();
  // Makes what was packed last version() + 1, or the given version.
  void release() { release_as(version() + 1); }
  void release_as(uint64_t version);
  // For resume: packs the masters as the given version.
  void publish_as(uint64_t version);
  // Packings of the masters so far: what was made of them before is stale when it has grown.
  uint64_t num_packings() const { return num_packings_; }
  // The masters were changed and not packed since; whoever changes them says so.
  void move_masters() { masters_moved_ = true; }
  bool masters_moved() const { return masters_moved_; }
  // Gives the memory of the packed matrices back to the system; whoever computes next restores them
  // first. Not while anything computes.
  void drop_packed();
  // Packs the masters again, to the same bits; without effect when nothing was dropped.
  void restore_packed();
  // 64-bit digest of all master parameters (name order of the layout, padding excluded).
  uint64_t weight_digest() const;

  // Saves a Hugging Face directory (atomically, see save_hf.h).
  void save(FileSystem& fs, const std::string& dir, const SaveOptions& options) const;

  // Bytes of the arenas a Model will hold, from the configuration alone. A frozen one has the
  // vectors of ComputeCopy::vector_bytes in place of masters.
  static uint64_t master_bytes(const ModelConfig& config);
  static uint64_t packed_forward_bytes(const ModelConfig& config, Dtype compute);
  // Those of this one.
  uint64_t arena_bytes() const;

 private:
  void load_masters(const WeightSource& source);

  ModelConfig config_;
  WeightLayout layout_;
  Matmul& matmul_;
  const KvFormat kv_format_;
  int64_t max_positions_;
  const int64_t slice_width_;
  Arena master_;
  std::vector<std::unique_ptr<ComputeCopy>> copies_;
  bool packed_dropped_ = false;
  bool masters_moved_ = false;
  uint64_t num_packings_ = 1, num_releases_ = 0;
  std::vector<RopeTable> ropes_;  // of config_.rope, then of config_.local_rope
  ComputeCopy* trained_ = nullptr;
  std::atomic<const ComputeCopy*> published_{nullptr};
};

}  // namespace rl

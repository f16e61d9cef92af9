// A loaded model: configuration, fp32 masters, the compute copies that forwards read, and the RoPE
// tables. Shared by reference between engine and trainer; both use the same forward (contract N2).
// A frozen model, which is never trained or saved, has no masters.
//
// Versions. With one compute copy the trainer updates the masters in place and publish() repacks
// and increments version(); nobody may be reading meanwhile. With two, the published copy is
// separate from the masters: repack() writes the other copy, and release() publishes it with a
// single store, at any time. A reader pins the published version and keeps using it, also after a
// release(). What would change a pinned version is Error(kBusy), naming it.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/fs.h"
#include "core/function_ref.h"
#include "formats/hf/save_hf.h"
#include "formats/layer_stage.h"
#include "formats/weight_source.h"
#include "model/compute_copy.h"
#include "model/kv_pool.h"
#include "model/masters.h"
#include "model/ranks/master_ranks.h"
#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
#include "ops/compute.h"
#include "ops/device_floats.h"
#include "ops/rope_kv.h"

namespace rl {

struct ModelOptions {
  int64_t max_positions = 0;           // RoPE table length; 0: the model's own maximum
  int64_t block_size = 32;             // tokens per KV block
  std::optional<Dtype> kv_dtype = {};  // of keys and values; none: the compute dtype
  int64_t compute_copies = 1;          // 1 or 2
  int64_t slice_width = 0;             // of packed matrices, see plan_forward_shapes(); for tests
  bool frozen = false;                 // no masters: never trained or saved
  bool filled_later = false;           // frozen: has no weights before copy_masters() or fill()
  std::byte* borrowed = nullptr;       // frozen: Model::borrowed_bytes() shared with others
  TensorSplit split = {};              // what this rank has of the layers
  TensorRanks tensor = {};             // which have the rest; as many as split.ranks()
  StageCut cut = {};                   // of the layers into stages, of which this rank has one
  StageRanks stages = {};              // which have the others; as many as there are stages
  // Not 0: engines read all parts and stages (model/rollout_weights.h), which come in such buckets.
  uint64_t rollout_bucket_bytes = 0;
  // Which masters this rank has of the layers' matrices, with one compute copy; and which ranks
  // have the others.
  MasterCut masters = {};
  MasterRanks master_ranks = {};
};

class RolloutWeights;

class Model {
 public:
  // Reads and packs. compute must outlive the model.
  Model(const WeightSource& source, Compute& compute, const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  // Of all stages; config() of an undivided model.
  const ModelConfig& whole_config() const { return whole_config_; }
  const StageCut& stage_cut() const { return cut_; }
  const StageRanks& stage_ranks() const { return stages_; }
  const TensorRanks& tensor_ranks() const { return tensor_; }
  const WeightLayout& layout() const { return layout_; }
  Dtype compute_dtype() const { return compute_.dtype(); }
  int64_t block_size() const { return kv_format_.block_size; }
  int64_t max_positions() const { return max_positions_; }
  const KvFormat& kv_format() const { return kv_format_; }
  PackedShapes backward_shapes() const {
    return plan_backward_shapes(compute_.device(), config_, compute_dtype(), slice_width_);
  }
  KvShape kv_shape() const { return rl::kv_shape(config_, compute_dtype(), kv_format_); }
  // What packs the weights and computes with them.
  Compute& compute() const { return compute_; }
  const RopeTable& rope(int64_t layer) const {
    return ropes_[config_.local_rope && config_.layer(layer).window > 0 ? 1 : 0];
  }
  bool frozen() const { return master_.data() == nullptr; }
  // What engines read. Callable from any thread at any time.
  const ComputeCopy& published() const { return *published_.load(std::memory_order_acquire); }
  // The same, which does not change until the pin ends. kBusy while it is being packed.
  WeightPin pin() const;
  // What engines compute with: this model, or that of its rollout weights.
  const Model& rollout() const;
  // What was packed last. Differs from published() only between repack() and release().
  const ComputeCopy& trained() const { return *trained_; }
  int64_t num_compute_copies() const { return static_cast<int64_t>(copies_.size()); }
  // In memory of the device, all of the layout's; null if frozen. Not if ranks divide them.
  float* master() const { return held_masters().empty() ? nullptr : held_masters().at(0); }
  // The same, for the host to read and write; the model is not frozen.
  DeviceFloats masters() const { return held_masters().part(0, layout_.total()); }
  // Those that this rank has.
  MasterFloats held_masters() const;
  const MasterCut& master_cut() const { return master_cut_; }
  const MasterRanks& master_ranks() const { return master_ranks_; }
  // A matrix of a layer in fp32: its masters or, where another rank has them, what products read of
  // its packed form, unpacked into scratch.
  const float* rows(int64_t place, const PackedMatrix& packed, float* scratch) const;

  // Callable from any thread at any time.
  uint64_t version() const { return published().version(); }
  // The version of the weights packed last, or the one they get at release().
  uint64_t trained_version() const { return version() + (trained_ == &published() ? 0 : 1); }
  // repack() and release(). Ranks that divide a model, of which engines read all parts, release it
  // together.
  void publish();
  // Packs the masters; version() stays the same. Ranks that divide them call it together, and so
  // whatever calls it: publish(), publish_as(). kBusy if a reader has pinned the copy that is
  // written: with one copy the published one, with two the one published before it.
  // await: of masters that are still on their way; null: all are there.
  void repack(const MasterFloats::Await* await = nullptr);
  // Throws the error that repack() would throw now because of a pin.
  void require_repackable() const;
  // Publishes what was packed last, as version() + 1 or as the given version.
  void release() { release_as(version() + 1); }
  void release_as(uint64_t version);
  // For resume: packs the masters as the given version.
  void publish_as(uint64_t version);
  // How often the masters were packed: anything derived from an earlier packing is stale.
  uint64_t num_packings() const { return num_packings_; }
  // Marks the masters as changed since the last packing; called by whoever changes them, before.
  // kBusy if a reader has pinned a version that shares some of them: the published one, with one
  // copy.
  void mark_masters_changed();
  bool masters_changed() const { return masters_changed_; }
  // For a frozen model: takes the present weights of another one, or those of a file, of the same
  // shape. Masters that ranks divide are as they were packed last.
  void copy_masters(const Model& from);
  void fill(const WeightSource& source);
  // For one that was packed before: write() changes the bytes of its packed weights and vectors,
  // which are published as the given version.
  void replace_packed(uint64_t version, FunctionRef<void()> write);
  // With borrowed memory: the weights are there until others write to it. Before every forward.
  void bring_weights() const { trained_->bring(compute_); }
  // Returns the memory of the packed matrices to the system; restore_packed() must run before the
  // next computation. Nothing may compute meanwhile; kBusy if a reader has pinned one of them.
  void drop_packed();
  // Packs the masters again, to the same bits; no effect if nothing was dropped.
  void restore_packed();
  // 64-bit digest of all master parameters that this rank has (in the order of the layout, padding
  // excluded).
  uint64_t weight_digest() const;

  // Saves a Hugging Face directory (atomically, see save_hf.h). Ranks that divide a model or its
  // masters call it together, and the first of them writes it.
  void save(FileSystem& fs, const std::string& dir, const SaveOptions& options) const;

  // Bytes of the arenas a Model will hold, from device and configuration alone. A frozen model has
  // ComputeCopy::vector_bytes instead of masters.
  static uint64_t master_bytes(const ModelConfig& config, const MasterCut& cut = {});
  static uint64_t packed_forward_bytes(const Device& device, const ModelConfig& config,
                                       Dtype compute);
  // Of a frozen model's weights.
  static uint64_t borrowed_bytes(const Device& device, const ModelConfig& config, Dtype compute);
  // Bytes of this model's arenas, without its rollout weights.
  uint64_t arena_bytes() const;

 private:
  class Packing;
  void load_masters(const WeightSource& source);
  void pack_loaded(const WeightSource& source);
  void copy_packed(const Model& from);
  ComputeCopy& next_packed() const;
  void require_unpinned(const ComputeCopy& copy) const;

  const StageCut cut_;
  const StageRanks stages_;
  const TensorRanks tensor_;
  const ModelConfig whole_config_, config_;
  WeightLayout layout_;
  const MasterCut master_cut_;
  const MasterRanks master_ranks_;
  Compute& compute_;
  const KvFormat kv_format_;
  int64_t max_positions_;
  const int64_t slice_width_;
  Arena master_;
  std::vector<std::unique_ptr<ComputeCopy>> copies_;
  bool packed_dropped_ = false;
  bool masters_changed_ = false;
  uint64_t num_packings_ = 1, num_releases_ = 0;
  std::vector<RopeTable> ropes_;  // of config_.rope, then of config_.local_rope
  ComputeCopy* trained_ = nullptr;
  std::atomic<const ComputeCopy*> published_{nullptr};
  mutable std::mutex pin_mutex_;  // one pin or packing begins at a time
  const ComputeCopy* packing_ = nullptr;
  std::unique_ptr<RolloutWeights> rollout_;  // null: engines read this model
};

}  // namespace rl

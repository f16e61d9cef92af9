// A fixture model loaded for a test: executor, compute and model in one object, and a training
// batch with all its buffers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/fs.h"
#include "device/cpu/executors.h"
#include "formats/open/open_weight_source.h"
#include "model/head.h"
#include "model/transformer.h"
#include "support/device_memory.h"

namespace rl::testing {

// The threads and the device of a test's model.
struct TinyDevice {
  TinyDevice(std::unique_ptr<Executor> threads, const Device& computes = cpu_device())
      : executor(std::move(threads)), device(computes) {}
  std::unique_ptr<Executor> executor;
  const Device& device;
};

struct TinyModel {
  explicit TinyModel(const std::string& path, Dtype compute = Dtype::kF32, int threads = 1,
                     int64_t block_size = 16, int64_t compute_copies = 1)
      : TinyModel(path, make_thread_executor(threads), compute, block_size, compute_copies) {}
  TinyModel(const std::string& path, std::unique_ptr<Executor> given, Dtype compute = Dtype::kF32,
            int64_t block_size = 16, int64_t compute_copies = 1)
      : TinyModel(path, std::move(given), compute,
                  ModelOptions{.block_size = block_size, .compute_copies = compute_copies}) {}
  TinyModel(const std::string& path, TinyDevice given, Dtype dtype, const ModelOptions& options,
            ModelHead head = ModelHead::kLogits)
      : TinyModel(*open_weight_source(real_fs(), path, head), std::move(given), dtype, options) {}
  TinyModel(const WeightSource& source, TinyDevice given, Dtype dtype, const ModelOptions& options)
      : executor(std::move(given.executor)),
        compute(given.device.make_compute(*executor, dtype, &ledger)) {
    model = std::make_unique<Model>(source, *compute, options);
  }
  static std::string fixture(const std::string& name) {
    return std::string(RL_FIXTURES) + "/models/" + name;
  }

  std::unique_ptr<Executor> executor;
  ArenaLedger ledger;
  std::unique_ptr<Compute> compute;
  std::unique_ptr<Model> model;
};

// Whole sequences packed for a training forward, with every buffer a forward and backward need.
class TrainingBatch {
 public:
  TrainingBatch(const TinyModel& tiny, const std::vector<std::vector<int32_t>>& sequences)
      : tiny_(tiny) {
    const Model& model = *tiny.model;
    const int64_t block = model.block_size();
    int32_t next_block = 0;
    for (const auto& s : sequences) {
      std::vector<int32_t> blocks;
      for (size_t p = 0; p < s.size(); p += block) blocks.push_back(next_block++);
      blocks_.push_back(std::move(blocks));
    }
    for (size_t i = 0; i < sequences.size(); ++i) {
      slices_.push_back({static_cast<int32_t>(ids_.size()),
                         static_cast<int32_t>(sequences[i].size()), 0, blocks_[i].data()});
      ids_.insert(ids_.end(), sequences[i].begin(), sequences[i].end());
    }
    const KvShape kv = model.kv_shape();
    const int threads = tiny.compute->num_threads();
    const int64_t rows = static_cast<int64_t>(ids_.size());
    const ArenaPlace place = place_on(*tiny.compute);
    const auto reserve = [&](const char* name, uint64_t bytes) {
      return Arena(name, bytes, Touch::kNow, place);
    };
    kv_arena_ = reserve("test kv", next_block * kv.block_bytes());
    pool = {kv, kv_arena_.data(), next_block};
    forward_arena_ =
        reserve("test forward", ForwardBuffers::bytes(model.config(), kv, rows, threads));
    buffers =
        std::make_unique<ForwardBuffers>(model.config(), kv, rows, threads, forward_arena_.data());
    saved_arena_ =
        reserve("test saved", SavedActivations::bytes(model.config(), model.compute_dtype(), rows));
    saved = std::make_unique<SavedActivations>(model.config(), model.compute_dtype(), rows,
                                               saved_arena_.data());
    backward_arena_ =
        reserve("test backward", BackwardBuffers::bytes(model.config(), kv, rows, threads));
    scratch = std::make_unique<BackwardBuffers>(model.config(), kv, rows, threads,
                                                backward_arena_.data());
  }
  ForwardBatch batch() const { return {ids_, slices_}; }
  int64_t rows() const { return static_cast<int64_t>(ids_.size()); }
  const std::vector<SequenceRows>& slices() const { return slices_; }
  const std::vector<int32_t>& ids() const { return ids_; }

  KvPool pool;
  std::unique_ptr<ForwardBuffers> buffers;
  std::unique_ptr<SavedActivations> saved;
  std::unique_ptr<BackwardBuffers> scratch;

 private:
  const TinyModel& tiny_;
  std::vector<int32_t> ids_;
  std::vector<std::vector<int32_t>> blocks_;
  std::vector<SequenceRows> slices_;
  Arena kv_arena_, forward_arena_, saved_arena_, backward_arena_;
};

}  // namespace rl::testing

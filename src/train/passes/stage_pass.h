// The forwards and backwards of a minibatch on one stage of a model (ModelConfig::stage), one
// forward and one backward in turn (1F1B): stage s of S begins with S - 1 - s forwards, then each
// forward is followed by the backward of an earlier micro-batch, and at the end come the backwards
// that are left. So a stage computes while others do, and holds at most S - s micro-batches.
//
// Each gradient has the additions of one rank in their order: micro-batch after micro-batch. That
// of an embedding that is the head too needs more for it (train/passes/stage_buffers.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "train/passes/micro_batch_pass.h"

namespace rl {

class StagePass {
 public:
  using Loss = FunctionRef<HeadGradient(const HeadChunk& chunk)>;
  // All stages make it with the same micro-batches. The last one calls loss, as
  // MicroBatchPass::train() does; gradients in d_tempered are not for it.
  StagePass(MicroBatchPass& pass, const MicroBatchPass::Training& training,
            std::span<const MicroBatch> micros, Loss loss, const MicroBatchPass::Times& times);
  void run();

 private:
  int64_t in_flight() const { return stage_.stages - stage_.index; }
  SavedActivations& saved_of(int64_t micro);
  const KvPool& kv_of(int64_t micro) const;
  const MicroBatch& micro_of(int64_t micro) const { return micros_[static_cast<size_t>(micro)]; }
  // Of a ring that has a place for each stage.
  size_t slot_of(int64_t micro) const { return static_cast<size_t>(micro % stage_.stages); }

  void forward_of(int64_t micro);
  void backward_of(int64_t micro);
  void head_of(int64_t micro);
  void keep_head_input(int64_t micro);
  void send_embedding_gradient(int64_t micro);
  // Adds to the gradient of a copied embedding what the micro-batches before `end` give it.
  void settle_until(int64_t end);
  void add_head_gradient(int64_t micro);
  void add_embedding_gradient(int64_t micro);
  void finish();

  MicroBatchPass& pass_;
  TrainBuffers& workspace_;
  const MicroBatchPass::Training& training_;
  const Model& model_;
  const ModelConfig& config_;
  const LayerStage& stage_;
  const StageRanks& ranks_;
  std::span<const MicroBatch> micros_;
  Loss loss_;
  const MicroBatchPass::Times& times_;
  // Of each micro-batch, where the head's weights are a copy.
  struct HeadRowGradients {
    std::vector<float> logprob, entropy;
  };
  std::vector<HeadRowGradients> head_gradients_;
  int64_t settled_ = 0;
};

}  // namespace rl

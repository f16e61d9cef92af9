// A frozen model that the policy's head is compared with on whole rows of the vocabulary. It is
// forwarded once per training micro-batch and its hidden states are kept; then its own head
// computes the same rows chunk by chunk alongside the policy's head. No (rows, V) array of either
// model is ever larger than one chunk.
//
// Its rows depend only on a token's own prefix, as in every model here, so the loss does not
// depend on the split into micro-batches and chunks.
#pragma once
#include <span>

#include "train/options/trainer_options.h"
#include "train/passes/micro_batch_pass.h"

namespace rl {

class RowTeacher {
 public:
  // Bytes of its forwards, which the policy uses at other times, and of what is kept between
  // calls.
  static uint64_t forward_bytes(const TrainShape& shape, const StepOptions& options);
  static uint64_t kept_bytes(const TrainShape& shape, const StepOptions& options);

  struct Memory {
    std::byte* forward;  // both 64-byte aligned; any content is valid before forward()
    std::byte* kept;
  };
  // options: the policy trainer's. model, which has the vocabulary, block size and compute dtype
  // of the policy, and memory outlive the teacher. ranks: those that divide the policy.
  RowTeacher(const Model& model, const StepOptions& options, const Memory& memory,
             const PassContext& context, const TensorRanks& ranks = {});

  const Model& model() const { return model_; }
  // Computes the hidden states of every row of the micro-batch; valid until the next call.
  void forward(const MicroBatch& micro, int64_t& ns);
  // For each row of a chunk of that micro-batch, sets its value (algo/losses/distill.h). Returns
  // coefficient times weight times the derivative in the policy's tempered logits, (rows, V) or
  // those that this rank has, valid until the next call. A row of weight 0 has value 0 and no
  // derivative.
  const float* compare(const HeadChunk& chunk, const DistillOptions& options,
                       std::span<const double> weight, std::span<double> value);

 private:
  const Model& model_;
  const PassContext context_;
  ForwardBuffers forward_;
  KvPool kv_;
  std::byte* hidden_;  // (train_rows, C) compute dtype
  HeadBuffers head_;
  const TensorRanks ranks_;
  float* student_;  // (rows of a chunk, V) if ranks divide the policy
  std::vector<int32_t> rows_;
  std::vector<float> inv_temperature_;
};

}  // namespace rl

// A frozen model with a scalar head that scores whole samples: the value at the row of the last
// token, as in sequence classification. Forward only, in micro-batches by tokens; equal prompts of
// neighbours are computed once. A score does not depend on the split.
#pragma once
#include <span>

#include "data/sample.h"
#include "train/batch/micro_batch.h"
#include "train/options/step_options.h"
#include "train/passes/train_buffers.h"

namespace rl {

class RewardModel {
 public:
  // options.max_sequence is one more than the tokens of the longest sample, because the last token
  // is a row too.
  static uint64_t workspace_bytes(const TrainShape& shape, const StepOptions& options);

  // model, with a scalar head, and workspace (64-byte aligned) outlive it.
  RewardModel(const Model& model, const StepOptions& options, std::byte* workspace);

  // out[i] belongs to samples[i]. All samples are checked before anything runs; an error names the
  // sample's id, the field and the limit.
  void score(std::span<const Sample* const> samples, std::span<float> out);

 private:
  const Model& model_;
  const StepOptions options_;
  ScoringBuffers buffers_;
  MicroBatch micro_;
};

}  // namespace rl

// A frozen model that the policy learns from: log-probs of given tokens, by forwards without
// gradients. It has the policy's vocabulary but its own shape, and uses bytes that the policy's
// trainer uses at other times.
#pragma once
#include <span>
#include <vector>

#include "core/clock.h"
#include "train/batch/micro_batch.h"
#include "train/options/step_options.h"
#include "train/passes/phase_timer.h"
#include "train/passes/train_buffers.h"

namespace rl {

class Teacher {
 public:
  static uint64_t workspace_bytes(const TrainShape& shape, const StepOptions& options);

  // options: the policy trainer's; the teacher has the same forward budget. model and workspace
  // (64-byte aligned, nothing in it outlives a call) outlive the teacher.
  Teacher(const Model& model, const StepOptions& options, std::byte* workspace,
          const PassContext& context);

  // Throws an error naming the sample if the model cannot take it.
  void check(const Sample& sample) const;
  // Log-probs of all generated tokens of each sample, at its temperature, into out[i]. The samples
  // have passed check().
  void logprobs(std::span<const Sample* const> samples, std::span<const std::span<float>> out);

 private:
  void score(const MicroBatch& micro, std::span<const std::span<float>> out);

  const Model& model_;
  const StepOptions options_;
  const PassContext context_;
  ScoringBuffers buffers_;
  std::vector<int32_t> rows_, ids_;
  std::vector<float> inv_temperature_, logprobs_;
};

}  // namespace rl

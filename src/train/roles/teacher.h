// A frozen model that the policy learns from: its log-probs of given tokens, by forwards without
// gradients. It has the policy's vocabulary and a shape of its own, and works on bytes that the
// policy's trainer uses at other times.
#pragma once
#include <span>
#include <vector>

#include "core/clock.h"
#include "train/batch/micro_batch.h"
#include "train/options/step_options.h"
#include "train/passes/phase_timer.h"
#include "train/passes/train_workspace.h"

namespace rl {

class Teacher {
 public:
  static uint64_t workspace_bytes(const TrainShape& shape, const StepOptions& options);

  // options: those of the policy's trainer, whose forward budget this one has too. model and
  // workspace (64-byte aligned, nothing in it outlives a call) outlive the teacher.
  Teacher(const Model& model, const StepOptions& options, std::byte* workspace,
          const PhaseTimer::Place& place);

  // Error naming the sample that the model cannot take.
  void check(const Sample& sample) const;
  // Of all generated tokens of each sample, at its temperature, into out[i]. The samples have
  // passed check().
  void logprobs(std::span<const Sample* const> samples, std::span<const std::span<float>> out);

 private:
  void score(const MicroBatch& micro, std::span<const std::span<float>> out);

  const Model& model_;
  const StepOptions options_;
  const PhaseTimer::Place place_;
  ScoringBuffers buffers_;
  std::vector<int32_t> rows_;
  std::vector<float> inv_temperature_;
};

}  // namespace rl

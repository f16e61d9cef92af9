// Forwards of a model as a host asks for them: what they compute, and the working memory of a model
// that was opened for nothing else. A trainer computes the same outputs in its own memory.
#pragma once
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "core/arena.h"
#include "core/tensor.h"
#include "data/sample.h"
#include "model/model.h"
#include "pipeline/plan/plan.h"
#include "train/passes/forward_pass.h"

namespace rl {

// Numbers are part of the ABI.
enum class ForwardOutput : int32_t {
  kLogprobs = 1,
  kHidden = 2,
  kScores = 3,
  kEntropies = 4,
  kValues = 5,
  kLogits = 6
};
// Of tokens after the prompt, rather than of samples or rows.
inline bool is_per_token(ForwardOutput output) {
  return output == ForwardOutput::kLogprobs || output == ForwardOutput::kEntropies ||
         output == ForwardOutput::kValues;
}

struct ForwardRequest {
  ForwardOutput output = ForwardOutput::kLogprobs;
  std::span<const SamplePtr> samples = {};
  ForwardPass::Rows rows = {};  // of kHidden and kLogits
};
// The samples of a request, none of which is null (kInvalidArgument) or shorter than its prompt.
std::vector<const Sample*> inputs_of(const ForwardRequest& request);

// The output in memory of its own. Error(kFailedPrecondition) if the head of the model does not
// give it.
TensorPtr compute_output(ForwardPass pass, const Model& model, const ForwardRequest& request);
// Error(kFailedPrecondition) naming algo.objective, which decides the head of a model.
void require_output(const Model& model, ForwardOutput output);

class ModelForward {
 public:
  ModelForward(const Model& model, const Settings& settings, const MemoryPlan& plan);

  // Of one caller at a time, which has the ComputeLease.
  TensorPtr compute(const ForwardRequest& request) {
    return compute_output({model_, options_, buffers_}, model_, request);
  }

 private:
  const Model& model_;
  const StepOptions options_;
  Arena workspace_;
  ScoringBuffers buffers_;
};

}  // namespace rl

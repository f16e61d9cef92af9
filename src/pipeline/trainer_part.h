// The trainer as the host drives it: a step on scored samples, log-probs, publication, on arenas of
// its own. A step while requests run on the model is Error(kBusy).
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/arena.h"
#include "pipeline/loaded_model.h"
#include "profile/metrics.h"
#include "train/trainer.h"

namespace rl {

class TrainerPart {
 public:
  TrainerPart(std::shared_ptr<LoadedModel> model, const OptionSet& options);
  ~TrainerPart();
  TrainerPart(const TrainerPart&) = delete;

  // One training step over scored samples, publication included: when an optimizer step was
  // applied, the model's version is one higher. Samples of one ordinal are a group; the batch is
  // ordered by (ordinal, slot), whatever order they came in. Error(kFailedPrecondition) names a
  // sample that is not scored.
  MetricList step(std::span<const SamplePtr> samples);
  // The same with advantages of the host, one per sample in the order given.
  MetricList step_with_advantages(std::span<const SamplePtr> samples,
                                  std::span<const double> advantages);
  // Log-probs of ids[prompt_tokens..] under the current weights, at a temperature > 0.
  std::vector<float> logprobs(std::span<const int32_t> ids, int64_t prompt_tokens,
                              float temperature);
  // The version of the weights that engines read from now on. With one compute copy a step has
  // published it already; nothing is left to do.
  uint64_t publish();
  uint64_t optimizer_steps() const;
  LoadedModel& model() { return *model_; }

 private:
  struct Impl;
  std::shared_ptr<LoadedModel> model_;
  mutable std::mutex mutex_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl

// The trainer as the host drives it: a step on scored samples, log-probs, publication, on arenas of
// its own. A step while requests run on the model is Error(kBusy).
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/executor.h"
#include "core/tensor.h"
#include "pipeline/batch_preparation.h"
#include "pipeline/loaded_model.h"
#include "profile/metrics.h"
#include "train/trainer.h"

namespace rl {

class TrainerPart {
 public:
  TrainerPart(std::shared_ptr<LoadedModel> model, const OptionSet& options);
  ~TrainerPart();
  TrainerPart(const TrainerPart&) = delete;

  // One training step over scored samples. With one compute copy it publishes: when an optimizer
  // step was applied, the model's version is one higher. With two publish() does that. Samples of
  // one ordinal are a group; the batch is ordered by (ordinal, slot), whatever order they came in.
  // Error(kFailedPrecondition) names a sample that is not scored; given answers need no score.
  MetricList step(std::span<const SamplePtr> samples);
  // The same with advantages of the host, one per sample in the order given.
  MetricList step_with_advantages(std::span<const SamplePtr> samples,
                                  std::span<const double> advantages);
  // The host's own algorithms, for the steps that follow; null takes one away.
  void set_custom_advantage(CustomAdvantage advantage);
  void set_custom_loss(CustomLoss loss);
  // Log-probs of ids[prompt_tokens..] under the trained weights, at a temperature > 0.
  std::vector<float> logprobs(std::span<const int32_t> ids, int64_t prompt_tokens,
                              float temperature);
  // The value at the last token of each sample under the trained weights. Error(kFailedPrecondition)
  // unless algo.objective is reward_model.
  std::vector<float> scores(std::span<const SamplePtr> samples);
  // Writes the critic as LoadedModel::save writes the policy; Error(kFailedPrecondition) without one.
  void save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const;
  // Final hidden states of all ids under the trained weights: (tokens, hidden) of the compute dtype.
  TensorPtr hidden(std::span<const int32_t> ids);
  // The trained weights become those that engines read from their next step on, whatever runs;
  // returns their version. With one compute copy a step has done it already.
  uint64_t publish();
  // The version that the weights of the last step have or will be published as.
  uint64_t trained_version() const;
  uint64_t optimizer_steps() const;
  LoadedModel& model() { return *model_; }

 private:
  struct Impl;
  // Error unless the trained model gives scores, or log-probs.
  void require_scores(bool wanted, const char* what) const;
  MetricList train_prepared(FunctionRef<PreparedBatch()> prepare);
  TrainMetrics train_locked(std::span<const TrainSample> samples);
  std::shared_ptr<LoadedModel> model_;
  mutable std::mutex mutex_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl

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
#include "pipeline/session/loaded_model.h"
#include "pipeline/update/batch_preparation.h"
#include "profile/metrics.h"
#include "train/trainer.h"

namespace rl {

// The rewards of a sample, apart from it: a host may set new ones while a step reads the sample.
struct SampleRewards {
  bool scored = false;
  double reward = 0;
  std::vector<double> parts;
};
inline SampleRewards rewards_of(const Sample& s) { return {s.scored, s.reward, s.reward_parts}; }

// What a step measured, its number, and what came of it.
struct TrainedStep : MetricList {
  uint64_t step = 0;     // steps done, this one counted
  uint64_t version = 0;  // that the weights have, or will be published as
};

class TrainerPart {
 public:
  TrainerPart(std::shared_ptr<LoadedModel> model, const OptionSet& options);
  ~TrainerPart();
  TrainerPart(const TrainerPart&) = delete;

  // One training step over scored samples. With one compute copy it publishes: when an optimizer
  // step was applied, the model's version is one higher. With two publish() does that. Samples of
  // one ordinal are a group; the batch is ordered by (ordinal, slot), whatever order they came in.
  // Error(kFailedPrecondition) names a sample that is not scored; given answers need no score.
  // One that fails after an optimizer step leaves the model half-trained (loaded_model.h).
  // rewards: one per sample; the samples' own are not read.
  TrainedStep step(std::span<const SamplePtr> samples, std::span<const SampleRewards> rewards);
  TrainedStep step(std::span<const SamplePtr> samples);  // on their own rewards
  // The same with advantages of the host, one per sample in the order given.
  TrainedStep step_with_advantages(std::span<const SamplePtr> samples,
                                   std::span<const SampleRewards> rewards,
                                   std::span<const double> advantages);
  TrainedStep step_with_advantages(std::span<const SamplePtr> samples,
                                   std::span<const double> advantages);
  // The host's own algorithms, for the steps that follow; null takes one away.
  void set_custom_advantage(CustomAdvantage advantage);
  void set_custom_loss(CustomLoss loss);
  // Log-probs of ids[prompt_tokens..] under the trained weights, at a temperature > 0.
  std::vector<float> logprobs(std::span<const int32_t> ids, int64_t prompt_tokens,
                              float temperature);
  // The value at the last token of each sample under the trained weights.
  // Error(kFailedPrecondition) unless algo.objective is reward_model.
  std::vector<float> scores(std::span<const SamplePtr> samples);
  // Writes the critic as LoadedModel::save writes the policy; Error(kFailedPrecondition) without
  // one.
  void save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const;
  // Final hidden states of all ids under the trained weights: (tokens, hidden) of the compute
  // dtype.
  TensorPtr hidden(std::span<const int32_t> ids);
  // The trained weights become those that engines read from their next step on, whatever runs;
  // returns their version. With one compute copy a step has done it already. Those of a
  // half-trained model are packed first: kBusy while anything computes or engines have requests on
  // the copy.
  uint64_t publish();
  // The version that the weights of the last step have or will be published as.
  uint64_t trained_version() const;
  LoadedModel& model() { return *model_; }

 private:
  struct Impl;
  // Error unless the trained model gives scores, or log-probs.
  void require_scores(bool wanted, const char* what) const;
  TrainedStep train_prepared(FunctionRef<PreparedBatch()> prepare);
  TrainMetrics train_locked(std::span<const TrainSample> samples);
  std::shared_ptr<LoadedModel> model_;
  mutable std::mutex mutex_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl

// What stands between a scored batch and the trainer: log-probs of the reference where the reward
// pays for the KL, advantages, filtered samples, and the coefficient of the KL over time. The
// pipeline and the trainer of a host prepare alike, so a replayed batch gives the same weights. One
// owner; not thread-safe.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "options/options.h"
#include "pipeline/update/batch_advantages.h"
#include "pipeline/update/missing_logprobs.h"
#include "pipeline/update/teacher_role.h"
#include "profile/metrics.h"
#include "train/critic.h"
#include "train/trainer.h"

namespace rl {

// Samples and what a host said of them, in (ordinal, slot) order.
struct ScoredSamples {
  std::span<const SamplePtr> samples = {};
  std::span<const double> scores = {};
  std::span<const std::vector<double>> parts = {};  // kinds of reward of each; empty: none
};

struct PreparedBatch {
  std::vector<TrainSample> train;
  std::vector<CriticSample> critic;  // empty without one
  MetricList metrics;                // of scores, rewards, advantages, lengths and filters
  double penalty_kl = 0;
  int64_t reference_ns = 0;  // log-probs of the reference

  CompletedBatch completed;                // storage of train, and what it took
  std::vector<float> token_advantages;     // storage of train
  std::vector<std::vector<float>> values;  // storage of critic
  std::vector<float> returns;
};

class BatchPreparation {
 public:
  explicit BatchPreparation(const OptionSet& options);
  // The trainer takes the coefficient that the controller has reached.
  void set_options(const OptionSet& options, Trainer& trainer);

  struct Workers {
    Trainer& trainer;
    const Model* reference;  // null without a KL
    const Clock& clock;
    const CustomAdvantage* advantage = nullptr;  // the host's, where algo.advantage = custom
    Critic* critic = nullptr;                    // where algo.advantage = gae
    TeacherRole* teacher = nullptr;              // where algo.objective = distill
  };
  // With remax the sample of slot pipeline.samples_per_prompt is the
  // greedy answer of its group. It computes, on the trainer's workspace, when the reward pays for
  // the KL or log-probs are missing, and the values of a critic. Given answers have no scores and
  // stay as they are.
  PreparedBatch prepare(const ScoredSamples& all, const Workers& workers) const;
  // The same with advantages of the host, one per sample. Error(kFailedPrecondition) with gae: a
  // critic learns from returns. Error(kConflict) where algo.distill.rewards is false, and for every
  // option that was set to make advantages out of rewards.
  PreparedBatch prepare_given(std::span<const SamplePtr> samples, std::span<const double> scores,
                              std::span<const double> advantages, const Workers& workers) const;
  // After the step: completes what it measured; the adaptive controller moves the coefficient, and
  // the trainer takes it.
  void finish(const PreparedBatch& batch, TrainMetrics& measured, Trainer& trainer);

  const AdvantageOptions& options() const { return options_; }
  // Of the adaptive controller; a checkpoint holds it. Empty for a fixed one.
  std::optional<double> adaptive_coef() const;
  void restore_coef(double coef, Trainer& trainer);

 private:
  struct Split;
  std::optional<TeacherRole::Lesson> teach(std::span<const SamplePtr> samples,
                                           const Workers& workers, BatchAdvantages& a) const;
  PreparedBatch prepare_answers(std::span<const SamplePtr> samples) const;
  Split split_greedy(std::span<const SamplePtr> samples, std::span<const double> scores) const;
  void read(const OptionSet& options);
  void refuse_beside_given() const;
  void give_coef(Trainer& trainer) const;

  Objective objective_ = Objective::kRl;
  AdvantageOptions options_;
  KlControllerParams controller_;
  uint32_t greedy_slot_ = 0;
  bool kl_in_loss_ = false;
  double option_coef_ = 0, coef_ = 0;
  double distill_coef_ = 0;
  bool reads_rewards_ = true;
  std::map<std::string, std::string> beside_given_;  // what given advantages make inert, by key
};

}  // namespace rl

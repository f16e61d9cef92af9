// Turns a scored batch into trainer input: log-probs of the reference if the reward includes the
// KL, advantages, and filtered samples. The pipeline and a host's own trainer use the same
// preparation, so a replayed batch gives the same weights. One owner; not thread-safe.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/config/settings.gen.h"
#include "pipeline/update/batch_advantages.h"
#include "pipeline/update/kl_coefficient.h"
#include "pipeline/update/missing_logprobs.h"
#include "pipeline/update/teacher_role.h"
#include "profile/metrics.h"
#include "train/critic.h"
#include "train/trainer.h"

namespace rl {

// Samples and the rewards the host gave them, in (ordinal, slot) order.
struct ScoredSamples {
  std::span<const SamplePtr> samples = {};
  std::span<const double> scores = {};
  std::span<const std::vector<double>> parts = {};  // reward components of each; empty: none
  // Of each, empty or one for each token after its prompt; empty: none has any.
  std::span<const std::vector<double>> token_rewards = {};
};

// A batch and the rewards that its samples hold, as such lists.
struct ScoredLists {
  explicit ScoredLists(std::span<const SamplePtr> batch);
  ScoredSamples view() const { return {samples, scores, parts, token_rewards}; }

  std::span<const SamplePtr> samples;
  std::vector<double> scores;
  std::vector<std::vector<double>> parts, token_rewards;
};

struct PreparedBatch {
  std::vector<TrainSample> train;
  std::vector<CriticSample> critic;  // empty without one
  MetricList metrics;                // of scores, rewards, advantages, lengths and filters
  double penalty_kl = 0;
  int64_t reference_ns = 0;  // log-probs of the reference

  CompletedBatch completed;                // owns the samples of train; how many were completed
  std::vector<float> token_advantages;     // storage of train
  std::vector<std::vector<float>> values;  // storage of critic
  std::vector<float> returns;

  // Adds what the preparation did to the metrics of the step.
  void count(TrainMetrics& metrics) const;
};

class BatchPreparation {
 public:
  explicit BatchPreparation(const Settings& settings);
  void set_options(const Settings& settings);

  struct Workers {
    Trainer& trainer;
    const Model* reference;  // null without a KL
    const Clock& clock;
    const KlCoefficient& kl;
    const CustomAdvantage* advantage = nullptr;  // the host's, for algo.advantage = custom
    Critic* critic = nullptr;                    // for algo.advantage = gae
    TeacherRole* teacher = nullptr;              // for algo.objective = distill
  };
  // With remax the sample in slot pipeline.samples_per_prompt is the greedy response of its group.
  // Computes on the trainer's workspace if the reward includes the KL, if log-probs are missing,
  // or if there is a critic, whose values it needs. Given responses have no rewards and are passed
  // through.
  PreparedBatch prepare(const ScoredSamples& all, const Workers& workers) const;
  // The same with the host's advantages, one per sample. Error(kFailedPrecondition) with gae: a
  // critic learns from returns. Error(kConflict) if algo.distill.rewards is false, and for every
  // option that was set to derive advantages from rewards.
  PreparedBatch prepare_given(std::span<const SamplePtr> samples, std::span<const double> scores,
                              std::span<const double> advantages, const Workers& workers) const;

  const AdvantageOptions& options() const { return options_; }

 private:
  struct Split;
  std::optional<TeacherRole::Measured> apply_teacher(std::span<const SamplePtr> samples,
                                                     const Workers& workers,
                                                     BatchAdvantages& a) const;
  PreparedBatch prepare_responses(std::span<const SamplePtr> samples) const;
  Split split_greedy(std::span<const SamplePtr> samples, const ScoredSamples& all) const;
  void refuse_beside_given() const;

  Objective objective_ = Objective::kRl;
  AdvantageOptions options_;
  uint32_t greedy_slot_ = 0;
  double distill_coef_ = 0;
  bool reads_rewards_ = true;
  // Options that given advantages make ineffective, by key.
  std::map<std::string, std::string> beside_given_;
};

}  // namespace rl

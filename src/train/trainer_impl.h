// Private state of a Trainer: everything that outlives a step, and the state of the current step.
// trainer.cc holds the interface, training_step.cc the step, reward_step.cc its part for a reward
// model, gradient_step.cc a step in two halves.
#pragma once
#include <span>
#include <vector>

#include "train/batch/sample_check.h"
#include "train/losses/minibatch_tokens.h"
#include "train/losses/reward_pairs.h"
#include "train/losses/token_terms.h"
#include "train/optimizer/learner.h"
#include "train/passes/micro_batch_pass.h"
#include "train/passes/pass_rules.h"
#include "train/passes/row_teacher.h"
#include "train/ranks/rank_cut.h"
#include "train/trainer.h"

namespace rl {

// Sums over the minibatches of a step, and the means they become.
struct StepSums {
  TokenSums tokens;
  PreferenceSums preference;
  CorrectionReport corrections;
  ProbabilityPairs probabilities;
  int64_t finite_losses = 0, finite_norms = 0;
  double grad_norm = 0;

  void finish(TrainMetrics& metrics) const;
};

// How far a step has come.
struct StepProgress {
  TrainMetrics metrics;
  int64_t start_ns = 0;
  std::vector<std::span<const PackItem>> minibatches;  // of all epochs, in order
  size_t next_minibatch = 0;
  // The minibatch in progress.
  bool open = false;
  bool fresh = false;  // the step's first with loss, on published weights: log-probs are compared
  MicroBatchPlan micro_batches;
  size_t next_micro_batch = 0;
  // begin_gradients: the update waits for apply.
  bool holds = false;
  bool applied = false;  // it came
  LossDenominators whole;
};

struct Trainer::Impl {
  Impl(Model& model, const Model* reference, const TrainerOptions& options, std::byte* workspace,
       const TrainerTools& tools);

  TrainMetrics train(std::span<const TrainSample> samples);
  void begin(std::span<const TrainSample> samples);
  bool next();
  void begin_gradients(std::span<const TrainSample> samples, const LossDenominators& whole);
  void apply();
  TrainMetrics finish();
  bool is_last_micro_batch() const {
    return progress.next_micro_batch == progress.micro_batches.size();
  }
  bool has_steps_left() const;
  bool abandon();
  // One of several stages of a model (stage_step.cc): all micro-batches of the open minibatch.
  void train_on_stage();
  void share_logprobs(std::span<const std::span<float>> out) const;
  void share_metrics(TrainMetrics& metrics);
  void logprobs(const Model& which, std::span<const Sample* const> samples,
                std::span<const std::span<float>> out);
  // The same of samples that all ranks have; each computes a part of them.
  void batch_logprobs(const Model& which, std::span<const Sample* const> samples,
                      std::span<const std::span<float>> out);
  uint64_t publish(int64_t& ns);

  // With several ranks (training_ranks.cc).
  uint64_t digest_of(std::span<const TrainSample> samples) const;
  RankCut rank_cut() const;
  // What this rank trains on, perhaps with others, and what it alone computes in forwards.
  std::vector<PackItem> own_part(std::span<const PackItem> items) const;
  std::vector<PackItem> own_forwards(std::span<const PackItem> items) const;
  void join_minibatch();
  void join_metrics(TrainMetrics& metrics);

  void check_step(std::span<const TrainSample> samples) const;
  void prepare_step(std::span<const TrainSample> samples);
  bool run_next();
  TrainMetrics finish_step();
  void require_custom_loss() const;
  void require_row_teacher() const;
  void check(std::span<const TrainSample> samples) const;
  void require_logprobs(std::span<const TrainSample> samples) const;
  [[noreturn]] void refuse_logprob(const Sample& sample, int64_t generated, float computed) const;
  ForwardOf forward_of(const Model& which) const {
    return &which == reference ? ForwardOf::kReference : ForwardOf::kOwn;
  }
  void plan_steps();
  void score_reference(TrainMetrics& metrics);
  void score_proximal(TrainMetrics& metrics);
  void score_current(std::span<const PackItem> items, TrainMetrics& metrics);
  bool sampled_by_these_weights(const PackItem& item) const;
  bool minibatch(std::span<const PackItem> items, TrainMetrics& metrics);

  // For a reward model (reward_step.cc).
  bool scores() const { return options.objective == Objective::kRewardModel; }
  bool reward_minibatch(std::span<const PackItem> items, TrainMetrics& metrics);
  void reward_minibatch_loss();
  void reward_micro_batch(TrainMetrics& metrics);
  void score_values(std::span<const PackItem> items,
                    FunctionRef<void(int32_t item, float value)> visit);

  MinibatchTokens::Source source_of(const PackItem& item) const;
  int64_t gather(std::span<const PackItem> items, TrainMetrics& metrics);
  void minibatch_loss();
  void count(const MicroBatch& batch, std::span<const PackItem> items, TrainMetrics& metrics) const;
  void prepare(TrainMetrics& metrics);  // packs what is stale, zeroes the gradients
  void micro_batch(bool fresh, TrainMetrics& metrics);
  HeadGradient chunk_loss(const HeadChunk& chunk);
  const float* compare_rows(const HeadChunk& chunk);  // with the teacher's
  void compare_logprobs(const HeadChunk& chunk, TrainMetrics& metrics);
  // Whether the loss of the minibatch is finite; if so, it is part of the metrics.
  bool count_loss();
  void optimize(TrainMetrics& metrics);
  void update_weights(bool finite_loss, TrainMetrics& metrics);
  // What begin_gradients requires (gradient_step.cc).
  void check_all_gradients() const;
  void check_one_update(int64_t samples) const;
  void check_divisible(const LossDenominators& whole) const;
  void hold_gradients();
  void name_non_finite(TrainMetrics& metrics);

  Model& model;
  const Model* reference;
  TrainerOptions options;
  CustomLoss custom_loss;  // empty: the host set none
  RowTeacher* teacher = nullptr;
  const PassContext context;
  const DataRanks ranks;
  const ContextRanks context_ranks;
  const StageRanks stages;  // of the model
  TrainBuffers workspace;
  Learner learner;
  MicroBatchPass pass;

  // State of the current step, indexed by sample in training order.
  std::vector<const TrainSample*> ordered;
  std::vector<PackItem> items;
  std::vector<std::vector<float>> own_reference;
  std::vector<std::span<const float>> reference_logprobs;
  std::vector<std::vector<float>> proximal_logprobs;  // empty: the stored ones
  MinibatchTokens minibatch_tokens;
  MicroBatch micro;
  TokenTerms terms;
  std::vector<double> distill_weight, distill_value;  // of the rows of a chunk
  RewardPairs pairs;
  std::vector<float> d_value;
  TokenSums minibatch_sums;
  PreferenceSums minibatch_preference;
  std::vector<int32_t> non_finite;
  StepSums sums;
  StepProgress progress;
  int64_t planned_steps = 0;
};

}  // namespace rl

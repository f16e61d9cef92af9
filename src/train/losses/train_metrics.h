// The metrics of one training step. Means over tokens are sums over all micro-batches divided by
// one count, so they do not depend on the split into micro-batches.
#pragma once
#include <cstdint>
#include <vector>

#include "algo/losses/correction.h"
#include "algo/losses/objective.h"
#include "core/function_ref.h"
#include "train/losses/pair_losses.h"

namespace rl {

// What algo.correction.* did, as global sums over the minibatches of a step.
struct CorrectionReport {
  MismatchSums mismatch;
  CorrectionSums weights;    // before batch_normalize
  RejectionSums rejections;  // of algo.correction.rs
  RejectionSums veto, opsm;

  void add(const CorrectionReport& other);
};

// Probabilities of the same tokens, as stored by the sampler and as computed by the trainer.
struct ProbabilityPairs {
  int64_t count = 0;
  double stored = 0, found = 0;  // sums
  double stored_squares = 0, found_squares = 0, products = 0;
  double difference = 0, difference_squares = 0, difference_max = 0;  // of |stored - found|

  // A pair that is not finite is not counted.
  void add(float stored_logprob, float found_logprob);
  void add(const ProbabilityPairs& other);
  double difference_std() const;  // ddof 1
  double pearson() const;         // 1 if one of them does not vary
};

struct TrainMetrics {
  Objective objective = Objective::kRl;  // decides which of these are reported
  // Mean over the minibatches with finite values.
  double loss = 0;       // all terms
  double pg_loss = 0;    // policy term
  double grad_norm = 0;  // before clipping
  double lr = 0;         // of the last optimizer step, 0 when there was none

  // Means over loss tokens, every epoch counted.
  double entropy = 0;        // nats
  double clip_fraction = 0;  // tokens where the clipped term was used
  double dual_clip_fraction = 0;
  double ppo_kl = 0;  // between old and new policy, estimator k1
  double ppo_kl_k3 = 0;
  double ratio_max = 0;     // largest importance ratio
  double kl = 0;            // to the reference, algo.kl.estimator; 0 without kl_in_loss
  double kl_loss = 0;       // kl times its coefficient
  double distill_kl = 0;    // divergence of whole rows from the teacher's, algo.distill.kl
  double distill_loss = 0;  // the same with weights and coefficient, mean over minibatches
  bool has_row_teacher = false;

  // Contract N2, measured in the first minibatch on tokens that the model's version sampled.
  double logprob_max_abs_diff = 0;
  int64_t logprob_compared_tokens = 0;
  ProbabilityPairs probabilities;  // of the first minibatch

  PreferenceSums preference;  // over the minibatches with finite values

  CorrectionReport corrections;
  bool has_corrections = false;  // algo.correction.* is in use

  int64_t samples = 0;        // passed to the step
  int64_t tokens = 0;         // of the sequences trained on, every epoch counted
  int64_t loss_tokens = 0;    // of these, tokens that carry loss
  int64_t computed_rows = 0;  // computed forward and backward: a shared prompt counts once
  int64_t minibatches = 0;    // with at least one loss token
  int64_t micro_batches = 0;
  int64_t optimizer_steps = 0;               // applied
  int64_t skipped_steps = 0;                 // loss or gradient norm was not finite
  std::vector<uint64_t> non_finite_samples;  // Sample::id of samples whose own loss was not finite

  int64_t prepare_ns = 0, forward_ns = 0, head_ns = 0, backward_ns = 0, optimizer_ns = 0,
          publish_ns = 0;
  int64_t reference_ns = 0;  // log-probs of the reference
  int64_t teacher_ns = 0;    // forwards of a teacher of whole rows; its head is part of head_ns
  // Log-probs of the policy at the step's start, where the stored ones do not match it.
  int64_t proximal_ns = 0;
  // Log-probs of the current policy, before the gradients of a minibatch loss.
  int64_t current_ns = 0;
  int64_t proximal_samples = 0;
  int64_t samples_without_logprobs = 0;  // of these, samples that came without log-probs
  // Forward rows saved because stored log-probs serve as proximal ones.
  int64_t rows_not_scored = 0;
  int64_t total_ns = 0;
};

// Calls visit with every metric's public name and value, in a fixed order: actor/loss,
// actor/pg_loss, ...
void for_each_metric(const TrainMetrics& metrics,
                     FunctionRef<void(const char* name, double value)> visit);

}  // namespace rl

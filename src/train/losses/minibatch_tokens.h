// What the loss of an optimizer step needs before its first micro-batch runs, as flat arrays over
// all generated tokens of a minibatch: which tokens carry loss, with what weight and correction,
// and, for losses over more than one token, their gradients.
//
// Every count, mean and selection here is over the whole minibatch, so nothing depends on the
// split into micro-batches. A masked token has mask 0 and weight 0: it is never read.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "algo/algo_arrays.h"
#include "data/sample.h"
#include "train/losses/pair_losses.h"
#include "train/losses/train_metrics.h"
#include "train/options/trainer_options.h"

namespace rl {

// True if the loss of a token depends on other tokens: it is computed for the whole minibatch at
// once.
bool is_minibatch_loss(const TrainerOptions& options);
// True if losses or masks need current log-probs before the first micro-batch runs.
bool needs_current_logprobs(const TrainerOptions& options);

class MinibatchTokens {
 public:
  struct Source {
    const Sample* sample;
    double advantage;                          // of every token
    std::span<const float> token_advantages;   // or one per token
    std::span<const float> old_logprobs;       // what the ratio is taken against; empty: no ratio
    bool carries_loss;                         // false: all of it is masked
    std::span<const float> ref_logprobs = {};  // read by dpo
  };

  // Clears everything; items are numbered from first_item on.
  void begin(int32_t first_item);
  void add(const Source& source);
  // Current log-probs of an item, to be filled if needs_current_logprobs().
  std::span<float> current(int32_t item);

  // Mismatch weights, then rejections, which remove tokens from the mask.
  CorrectionReport correct(const CorrectionOptions& options);
  // Computes denominators from the mask (before rejections if correct() was asked to count
  // rejected tokens), and from them the weight of each token. Returns the number of tokens that
  // carry loss.
  int64_t set_weights(LossAgg agg, double scale_factor) {
    return set_weights(agg, scale_factor, {});
  }
  // The same for a part of a batch: counts above 0 are those of the whole.
  int64_t set_weights(LossAgg agg, double scale_factor, const LossDenominators& whole);
  // Given weights, one for each token in place of these.
  int64_t use_weights(std::span<const double> weights);
  // The loss and gradients of a minibatch loss; random numbers are keyed by optimizer_step.
  PolicyLossSums compute(const TrainerOptions& options, int64_t optimizer_step);
  // The same with a loss function of the host.
  PolicyLossSums compute(const CustomLoss& loss);
  // Result of the last compute() with dpo.
  const PreferenceSums& preference() const { return preference_; }
  // Items whose own part of that loss is not finite; for a host's loss, those whose gradients are
  // not finite, or all.
  void find_non_finite(const TrainerOptions& options, std::vector<int32_t>& items) const;

  // One token of the minibatch.
  size_t index(int32_t item, int32_t generated) const {
    return offsets_[static_cast<size_t>(item - first_item_)] + static_cast<size_t>(generated);
  }
  float old_logprob(size_t i) const { return old_[i]; }
  float advantage(size_t i) const { return advantage_[i]; }
  double weight(size_t i) const { return weight_[i]; }
  double correction(size_t i) const { return correction_.empty() ? 1 : correction_[i]; }
  double gradient(size_t i) const { return gradient_[i]; }
  std::span<const double> weights() const { return weight_; }
  std::span<const double> gradients() const { return gradient_; }

 private:
  AlgoArrays arrays();
  void find_non_finite_gradients(std::vector<int32_t>& items) const;
  PolicyLossInput input(size_t first, size_t count, std::span<const int32_t> lengths) const;
  PairTokens pairs() const;
  PolicyLossSums compute_pairs(const DpoParams& params);
  void select(const TrainerOptions& options, int64_t optimizer_step);
  void select_clip_cov(const TrainerOptions& options, int64_t optimizer_step,
                       std::span<const size_t> tokens, std::span<const double> covariance);
  void reject_off_policy(double delta, CorrectionReport& report);

  int32_t first_item_ = 0;
  std::vector<const Sample*> samples_;
  std::vector<double> sample_advantages_;  // mean over its loss tokens
  std::vector<size_t> offsets_;            // one more than items
  std::vector<int32_t> lengths_;           // generated tokens
  std::vector<uint64_t> ordinals_, ids_;   // of samples, as a host's loss sees them
  std::vector<float> rollout_, old_, current_, reference_, advantage_;
  std::vector<uint8_t> mask_, keep_, selected_;
  std::vector<uint8_t> counted_;  // tokens in the denominators; empty: mask_
  std::vector<double> weight_, gradient_;
  std::vector<double> correction_;  // empty: all 1
  PreferenceSums preference_;
};

}  // namespace rl

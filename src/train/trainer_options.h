// Settings of the trainer, and the memory they ask for. Sizes are a pure function of the model's
// configuration, the shape of its KV, these settings and the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "algo/adamw.h"
#include "algo/correction.h"
#include "algo/covariance.h"
#include "algo/kl.h"
#include "algo/loss_agg.h"
#include "algo/policy_loss.h"
#include "algo/schedule.h"
#include "core/arena.h"
#include "core/dtype.h"
#include "model/model_config.h"
#include "train/batch_rules.h"

namespace rl {

// algo.correction.*. l compares the sampler's log-probs with the proximal ones when decoupled, with
// the current ones otherwise.
struct CorrectionOptions {
  CorrectionParams weights;
  bool batch_normalize = false;
  std::vector<Rejection> rejections;
  double opsm_delta = 0;   // 0: off
  bool decoupled = false;  // ratios are against the policy as it was when the step began

  bool reads_mismatch() const {
    return weights.level != CorrectionLevel::kNone || !rejections.empty();
  }
  bool active() const { return reads_mismatch() || opsm_delta > 0 || decoupled; }
};

struct TrainerOptions {
  int64_t max_tokens = 1024;  // trainer.max_tokens_per_device: rows of one micro-batch, >= 1
  int64_t max_sequence = 0;   // tokens of the longest sample; 0: max_tokens + 1, the most that fits
  int64_t logprob_chunk_tokens =
      256;  // trainer.logprob_chunk_tokens: head rows at a time; 0: a micro-batch at once
  int64_t epochs = 1;  // trainer.epochs over the samples of one step
  BatchRules batch;

  PolicyLossParams policy_loss;
  ClipCovParams clip_cov;  // its ratio is kl_cov's as well
  uint64_t seed = 0;       // runtime.seed: of the draws of clip_cov
  CorrectionOptions correction;
  LossAgg loss_agg = LossAgg::kTokenMean;
  double loss_scale_factor = 0;  // read by seq_mean_token_sum_norm only
  double entropy_coef = 0;       // algo.entropy_coef: the loss is less this times the mean entropy
  bool kl_in_loss = false;       // algo.kl.where = loss
  KlEstimator kl_estimator;      // algo.kl.estimator
  double kl_coef = 0;            // algo.kl.coef; 0 with kl_in_loss only measures

  AdamwParams adamw;
  Schedule schedule;       // schedule.*, with optimizer.lr as its rate
  double grad_clip = 1.0;  // optimizer.grad_clip; 0: off

  int64_t longest_sample() const { return max_sequence != 0 ? max_sequence : max_tokens + 1; }
  // Rows of the longest sequence that is trained on.
  int64_t longest_rows() const;
  // Rows of a training and of a forward-only micro-batch at most, with padding.
  int64_t train_rows() const;
  int64_t logprob_budget() const;
  int64_t logprob_rows() const;
  int64_t chunk_rows() const {
    return logprob_chunk_tokens != 0 ? std::min(logprob_chunk_tokens, train_rows()) : train_rows();
  }
};

// Throws Error(kOutOfRange) naming the option, its range and the value.
void validate(const TrainerOptions& options);

struct TrainerSizes {
  uint64_t gradients = 0;        // arena "gradients"
  uint64_t optimizer = 0;        // arena "optimizer states"
  uint64_t packed_backward = 0;  // arena "packed weights, backward"
  uint64_t workspace = 0;  // the caller's bytes; nothing in them outlives a call of the trainer
  std::vector<ArenaPlan::Piece> workspace_pieces;
  uint64_t persistent() const { return gradients + optimizer + packed_backward; }
};

}  // namespace rl

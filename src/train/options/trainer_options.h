// Settings of the trainer, and the memory they need. Sizes are a pure function of the model's
// configuration, the shape of its KV, these settings and the number of threads.
#pragma once
#include <cstdint>
#include <vector>

#include "algo/losses/correction.h"
#include "algo/losses/covariance.h"
#include "algo/losses/distill.h"
#include "algo/losses/kl.h"
#include "algo/losses/objective.h"
#include "algo/losses/policy_loss.h"
#include "algo/losses/preference.h"
#include "core/arena.h"
#include "core/dtype.h"
#include "formats/model_config.h"
#include "train/options/step_options.h"

namespace rl {

// algo.correction.*. The log ratio l compares the sampler's log-probs with the proximal ones when
// decoupled, else with the current ones.
struct CorrectionOptions {
  CorrectionParams weights;
  bool batch_normalize = false;
  std::vector<Rejection> rejections;
  double veto = 0;               // 0: off
  double opsm_delta = 0;         // 0: off
  bool counts_rejected = false;  // rejected tokens stay in the denominators
  bool decoupled = false;        // ratios are against the policy at the beginning of the step

  bool reads_mismatch() const {
    return weights.level != CorrectionLevel::kNone || !rejections.empty() || veto > 0;
  }
  bool active() const { return reads_mismatch() || opsm_delta > 0 || decoupled; }
};

// algo.distill.*, where algo.distill.kl is a divergence of whole rows: coef times its mean is
// added to the loss.
struct DistillOptions {
  bool on_rows = false;
  DistillParams params;
  double coef = 0;
};

struct TrainerOptions : StepOptions {
  Objective objective = Objective::kRl;  // others read neither policy_loss nor correction
  DpoParams dpo;
  PolicyLossParams policy_loss;
  ClipCovParams clip_cov;  // its ratio also applies to kl_cov
  uint64_t seed = 0;       // runtime.seed: random numbers of clip_cov
  CorrectionOptions correction;
  // algo.entropy_coef: this times the mean entropy is subtracted from the loss.
  double entropy_coef = 0;
  bool kl_in_loss = false;   // algo.kl.where = loss
  KlEstimator kl_estimator;  // algo.kl.estimator
  KlBounds kl_bounds;        // algo.kl.value_clamp, ratio, ratio_cap
  double kl_coef = 0;        // algo.kl.coef; 0 with kl_in_loss only measures
  DistillOptions distill;
  // trainer.check_logprobs: a stored log-prob of the current weights that differs from this
  // forward's is an error instead of a metric.
  bool check_logprobs = false;

  bool needs_reference() const { return kl_in_loss || objective == Objective::kDpo; }
};

// Throws Error(kOutOfRange) naming the option, its range and the value.
void validate(const TrainerOptions& options);

struct TrainerSizes {
  uint64_t gradients = 0;            // arena "gradients"
  uint64_t gradient_scratch = 0;     // arena "gradient scratch"
  uint64_t optimizer = 0;            // arena "optimizer states"
  uint64_t optimizer_host = 0;       // arena "optimizer states, host"
  uint64_t optimizer_staging = 0;    // arena "optimizer staging, host"
  uint64_t optimizer_workspace = 0;  // arena "optimizer workspace"
  uint64_t averages = 0;             // arena "averaged weights"
  uint64_t whole_states = 0;         // of the states and averages of all ranks
  uint64_t trained_masters = 0;      // what a checkpoint has of the master weights
  uint64_t packed_backward = 0;      // arena "packed weights, backward"
  uint64_t workspace = 0;  // the caller's bytes; nothing in them outlives a call of the trainer
  std::vector<ArenaPlan::Region> workspace_regions;
  uint64_t host_workspace = 0;  // the same in host memory: activations that do not stay
  uint64_t persistent() const {
    return gradients + gradient_scratch + optimizer + optimizer_host + optimizer_staging +
           optimizer_workspace + averages + packed_backward;
  }
};

// Bytes that a checkpoint has of a model: its trained masters; moments and averages of all ranks.
struct StoredBytes {
  uint64_t masters = 0, states = 0;
};

}  // namespace rl

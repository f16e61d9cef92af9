// The critic of PPO: a model with a scalar head that learns the returns of a batch, with its own
// optimizer, budgets and workspace views. The bytes of the workspace may be the trainer's, as the
// two never run at the same time. The value of a generated token is the value of the state before
// it, taken from the row that predicts it.
//
// A step splits its samples into minibatches as the trainer does, and into micro-batches by its
// own budgets. The loss of a minibatch is agg(max((v - R)^2, (clip(v) - R)^2) / 2),
// algo/losses/value_loss.h, with denominators over the whole minibatch, so it does not depend on
// the split into micro-batches. A loss or gradient that is not finite skips the optimizer step, as
// in the trainer. Data-parallel ranks divide its work as they do the trainer's.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "algo/losses/value_loss.h"
#include "core/function_ref.h"
#include "data/sample.h"
#include "train/optimizer/learner.h"
#include "train/passes/micro_batch_pass.h"
#include "train/ranks/rank_cut.h"
#include "train/trainer.h"

namespace rl {

inline constexpr SizeKeys kCriticKeys = {"critic.max_tokens_per_device",
                                         "critic.forward_max_tokens_per_device",
                                         "critic.micro_batch_size"};

struct CriticOptions : StepOptions {
  CriticOptions() { keys = kCriticKeys; }
  double value_clip = 0.5;  // algo.value_clip; 0: off
};

// Throws Error(kOutOfRange) naming the option, its range and the value.
void validate(const CriticOptions& options);

// Loss is taken over the generated tokens whose loss_mask is 1.
struct CriticSample {
  const Sample* sample = nullptr;
  std::span<const float> old_values;  // by the critic before the step, one per generated token
  std::span<const float> returns;     // one per generated token
  bool carries_loss = true;           // false: all of it is masked
};

struct CriticMetrics {
  // Mean over the minibatches with finite values.
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;         // of the last optimizer step, 0 when there was none
  // Means over loss tokens, every epoch counted.
  double value = 0;
  double clip_fraction = 0;  // tokens where the clipped term was used

  int64_t loss_tokens = 0;
  int64_t minibatches = 0, micro_batches = 0;
  int64_t optimizer_steps = 0, skipped_steps = 0;
  std::vector<uint64_t> non_finite_samples;  // Sample::id of samples whose own loss was not finite
  int64_t forward_ns = 0, head_ns = 0, backward_ns = 0, optimizer_ns = 0, total_ns = 0;
};

// Calls visit with every metric's public name and value, in a fixed order: critic/vf_loss, ...
void for_each_metric(const CriticMetrics& metrics,
                     FunctionRef<void(const char* name, double value)> visit);

class Critic {
 public:
  static TrainerSizes plan(const ModelConfig& config, const KvShape& kv,
                           const CriticOptions& options, int num_threads,
                           const Device& device = cpu_device());

  // Reserves gradients, moments (zero) and the backward packed weights. model, of a scalar head,
  // workspace (at least plan(...).workspace bytes, 64-byte aligned) and tools outlive the critic.
  Critic(Model& model, const CriticOptions& options, std::byte* workspace,
         const TrainerTools& tools = {});
  Critic(const Critic&) = delete;

  // Between steps (Learner::sleep).
  void sleep() { learner_.sleep(false); }
  void wake() { learner_.wake(); }

  // Forward only: values of all generated tokens of each sample into out[i]. Ranks call it
  // together, with the same samples.
  void values(std::span<const Sample* const> samples, std::span<const std::span<float>> out);
  // Optimizer steps on the masters, then publishes them as the model's version + 1. Everything is
  // checked before anything runs; an error names the sample's id, the field and the limit.
  CriticMetrics step(std::span<const CriticSample> samples);

  const CriticOptions& options() const { return options_; }
  // Changes what may change between steps; sizes must not change, else Error(kNotChangeable).
  void set_options(const CriticOptions& options);
  TrainerCounters counters() const { return learner_.counters(); }
  std::span<const float> gradients() { return learner_.state().gradients().in_host(); }
  // Memory that the critic reserved and first writes in step().
  std::vector<std::span<std::byte>> memory() const { return learner_.memory(); }
  // Its part of a checkpoint, see Trainer::save.
  Learner& learner() { return learner_; }

 private:
  struct Sums {
    double loss = 0, values = 0;
    int64_t tokens = 0, clipped = 0;
  };
  void check(std::span<const CriticSample> samples) const;
  CriticMetrics run_step(std::span<const CriticSample> samples);
  RankCut rank_cut() const;
  void values_of(std::span<const PackItem> items, std::span<const std::span<float>> out);
  void minibatch(std::span<const PackItem> items, CriticMetrics& metrics);
  void join_minibatch();
  std::span<const float> chunk_loss(const ValueChunk& chunk, const LossDenominators& denominators);
  void find_non_finite(const ValueChunk& chunk);
  void optimize(CriticMetrics& metrics);
  void finish(CriticMetrics& metrics) const;

  CriticOptions options_;
  const PassContext context_;
  const DataRanks ranks_;
  const ContextRanks context_ranks_;
  Learner learner_;
  TrainBuffers workspace_;
  MicroBatchPass pass_;

  // State of the current step; samples in training order.
  std::vector<const CriticSample*> ordered_;
  std::vector<PackItem> items_;
  MicroBatch micro_;
  std::vector<float> old_values_, returns_, d_value_;
  std::vector<double> weights_, gradient_;
  std::vector<int32_t> non_finite_;
  Sums minibatch_sums_, step_sums_;
};

}  // namespace rl

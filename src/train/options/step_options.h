// What the optimizer steps of any trained model need, the policy or a critic: how its batches are
// split and aggregated, and the AdamW parameters. Sizes are pure functions of these settings.
#pragma once
#include <algorithm>
#include <cstdint>

#include "algo/losses/loss_agg.h"
#include "algo/optimizers/adamw.h"
#include "algo/optimizers/schedule.h"
#include "formats/trainable.h"
#include "model/activation_rule.h"
#include "model/backward_weights.h"
#include "model/head.h"
#include "model/ranks/context_ranks.h"
#include "model/transformer.h"
#include "train/options/batch_rules.h"
#include "train/options/optimizer_options.h"

namespace rl {

// The option keys that determine the sizes of a role; named in errors.
struct SizeKeys {
  const char* max_tokens;
  const char* forward_max_tokens;
  const char* micro_batch_size;
};
inline constexpr SizeKeys kTrainerKeys = {"trainer.max_tokens_per_device",
                                          "trainer.logprob_max_tokens_per_device",
                                          "trainer.micro_batch_size"};

struct StepOptions {
  SizeKeys keys = kTrainerKeys;
  int64_t max_tokens = 1024;  // rows of one micro-batch, of all ranks that divide it, >= 1
  int64_t max_sequence = 0;   // tokens of the longest sample; 0: max_tokens + 1, the most that fits
  // trainer.logprob_chunk_tokens: rows per head chunk; 0: a whole micro-batch at once.
  int64_t logprob_chunk_tokens = 256;
  // trainer.mlp_chunk_tokens: rows that go through an MLP at a time; 0: a whole micro-batch.
  int64_t mlp_chunk_tokens = 0;
  // trainer.recompute_loss: logits exist for a part of a chunk at a time.
  bool recompute_loss = false;
  BackwardPacking backward_packing = BackwardPacking::kByLayer;  // trainer.backward_weights
  ActivationRule activations;                                    // trainer.recompute_*
  ContextRule context;                                           // parallel.context*
  bool sequence_parallel = false;                                // parallel.sequence_parallel
  int64_t vocabulary_ranks = 1;  // parallel.tensor, which divide the policy's vocabulary
  int64_t epochs = 1;            // trainer.epochs over the samples of one step
  BatchRules batch;

  LossAgg loss_agg = LossAgg::kTokenMean;
  double loss_scale_factor = 0;  // read by seq_mean_token_sum_norm only

  AdamwParams adamw;
  Schedule schedule;        // schedule.*, with the role's learning rate
  double grad_clip = 1.0;   // of the global norm; 0: off
  TrainableRule trainable;  // model.freeze, model.train_only
  OptimizerOptions optimizer;

  int64_t longest_sample() const { return max_sequence != 0 ? max_sequence : max_tokens + 1; }
  // Rows of the longest sequence that is trained on.
  int64_t longest_rows() const;
  // Most rows of a training micro-batch, and of a forward-only one, with padding. Ranks divide the
  // former alone.
  int64_t train_rows() const;
  int64_t forward_budget() const;
  int64_t forward_rows() const;
  // The same for forwards of a reference.
  int64_t reference_budget() const;
  int64_t reference_rows() const;
  // What buffers for micro-batches of up to `rows` rows have to hold.
  BatchLimits limits(int64_t rows) const { return limits(rows, rows); }
  // Those of a rank in training.
  int64_t own_train_rows(int64_t block_size) const {
    return context.own_rows(train_rows(), block_size);
  }
  BatchLimits limits(int64_t rows, int64_t all_rows) const {
    return {rows, mlp_chunk_tokens != 0 ? std::min(mlp_chunk_tokens, rows) : rows, false, all_rows};
  }
  int64_t chunk_rows() const {
    return logprob_chunk_tokens != 0 ? std::min(logprob_chunk_tokens, train_rows()) : train_rows();
  }
  HeadRows head_rows() const { return head_rows(train_rows()); }
  // Of a rank that has at most so many rows of a micro-batch.
  HeadRows head_rows(int64_t most) const {
    const int64_t chunk = std::min(chunk_rows(), most);
    return {chunk, recompute_loss ? std::min(chunk, kLogitRows) : chunk};
  }
};

// Throws Error(kOutOfRange) naming the option, its range and the value.
void validate(const StepOptions& options);

// Error(kNotChangeable) naming the first size that differs: the memory plan depends on it.
void require_same_sizes(const StepOptions& now, const StepOptions& next);

}  // namespace rl

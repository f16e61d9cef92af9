// The trainer: advantages are given, it turns scored samples into optimizer steps on the model's masters.
//
// One optimizer step: cut the minibatch into packed micro-batches by token budget (in order, by shape alone), per
// micro-batch forward with saved activations, head + loss + head backward in chunks at the positions that carry loss,
// backward; then global-norm clipping, AdamW on the masters, and the caller publishes. Invariants:
// 1. Loss denominators are global inputs computed before the first micro-batch (N4).
// 2. A non-finite loss or gradient norm skips the step: masters, moments and step count stay, the skip is counted.
// 3. Log-probs of this forward equal the stored ones bit for bit in the first step after sampling (N2); the largest
//    difference seen is a metric.
#pragma once
#include <memory>
#include <vector>

#include "algo/kl.h"
#include "algo/loss_agg.h"
#include "algo/policy_loss.h"
#include "algo/schedule.h"
#include "data/sample.h"
#include "model/head.h"
#include "model/transformer.h"

namespace rl {

class TraceSink;

struct TrainerOptions {
  int64_t max_tokens = 1024;          // rows of a micro-batch; a longer sample is a named error
  int64_t max_sequence = 1024;        // longest sample
  int64_t logprob_chunk_tokens = 256; // head rows at a time; 0: the whole micro-batch
  int64_t num_minibatches = 1, epochs = 1;
  // loss, kl, aggregation, entropy, optimizer and schedule settings follow (algo types)
  // ... filled in by the trainer's author
};

}  // namespace rl

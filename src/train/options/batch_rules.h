// How a batch is split (trainer.*): minibatches by samples, micro-batches by tokens or by
// sequences, their padding, and the budgets. Log-probs and loss depend on none of it except the
// minibatches.
#pragma once
#include <cstdint>

#include "algo/batching/balance.h"

namespace rl {

struct BatchRules {
  int64_t global_batch_size = 0;   // samples of an optimizer step; 0: num_minibatches decides
  int64_t num_minibatches = 1;     // trainer.num_minibatches, each is one optimizer step
  int64_t step_samples = 0;        // samples of a step, for planning KV blocks; 0: unknown
  int64_t micro_batch_size = 0;    // sequences of a micro-batch; 0: by tokens (dynamic_batching)
  int64_t forward_max_tokens = 0;  // rows of a forward-only micro-batch; 0: twice the training rows
  int64_t reference_max_tokens = 0;  // the same for a reference; 0: as forward_max_tokens
  // Sequences of a forward-only micro-batch, and of one of a reference; 0: by tokens.
  int64_t forward_micro_batch_size = 0, reference_micro_batch_size = 0;
  // A sequence above a budget gets its own micro-batch; false: refused.
  bool oversize_alone = false;
  bool cuts = false;          // samples were cut to seq_len rows before they came here
  bool shared_prefix = true;  // equal prompts of neighbours are computed once
  bool packed = true;         // trainer.sequence_packing
  int64_t seq_len = 0;        // rows of a padded micro-batch; if not packed, of a padded sequence
  int64_t pad_to = 1;         // trainer.pad_to_multiple_of
  BalanceCost balance = BalanceCost::kNone;
  bool whole_groups = false;  // of data-parallel ranks each trains on whole groups

  int64_t padded(int64_t rows) const {
    return rows <= seq_len ? seq_len : (rows + pad_to - 1) / pad_to * pad_to;
  }
  bool pads() const { return seq_len > 0 || pad_to > 1; }
  // Minibatches of a batch; each has at most global_batch_size samples.
  int64_t minibatches(int64_t samples) const {
    if (global_batch_size == 0) return num_minibatches;
    return (samples + global_batch_size - 1) / global_batch_size;
  }
};

}  // namespace rl

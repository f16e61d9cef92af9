// How a batch is cut (trainer.*): minibatches by samples, micro-batches by tokens or by sequences,
// their padding, and the budgets. Log-probs and loss do not depend on any of it but the
// minibatches.
#pragma once
#include <cstdint>

#include "algo/batching/balance.h"

namespace rl {

struct BatchRules {
  int64_t global_batch_size = 0;  // samples of an optimizer step; 0: num_minibatches decides
  int64_t num_minibatches = 1;    // trainer.num_minibatches, each is one optimizer step
  int64_t step_samples = 0;       // that KV blocks are planned for: of the whole step; 0: not known
  int64_t micro_batch_size = 0;   // sequences of a micro-batch; 0: by tokens (dynamic_batching)
  int64_t forward_max_tokens = 0;  // rows of a forward-only micro-batch; 0: twice those of training
  int64_t reference_max_tokens = 0;  // the same of a reference; 0: as forward_max_tokens says
  bool oversize_alone = false;       // a sequence above a budget is a micro-batch; false: refused
  bool shared_prefix = true;         // equal prompts of neighbours are computed once
  bool packed = true;                // trainer.sequence_packing
  int64_t seq_len = 0;               // rows of a padded micro-batch, without packed of a sequence
  int64_t pad_to = 1;                // trainer.pad_to_multiple_of
  BalanceCost balance = BalanceCost::kNone;

  int64_t padded(int64_t rows) const {
    return rows <= seq_len ? seq_len : (rows + pad_to - 1) / pad_to * pad_to;
  }
  bool pads() const { return seq_len > 0 || pad_to > 1; }
  // Minibatches of a batch: each has at most global_batch_size samples.
  int64_t minibatches(int64_t samples) const {
    if (global_batch_size == 0) return num_minibatches;
    return (samples + global_batch_size - 1) / global_batch_size;
  }
};

}  // namespace rl

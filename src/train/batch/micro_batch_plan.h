// Decides which sequences form a micro-batch, by shape alone. A sequence is the part of a sample
// before its last wanted token: row t predicts ids[t + 1], so the last wanted token is only a
// target. If the row of a sample's last token is wanted, the sequence is the whole sample.
//
// Neighbours with the same prompt form a run. With shared_prefix the prompt's rows and whole KV
// blocks are counted once for the members in one micro-batch, and a run that fits one micro-batch
// is not split. Padding is counted as rows. A sequence that fits no micro-batch gets its own.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "train/options/batch_rules.h"

namespace rl {

// loss_mask 1; every generated token; the row of the last token, for values of a whole sample; or
// the rows of all tokens.
enum class WantedTokens : uint8_t { kLoss, kGenerated, kLast, kAll };
// Not for kLast and kAll, which want rows rather than tokens.
inline bool wants(const Sample& s, int64_t generated, WantedTokens which) {
  return which == WantedTokens::kGenerated || s.loss_mask[generated] != 0;
}

// One sequence to forward; index is the caller's number of the sample.
struct PackItem {
  const Sample* sample = nullptr;
  int32_t index = 0;
  int32_t rows = 0;    // rows of the forward; 0: nothing wanted
  int32_t wanted = 0;  // tokens
};
PackItem make_pack_item(const Sample& sample, int32_t index, WantedTokens which);

// BatchRules with the sizes of one pass.
struct PackRules {
  BatchRules batch;
  int64_t rows = 0;    // most rows of a micro-batch, with its padding
  int64_t blocks = 0;  // most KV blocks; if not packed, including those of padding
  int64_t block_size = 0;
  int64_t longest = 0;      // most rows of a padding sequence
  int64_t hidden_size = 1;  // of the model, for BalanceCost::kFlops
  int64_t samples = 0;      // most of them; 0: any number

  bool shares() const { return batch.shared_prefix && batch.packed; }
};

inline int64_t kv_blocks_of(int64_t rows, int64_t block_size) {
  return (rows + block_size - 1) / block_size;
}

// How many of the first items form one run; 1 if prompts are not shared. items is not empty.
size_t run_length(std::span<const PackItem> items, bool shares);

// What the members of one run occupy in a micro-batch.
class RunSize {
 public:
  explicit RunSize(int64_t block_size) : block_size_(block_size) {}
  void add(const PackItem& item);
  bool empty() const { return count_ == 0; }
  int64_t rows() const;
  int64_t blocks() const;

 private:
  int64_t block_size_;
  int64_t count_ = 0, prompt_ = 0;
  int64_t own_rows_ = 0, own_blocks_ = 0;  // after the prompt
  int64_t first_rows_ = 0;
};

// Items without rows are left out; in a micro-batch items keep their order. In order, a new
// micro-batch begins when the next run does not fit, or the next item of a run that fits no
// micro-batch. Balanced, cut_micro_batches (algo/batching/balance.h) distributes the runs, and the
// parts of those that fit no micro-batch; that needs packed and a token budget. Balancing never
// makes more micro-batches than taking them in order.
using MicroBatchPlan = std::vector<std::vector<PackItem>>;
MicroBatchPlan plan_micro_batches(std::span<const PackItem> items, const PackRules& rules);

}  // namespace rl

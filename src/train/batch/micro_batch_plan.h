// Which sequences go into one micro-batch, by shape alone. A sequence is the part of a sample up to
// its last wanted token: row t predicts ids[t + 1], so the last wanted token is a target only. All
// of a sample is one where its last row is wanted.
//
// Neighbours with the same prompt are a run. With shared_prefix the prompt's rows and whole KV
// blocks are counted once for those of them that are in one micro-batch, and a run that fits one is
// not cut. Padding is counted as rows. A sequence that fits no micro-batch has one of its own.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "train/options/batch_rules.h"

namespace rl {

// loss_mask 1; every generated token; or the row of the last token, for what is said of a sample.
enum class WantedTokens : uint8_t { kLoss, kGenerated, kLast };
// Not of kLast, which wants no token.
inline bool wants(const Sample& s, int64_t generated, WantedTokens which) {
  return which == WantedTokens::kGenerated || s.loss_mask[generated] != 0;
}

// One sequence to forward; index is the caller's number of the sample.
struct PackItem {
  const Sample* sample = nullptr;
  int32_t index = 0;
  int32_t rows = 0;    // of the forward; 0: nothing wanted
  int32_t wanted = 0;  // tokens
};
PackItem make_pack_item(const Sample& sample, int32_t index, WantedTokens which);

// BatchRules with the sizes of one pass.
struct PackRules {
  BatchRules batch;
  int64_t rows = 0;    // of a micro-batch at most, with its padding
  int64_t blocks = 0;  // KV blocks at most; without packed those of padding are among them
  int64_t block_size = 0;
  int64_t longest = 0;      // rows of a sequence of padding at most
  int64_t hidden_size = 1;  // of the model, for BalanceCost::kFlops

  bool shares() const { return batch.shared_prefix && batch.packed; }
};

inline int64_t kv_blocks_of(int64_t rows, int64_t block_size) {
  return (rows + block_size - 1) / block_size;
}

// How many of the first items make one run: 1 when prompts are not shared. items is not empty.
size_t run_length(std::span<const PackItem> items, bool shares);

// What the members of one run take in a micro-batch.
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
  int64_t own_rows_ = 0, own_blocks_ = 0;  // behind the prompt
  int64_t first_rows_ = 0;
};

// Items without rows are left out; in a micro-batch they keep their order. In order, a new
// micro-batch begins when the next run, or an item of a run that fits none, does not fit. Balanced,
// runs and the pieces of those that fit none are shared out by cut_micro_batches
// (algo/batching/balance.h); that needs packed and a budget of tokens. It never makes more
// micro-batches than the order does.
using MicroBatchPlan = std::vector<std::vector<PackItem>>;
MicroBatchPlan plan_micro_batches(std::span<const PackItem> items, const PackRules& rules);

}  // namespace rl

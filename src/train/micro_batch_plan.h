// Which sequences go into one micro-batch, by shape alone. A sequence is the part of a sample up to
// its last wanted token: row t predicts ids[t + 1], so the last wanted token is a target only.
//
// Neighbours with the same prompt are a run. With share_prompts the prompt's rows and whole KV
// blocks are counted once for those of them that are in one micro-batch, and a run that fits one is
// not cut.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"

namespace rl {

enum class WantedTokens : uint8_t { kLoss, kGenerated };  // loss_mask 1, or every generated token
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

struct PackRules {
  int64_t rows = 0, blocks = 0, block_size = 0;  // of a micro-batch at most; tokens of a KV block
  bool share_prompts = true;
};

inline int64_t kv_blocks_of(int64_t rows, int64_t block_size) {
  return (rows + block_size - 1) / block_size;
}

// How many of the first items make one run: 1 without share_prompts. items is not empty.
size_t run_length(std::span<const PackItem> items, bool share_prompts);

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

// Items without rows are left out. Each of the others fits the rules alone.
using MicroBatchPlan = std::vector<std::vector<PackItem>>;
// Items in order; a new micro-batch begins when the next run, or an item of a run that fits none,
// does not fit.
MicroBatchPlan plan_in_order(std::span<const PackItem> items, const PackRules& rules);

}  // namespace rl

// Cutting samples into packed micro-batches, by shape alone: in order, a new micro-batch whenever
// the next sequence exceeds the budget of rows or KV blocks. A sequence is the part of a sample up
// to its last wanted token: row t predicts ids[t + 1], so the last wanted token is a target only.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "model/transformer.h"

namespace rl {

enum class WantedTokens : uint8_t { kLoss, kGenerated };  // loss_mask 1, or every generated token

// One sequence to forward; index is the caller's number of the sample.
struct PackItem {
  const Sample* sample = nullptr;
  int32_t index = 0;
  int32_t rows = 0;    // of the forward; 0: nothing wanted
  int32_t wanted = 0;  // tokens
};
PackItem make_pack_item(const Sample& sample, int32_t index, WantedTokens which);

struct PackBudget {
  int64_t rows, blocks, block_size;
};

// A wanted token: the row that predicts it, and where it is in its sample.
struct WantedRow {
  int32_t row;
  int32_t item;       // index of its PackItem
  int32_t generated;  // offset among the sample's generated tokens
  int32_t id;
  float inv_temperature;
};

class MicroBatch {
 public:
  // Takes items from the front of `items`, at least one, and returns how many; each of them fits
  // the budget alone. Items without rows take no place.
  size_t fill(std::span<const PackItem> items, const PackBudget& budget, WantedTokens which);

  ForwardBatch batch() const { return {ids_, sequences_}; }
  int64_t rows() const { return static_cast<int64_t>(ids_.size()); }
  // In row order.
  std::span<const WantedRow> wanted() const { return wanted_; }

 private:
  void append(const PackItem& item, int64_t block_size, WantedTokens which);

  std::vector<int32_t> ids_;
  std::vector<int32_t> blocks_;
  std::vector<SequenceRows> sequences_;
  std::vector<WantedRow> wanted_;
};

}  // namespace rl

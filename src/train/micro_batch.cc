// Block ids are given out one after another: each sequence has its own blocks of the training pool.
#include "train/micro_batch.h"

#include "core/error.h"
#include "model/head.h"

namespace rl {
namespace {

bool wants(const Sample& s, int64_t generated, WantedTokens which) {
  return which == WantedTokens::kGenerated || s.loss_mask[generated] != 0;
}

int64_t blocks_of(int64_t rows, int64_t block_size) { return (rows + block_size - 1) / block_size; }

}  // namespace

PackItem make_pack_item(const Sample& sample, int32_t index, WantedTokens which) {
  PackItem item{&sample, index, 0, 0};
  for (int64_t g = 0; g < sample.generated(); ++g) {
    if (!wants(sample, g, which)) continue;
    item.rows = static_cast<int32_t>(sample.prompt_tokens + g);
    ++item.wanted;
  }
  return item;
}

size_t MicroBatch::fill(std::span<const PackItem> items, const PackBudget& budget,
                        WantedTokens which) {
  ids_.clear();
  blocks_.clear();
  sequences_.clear();
  wanted_.clear();
  int64_t blocks = 0;
  size_t taken = 0;
  for (; taken < items.size(); ++taken) {
    const PackItem& item = items[taken];
    if (item.rows == 0) continue;
    const int64_t more = blocks_of(item.rows, budget.block_size);
    if (rows() + item.rows > budget.rows || blocks + more > budget.blocks) break;
    append(item, budget.block_size, which);
    blocks += more;
  }
  RL_CHECK(taken > 0 || items.empty());
  // The tables stay where they are from here on, so that sequences may point into them.
  const int32_t* table = blocks_.data();
  for (SequenceRows& s : sequences_) {
    s.blocks = table;
    table += blocks_of(s.rows, budget.block_size);
  }
  return taken;
}

void MicroBatch::append(const PackItem& item, int64_t block_size, WantedTokens which) {
  const Sample& s = *item.sample;
  const auto first = static_cast<int32_t>(ids_.size());
  sequences_.push_back({first, item.rows, 0, nullptr});
  ids_.insert(ids_.end(), s.ids.begin(), s.ids.begin() + item.rows);
  for (int64_t b = blocks_of(item.rows, block_size); b > 0; --b)
    blocks_.push_back(static_cast<int32_t>(blocks_.size()));
  const float inv_temperature = inverse_temperature(s.temperature);
  for (int32_t g = 0; s.prompt_tokens + g <= item.rows; ++g) {
    if (!wants(s, g, which)) continue;
    const int32_t target = s.prompt_tokens + g;
    wanted_.push_back({first + target - 1, item.index, g, s.ids[target], inv_temperature});
  }
}

}  // namespace rl

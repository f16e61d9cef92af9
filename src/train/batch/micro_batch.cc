// Block ids are assigned consecutively; only the whole blocks of a shared prompt are in more than
// one table.
#include "train/batch/micro_batch.h"

#include <algorithm>

#include "model/head.h"

namespace rl {

void MicroBatch::fill(std::span<const PackItem> items, const PackRules& rules, WantedTokens which) {
  ids_.clear();
  tables_.clear();
  sequences_.clear();
  wanted_.clear();
  context_.reset();
  block_size_ = rules.block_size;
  next_block_ = 0;
  int64_t longest = 0;
  for (const PackItem& item : items) longest = std::max<int64_t>(longest, item.rows);
  while (!items.empty()) {
    const size_t run = run_length(items, rules.shares());
    int32_t prefix_sequence = -1;
    if (run > 1) {
      prefix_sequence = static_cast<int32_t>(sequences_.size());
      prefix_table_ = tables_.size();
      add_sequence(*items[0].sample, 0, items[0].sample->prompt_tokens, -1);
    }
    for (const PackItem& item : items.first(run)) {
      const int32_t first = prefix_sequence < 0 ? 0 : item.sample->prompt_tokens;
      if (item.rows > first) add_sequence(*item.sample, first, item.rows, prefix_sequence);
      add_wanted(item, prefix_sequence, which);
      if (!rules.batch.packed) add_padding(rules.batch.padded(longest) - item.rows, rules.longest);
    }
    items = items.subspan(run);
  }
  if (rules.batch.packed) add_padding(rules.batch.padded(rows()) - rows(), rules.longest);
  // The tables no longer move from here on, so sequences may point into them.
  const int32_t* table = tables_.data();
  for (SequenceRows& s : sequences_) {
    s.blocks = table;
    table += kv_blocks_of(s.first_position + s.rows, block_size_);
  }
}

void MicroBatch::add_sequence(const Sample& sample, int32_t first, int32_t end,
                              int32_t prefix_sequence) {
  const auto row = static_cast<int32_t>(ids_.size());
  const int64_t shared = first / block_size_, blocks = kv_blocks_of(end, block_size_);
  if (prefix_sequence >= 0) {
    for (int64_t b = 0; b < shared; ++b) tables_.push_back(tables_[prefix_table_ + b]);
  }
  sequences_.push_back({row, end - first, first, nullptr, prefix_sequence});
  ids_.insert(ids_.end(), sample.ids.begin() + first, sample.ids.begin() + end);
  for (int64_t b = shared; b < blocks; ++b) tables_.push_back(next_block_++);
}

void MicroBatch::add_padding(int64_t rows, int64_t longest) {
  while (rows > 0) {
    const auto some = static_cast<int32_t>(std::min(rows, longest));
    sequences_.push_back({static_cast<int32_t>(ids_.size()), some, 0, nullptr});
    ids_.insert(ids_.end(), static_cast<size_t>(some), 0);
    for (int64_t b = kv_blocks_of(some, block_size_); b > 0; --b) tables_.push_back(next_block_++);
    rows -= some;
  }
}

int32_t MicroBatch::row_of(const Sample& s, int32_t position, int32_t prefix_sequence) const {
  const SequenceRows& from = prefix_sequence >= 0 && position < s.prompt_tokens
                                 ? sequences_[prefix_sequence]
                                 : sequences_.back();
  return from.first_row + position - from.first_position;
}

void MicroBatch::add_wanted(const PackItem& item, int32_t prefix_sequence, WantedTokens which) {
  const Sample& s = *item.sample;
  const float inv_temperature = inverse_temperature(s.temperature);
  if (which == WantedTokens::kLast) {
    const int32_t row = row_of(s, item.rows - 1, prefix_sequence);
    return wanted_.push_back({row, item.index, 0, s.ids.back(), inv_temperature});
  }
  if (which == WantedTokens::kAll) {
    for (int32_t t = 0; t < item.rows; ++t) {
      wanted_.push_back({row_of(s, t, prefix_sequence), item.index, t, s.ids[t], inv_temperature});
    }
    return;
  }
  for (int32_t g = 0; s.prompt_tokens + g <= item.rows; ++g) {
    if (!wants(s, g, which)) continue;
    wanted_.push_back({row_of(s, s.prompt_tokens + g - 1, prefix_sequence), item.index, g,
                       s.ids[s.prompt_tokens + g], inv_temperature});
  }
}

}  // namespace rl

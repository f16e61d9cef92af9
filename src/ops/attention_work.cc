#include "ops/attention_work.h"

#include <algorithm>

namespace rl {
namespace {

// Number of equal whole blocks at the start of both tables, before the last position of either.
int64_t common_blocks(const SequenceRows& a, const SequenceRows& b, int64_t block_size) {
  const int64_t most = std::min(a.first_position, b.first_position) / block_size;
  return std::mismatch(a.blocks, a.blocks + most, b.blocks).first - a.blocks;
}

}  // namespace

AttentionWork::AttentionWork(int64_t max_rows) {
  const auto most = static_cast<size_t>(max_rows);
  by_sequence_.reserve(most);
  ungrouped_.reserve(most);
  shared_prefix_groups_.reserve(most);
  rows_.reserve(most);
}

void AttentionWork::clear() {
  by_sequence_.clear();
  ungrouped_.clear();
  shared_prefix_groups_.clear();
  rows_.clear();
  runs_.clear();
}

void AttentionWork::cut(std::span<const SequenceRows> own, const DividedRows& all,
                        const RankRows& keys) {
  clear();
  std::vector<size_t> ends;  // of the runs of each sequence
  for (size_t i = 0; i < own.size(); ++i) {
    add_key_runs(all, i, own[i], keys, runs_);
    ends.push_back(runs_.size());
  }
  size_t first = 0;
  for (size_t i = 0; i < own.size(); first = ends[i++]) {
    if (ends[i] > first) add_chunks(own[i], std::span(runs_).subspan(first, ends[i] - first));
  }
  ungrouped_ = by_sequence_;
}

void AttentionWork::cut(std::span<const SequenceRows> sequences, int64_t block_size) {
  clear();
  for (size_t i = 0; i < sequences.size();) {
    const size_t taken = add_shared_prefix_group(sequences.subspan(i), block_size);
    const size_t first_chunk = by_sequence_.size();
    const size_t end = i + std::max<size_t>(taken, 1);
    for (; i < end; ++i) add_chunks(sequences[i]);
    if (taken == 0)
      ungrouped_.insert(ungrouped_.end(), by_sequence_.begin() + first_chunk, by_sequence_.end());
  }
}

void AttentionWork::add_chunks(const SequenceRows& s, std::span<const KeyRun> runs) {
  for (int64_t r = 0; r < s.rows; r += kAttentionMaxRows) {
    by_sequence_.push_back({s.first_row + r, std::min<int64_t>(kAttentionMaxRows, s.rows - r),
                            s.first_position + r, s.blocks, runs});
  }
}

// Groups the first sequences as long as they share as many blocks as the first two. Returns their
// number, 0 if the first two share none.
size_t AttentionWork::add_shared_prefix_group(std::span<const SequenceRows> sequences,
                                              int64_t block_size) {
  const SequenceRows& first = sequences.front();
  if (sequences.size() < 2 || first.rows != 1 || sequences[1].rows != 1) return 0;
  const int64_t shared = common_blocks(first, sequences[1], block_size);
  if (shared == 0) return 0;
  const size_t most = std::min<size_t>(kAttentionMaxRows, sequences.size());
  size_t count = 2;
  while (count < most && sequences[count].rows == 1 &&
         common_blocks(first, sequences[count], block_size) >= shared) {
    ++count;
  }
  const size_t begin = rows_.size();
  for (const SequenceRows& s : sequences.first(count))
    rows_.push_back({s.first_position, s.blocks});
  shared_prefix_groups_.push_back(
      {first.first_row, std::span(rows_).subspan(begin, count), shared});
  return count;
}

}  // namespace rl

// How the rows of a batch are split into attention calls. Adjacent single rows whose sequences
// share a prefix of blocks form one call, so that each shared block is read once for all of them
// (cascade attention); other rows go by sequence, kAttentionMaxRows at a time. The split cannot
// change bits (contract of ops/attention.h). Nothing is allocated after construction, unless ranks
// divide the rows.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/divided_rows.h"
#include "ops/sequence_rows.h"

namespace rl {

class AttentionWork {
 public:
  explicit AttentionWork(int64_t max_rows);
  // The results are valid until the next call; block tables are the sequences' own.
  void cut(std::span<const SequenceRows> sequences, int64_t block_size);
  // One rank's rows that attend keys in the rows of `keys`, with runs of these keys.
  void cut(std::span<const SequenceRows> own, const DividedRows& all, const RankRows& keys);

  // Every row once, by sequence: for layers with a window, whose rows attend different keys.
  std::span<const AttentionRows> by_sequence() const { return by_sequence_; }
  // Every row once, either in shared_prefix_groups() or in ungrouped().
  std::span<const SharedAttentionRows> shared_prefix_groups() const {
    return shared_prefix_groups_;
  }
  std::span<const AttentionRows> ungrouped() const { return ungrouped_; }

 private:
  void clear();
  void add_chunks(const SequenceRows& sequence, std::span<const KeyRun> runs = {});
  size_t add_shared_prefix_group(std::span<const SequenceRows> sequences, int64_t block_size);

  std::vector<AttentionRows> by_sequence_, ungrouped_;
  std::vector<SharedAttentionRows> shared_prefix_groups_;
  std::vector<SharedRow> rows_;
  std::vector<KeyRun> runs_;
};

}  // namespace rl

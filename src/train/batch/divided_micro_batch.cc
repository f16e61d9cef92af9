// Which rows of a micro-batch a rank has (ContextRule). Chunks follow from the rows alone and begin
// where a KV block does, so a block has the keys and values of one rank's rows. Blocks get new ids,
// rank after rank, so that those of a rank follow one another; in a ring each rank has its own
// alone, whose ids begin at 0. Blocks of several ranks then have the same ids, and a table is read
// for the keys of one rank at a time.
#include <algorithm>

#include "core/error.h"
#include "train/batch/micro_batch.h"

namespace rl {

// The first row of every block, by its id.
std::vector<int64_t> MicroBatch::block_starts() const {
  std::vector<int64_t> starts;
  for (const SequenceRows& s : sequences_) {
    const int64_t end = s.first_position + s.rows;
    for (int64_t at = s.first_position; at < end; at = (at / block_size_ + 1) * block_size_)
      starts.push_back(s.first_row + at - s.first_position);
  }
  RL_CHECK(static_cast<int64_t>(starts.size()) == next_block_);
  return starts;
}

void MicroBatch::divide(const ContextRule& rule, const ContextRanks& ranks) {
  if (!rule.divides()) return;
  RL_CHECK(rule.ranks == ranks.size());
  const std::vector<int64_t> starts = block_starts();
  const auto first_block_of = [&](int64_t chunk) {
    const int64_t row = chunk * rows() / rule.chunks();
    return std::ranges::lower_bound(starts, row) - starts.begin();
  };
  const auto row_of_block = [&](int64_t block) {
    return block < next_block_ ? starts[static_cast<size_t>(block)] : rows();
  };
  chunks_.assign(static_cast<size_t>(rule.chunks()), {});
  std::vector<int32_t> new_ids(starts.size());
  context_.emplace(ContextBatch{ranks, rule.kind, {}, {{0}}, {{0}}});
  int64_t place = 0;
  int32_t next_id = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    const int32_t first_id = rule.in_ring() ? next_id : 0;
    if (r == ranks.rank()) context_->rows.own_place = place;
    for (int64_t k = 0; k < rule.chunks(); ++k) {
      if (rule.rank_of(k) != r) continue;
      const int64_t first = first_block_of(k), end = first_block_of(k + 1);
      chunks_[static_cast<size_t>(k)] = {row_of_block(first), row_of_block(end), place};
      place += row_of_block(end) - row_of_block(first);
      for (int64_t b = first; b < end; ++b) new_ids[static_cast<size_t>(b)] = next_id++ - first_id;
    }
    context_->row_places.bounds.push_back(static_cast<uint64_t>(place));
    context_->blocks.bounds.push_back(static_cast<uint64_t>(next_id));
  }
  for (int32_t& block : tables_) block = new_ids[static_cast<size_t>(block)];
  if (rule.in_ring()) next_block_ = static_cast<int32_t>(context_->blocks[ranks.rank()].count());
  keep_own_rows(rule);
}

void MicroBatch::keep_own_rows(const ContextRule& rule) {
  DividedRows& all = context_->rows;
  all.rows = rows();
  all_sequences_.swap(sequences_);
  sequences_.clear();
  own_.clear();
  std::vector<int32_t> ids;
  std::vector<RowChunk> chunks;
  for (int64_t k = 0; k < rule.chunks(); ++k) {
    if (rule.rank_of(k) != context_->ranks.rank()) continue;
    const RowChunk& chunk = chunks.emplace_back(chunks_[static_cast<size_t>(k)]);
    add_own_sequences(chunk);
    ids.insert(ids.end(), ids_.begin() + chunk.first_row, ids_.begin() + chunk.end_row);
  }
  keep_own_wanted(chunks);
  all.own_rows = static_cast<int64_t>(ids.size());
  ids_.swap(ids);
  if (ids_.empty()) add_stand_in();
  all.sequences = all_sequences_;
  all.chunks = chunks_;
  all.own = own_;
}

void MicroBatch::add_own_sequences(const RowChunk& chunk) {
  for (size_t i = 0; i < all_sequences_.size(); ++i) {
    const SequenceRows& s = all_sequences_[i];
    const int64_t first = std::max<int64_t>(s.first_row, chunk.first_row),
                  end = std::min<int64_t>(s.first_row + s.rows, chunk.end_row);
    if (first >= end) continue;
    const int64_t own_row = chunk.place + first - chunk.first_row - context_->rows.own_place;
    sequences_.push_back({static_cast<int32_t>(own_row), static_cast<int32_t>(end - first),
                          static_cast<int32_t>(s.first_position + first - s.first_row), s.blocks});
    own_.push_back(static_cast<int32_t>(i));
  }
}

void MicroBatch::keep_own_wanted(const std::vector<RowChunk>& chunks) {
  size_t kept = 0;
  for (WantedRow w : wanted_) {
    for (const RowChunk& c : chunks) {
      if (w.row < c.first_row || w.row >= c.end_row) continue;
      w.row = static_cast<int32_t>(c.place + w.row - c.first_row - context_->rows.own_place);
      wanted_[kept++] = w;
      break;
    }
  }
  wanted_.resize(kept);
}

// A row of token 0 of which nothing is wanted, in a block of its own.
void MicroBatch::add_stand_in() {
  stand_in_block_ = next_block_++;
  ids_.push_back(0);
  sequences_.push_back({0, 1, 0, &stand_in_block_});
  own_.push_back(-1);
}

}  // namespace rl

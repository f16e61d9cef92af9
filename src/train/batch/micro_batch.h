// The rows of one micro-batch: ids, sequences with their KV blocks, and the rows that predict
// wanted tokens. The prompt of a run of several items is one sequence, their shared prefix, and
// its last row predicts the first token of each of them. Padding is sequences of token 0 of which
// nothing is wanted: their gradients are zero, so they add nothing to the others.
//
// Ranks may divide a micro-batch (divided_micro_batch.cc). Each then has its own rows alone.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "train/batch/micro_batch_plan.h"

namespace rl {

// A wanted token: the row that predicts it, and its place in its sample. For kLast: the last row,
// which predicts nothing. For kAll: the row of the token itself, and its place among all tokens.
struct WantedRow {
  int32_t row;
  int32_t item;       // index of its PackItem
  int32_t generated;  // offset among the sample's generated tokens
  int32_t id;
  float inv_temperature;
};

class MicroBatch {
 public:
  // The items of one micro-batch of a plan made by these rules, and its padding.
  void fill(std::span<const PackItem> items, const PackRules& rules, WantedTokens which);

  // After fill(), which every rank calls with the same items: keeps the rows of this rank, or one
  // of padding if it has none. ranks lives as long as batches do.
  void divide(const ContextRule& rule, const ContextRanks& ranks);

  ForwardBatch batch() const {
    return {ids_, sequences_, nullptr, false, context_ ? &*context_ : nullptr};
  }
  int64_t rows() const { return static_cast<int64_t>(ids_.size()); }
  // Ids 0..blocks() - 1 of the pool; of ranks in a ring those of this rank.
  int64_t blocks() const { return next_block_; }
  // In the order of items and of their tokens. Only the last row of a shared prefix appears
  // several times.
  std::span<const WantedRow> wanted() const { return wanted_; }

 private:
  // Adds positions [first, end) of a sample as a sequence. Its own blocks follow the whole blocks
  // of the shared prefix.
  void add_sequence(const Sample& sample, int32_t first, int32_t end, int32_t prefix_sequence);
  void add_padding(int64_t rows, int64_t longest);
  void add_wanted(const PackItem& item, int32_t prefix_sequence, WantedTokens which);
  // The row of a position of the sample whose sequence was added last.
  int32_t row_of(const Sample& sample, int32_t position, int32_t prefix_sequence) const;

  std::vector<int64_t> block_starts() const;
  void keep_own_rows(const ContextRule& rule);
  void add_own_sequences(const RowChunk& chunk);
  void keep_own_wanted(const std::vector<RowChunk>& chunks);
  void add_stand_in();

  int64_t block_size_ = 0;
  int32_t next_block_ = 0;
  std::vector<int32_t> ids_;
  std::vector<int32_t> tables_;  // block tables of all sequences, one after another
  size_t prefix_table_ = 0;      // where the table of the last shared prefix begins
  std::vector<SequenceRows> sequences_;
  std::vector<WantedRow> wanted_;

  // If ranks divide it.
  std::optional<ContextBatch> context_;
  std::vector<RowChunk> chunks_;             // of all ranks, in row order
  std::vector<SequenceRows> all_sequences_;  // of all ranks
  std::vector<int32_t> own_;                 // DividedRows::own
  int32_t stand_in_block_ = 0;
};

}  // namespace rl

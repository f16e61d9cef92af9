#include "ops/cuda/attention_turns.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"

namespace rl::cuda {
namespace {

// Calls of one sequence have one list of keys.
std::vector<AttentionRows> whole_sequences(std::span<const AttentionRows> calls) {
  std::vector<AttentionRows> out;
  for (const AttentionRows& call : calls) {
    if (!out.empty() && call.runs.data() == out.back().runs.data())
      out.back().rows += call.rows;
    else
      out.push_back(call);
  }
  return out;
}

using TakenKeys = BackwardWork::TakenKeys;

// Keys that follow one another in one table, as one. Those that any two parts take in common begin
// and end alike, or at multiples of a chunk.
std::vector<TakenKeys> joined_keys(const BackwardWork& work, size_t part) {
  std::vector<TakenKeys> out;
  work.for_each_prefix_keys(part, [&](const TakenKeys& keys) {
    RL_CHECK(keys.blocks != nullptr);
    const auto follows = [&](const TakenKeys& last) {
      return keys.first == last.end && keys.first % kAttentionBackwardChunk == 0 &&
             keys.blocks == last.blocks &&
             keys.sums == last.sums + (last.end - last.first) * last.stride;
    };
    if (!out.empty() && follows(out.back()))
      out.back().end = keys.end;
    else
      out.push_back(keys);
  });
  return out;
}

class BackwardTurns {
 public:
  BackwardTurns(const AttentionShape& shape, int32_t tile_keys, float* dqkv)
      : shape_(shape), tile_keys_(tile_keys), dqkv_(dqkv) {}

  // Keys of the rows themselves.
  void add_own_keys(const AttentionRows& rows) {
    const int64_t queries = shape_.heads * shape_.head_dim,
                  width = queries + 2 * shape_.kv_heads * shape_.head_dim;
    add(0, {&rows, 1},
        {rows.first_position, rows.first_position + rows.rows,
         dqkv_ + rows.first_row * width + queries, width, rows.blocks});
  }
  // Keys before all these rows, in the first turn from `turn` on that none of the keys is in yet.
  // Returns the turn after it.
  size_t add_prefix_keys(size_t turn, std::span<const AttentionRows> rows, const TakenKeys& keys) {
    for_each_chunk(keys, [&](const float* sums) { turn = std::max(turn, next_[sums]); });
    add(turn++, rows, keys);
    for_each_chunk(keys, [&](const float* sums) { next_[sums] = turn; });
    return turn;
  }
  std::vector<BackwardTiles> take() { return std::move(turns_); }

 private:
  template <typename Visit>
  static void for_each_chunk(const TakenKeys& keys, const Visit& visit) {
    constexpr int64_t kChunk = kAttentionBackwardChunk;
    for (int64_t key = keys.first; key < keys.end; key = (key / kChunk + 1) * kChunk)
      visit(keys.sums + (key - keys.first) * keys.stride);
  }
  void add(size_t turn, std::span<const AttentionRows> rows, const TakenKeys& keys) {
    if (turn >= turns_.size()) turns_.resize(turn + 1);
    BackwardTiles& tiles = turns_[turn];
    const auto num_runs = [&] { return static_cast<int32_t>(tiles.runs.runs.size()); };
    const int32_t first_run = num_runs();
    tiles.runs.add(rows, {keys.first, keys.end, keys.blocks, 0}, shape_.block_size);
    for (const AttentionRows& r : rows) tiles.rows = std::max(tiles.rows, r.first_row + r.rows);
    add_key_tiles({first_run, num_runs(), static_cast<int32_t>(keys.first),
                   static_cast<int32_t>(keys.end), keys.sums, keys.stride},
                  tile_keys_, tiles.keys);
  }

  const AttentionShape shape_;
  const int32_t tile_keys_;
  float* const dqkv_;
  std::vector<BackwardTiles> turns_;
  std::map<const float*, size_t> next_;  // the first turn without the keys of these sums
};

}  // namespace

std::vector<AttentionRuns> turns_of_calls(std::span<const AttentionRows> calls,
                                          int64_t block_size) {
  std::vector<AttentionRuns> turns;
  for (const AttentionRows& rows : whole_sequences(calls)) {
    for (size_t t = 0; t < rows.runs.size(); ++t) {
      if (t == turns.size()) turns.emplace_back();
      turns[t].add({&rows, 1}, rows.runs[rows.runs.size() - 1 - t], block_size);
    }
  }
  return turns;
}

std::vector<BackwardTiles> backward_turns(const AttentionShape& shape, const BackwardWork& work,
                                          int32_t tile_keys, float* dqkv) {
  RL_CHECK(work.of_one_rank());
  BackwardTurns turns(shape, tile_keys, dqkv);
  std::vector<AttentionRows> rows;  // of the sequences of a part
  size_t part = 0;
  const auto end_part = [&] {
    for (const AttentionRows& own : rows)
      if (work.has_own_keys()) turns.add_own_keys(own);
    size_t turn = work.has_own_keys() ? 1 : 0;
    for (const TakenKeys& keys : joined_keys(work, part))
      turn = turns.add_prefix_keys(turn, rows, keys);
    rows.clear();
  };
  work.for_each_sequence([&](const AttentionRows& sequence, size_t of_part) {
    if (of_part != part && !rows.empty()) end_part();
    part = of_part;
    rows.push_back(sequence);
  });
  if (!rows.empty()) end_part();
  return turns.take();
}

}  // namespace rl::cuda

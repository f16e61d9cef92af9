#include "ops/cuda/attention_tiles.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/error.h"

namespace rl::cuda {
namespace {

int32_t int32_of(int64_t value) {
  RL_CHECK(value >= 0 && value <= std::numeric_limits<int32_t>::max());
  return static_cast<int32_t>(value);
}

// Whether rows go on where the run ends, in the same sequence.
bool follows(const AttentionRows& next, const AttentionRows& before) {
  return next.blocks == before.blocks && next.first_row == before.first_row + before.rows &&
         next.first_position == before.first_position + before.rows;
}

// The splits that hold keys of a row.
struct Splits {
  int32_t first, end;
  int32_t count() const { return end - first; }
};
int32_t first_key_of_row(const AttentionSizes& s, int32_t position) {
  return s.window == 0 || position < s.window ? 0 : position - s.window + 1;
}
Splits splits_of_row(const AttentionSizes& s, int32_t position) {
  return {first_key_of_row(s, position) / kSplitTokens, position / kSplitTokens + 1};
}

// Whether pairs [first, end) of a run attend a key of it.
bool attends(const AttentionSizes& s, const AttentionRun& run, int32_t first, int32_t end) {
  const int32_t last = run.first_position + (end - 1) / s.group;
  const int32_t first_key = first_key_of_row(s, run.first_position + first / s.group);
  return std::max(run.first_key, first_key) < std::min(run.end_key, last + 1);
}

// Tiles of the keys of prefixes. Parts that take the same keys follow one another; all their runs
// have one tile, so each gradient is written once.
class PrefixTiles {
 public:
  PrefixTiles(int32_t tile_keys, std::vector<KeyTile>& tiles)
      : tile_keys_(tile_keys), tiles_(tiles) {}

  // The keys that the next part takes, in order.
  void add_part(std::vector<KeyTile> keys) {
    auto before = open_.begin();
    for (KeyTile& tile : keys) {
      for (; before != open_.end() && before->first_key <= tile.first_key; ++before) {
        if (before->to == tile.to) {
          RL_CHECK(before->end_key == tile.end_key && before->end_run == tile.first_run);
          tile.first_run = before->first_run;
        } else {
          add_key_tiles(*before, tile_keys_, tiles_);
        }
      }
    }
    for (; before != open_.end(); ++before) add_key_tiles(*before, tile_keys_, tiles_);
    open_ = std::move(keys);
  }

 private:
  const int32_t tile_keys_;
  std::vector<KeyTile>& tiles_;
  std::vector<KeyTile> open_;  // of the last part; the next may take them too
};

}  // namespace

AttentionSizes attention_sizes(const AttentionShape& s, const AttentionRule& rule) {
  if (s.padded_dim() > kMaxAttentionWidth) {
    throw Error(Code::kUnsupported, str("cuda: attention with heads of ", s.head_dim,
                                        " components; the most is ", kMaxAttentionWidth));
  }
  RL_CHECK(s.heads % s.kv_heads == 0 && s.head_dim % 2 == 0);
  RL_CHECK(s.block_size >= 16 && std::has_single_bit(static_cast<uint64_t>(s.block_size)));
  const int64_t window = std::min<int64_t>(rule.window, std::numeric_limits<int32_t>::max());
  return {.heads = int32_of(s.heads),
          .kv_heads = int32_of(s.kv_heads),
          .group = int32_of(s.group()),
          .head_dim = int32_of(s.head_dim),
          .width = int32_of(s.padded_dim()),
          .block_size = int32_of(s.block_size),
          .block_shift = std::countr_zero(static_cast<uint64_t>(s.block_size)),
          .window = int32_of(window),
          .scale = rule.scale,
          .dtype = s.dtype,
          .kv_dtype = s.kv_dtype};
}

void AttentionRuns::add(const AttentionRows& rows, int64_t block_size) {
  const int64_t last = rows.first_position + rows.rows - 1;
  runs.push_back({int32_of(rows.first_row), int32_of(rows.rows), int32_of(rows.first_position),
                  int32_of(static_cast<int64_t>(blocks.size()))});
  blocks.insert(blocks.end(), rows.blocks, rows.blocks + last / block_size + 1);
}

void AttentionRuns::add(std::span<const AttentionRows> rows, const KeyRun& keys,
                        int64_t block_size) {
  const int32_t table = int32_of(static_cast<int64_t>(blocks.size()));
  blocks.insert(blocks.end(), keys.blocks, keys.blocks + (keys.end - 1) / block_size + 1);
  for (const AttentionRows& r : rows) {
    runs.push_back({int32_of(r.first_row), int32_of(r.rows), int32_of(r.first_position), table,
                    int32_of(keys.first), int32_of(keys.end)});
  }
}

AttentionRuns runs_of_calls(std::span<const AttentionRows> calls, int64_t block_size) {
  AttentionRuns out;
  for (size_t i = 0; i < calls.size();) {
    AttentionRows run = calls[i];
    for (++i; i < calls.size() && follows(calls[i], run); ++i) run.rows += calls[i].rows;
    out.add(run, block_size);
  }
  return out;
}

std::vector<AttentionTile> tiles_of_runs(const AttentionSizes& sizes,
                                         std::span<const AttentionRun> runs, int32_t pairs) {
  std::vector<AttentionTile> tiles;
  for (size_t i = 0; i < runs.size(); ++i) {
    const int32_t all = int32_of(int64_t{runs[i].rows} * sizes.group);
    for (int32_t pair = 0; pair < all; pair += pairs) {
      const int32_t end = std::min(all, pair + pairs);
      if (attends(sizes, runs[i], pair, end))
        tiles.push_back({static_cast<int32_t>(i), pair, end, -1, 0});
    }
  }
  return tiles;
}

SplitTiles split_tiles(const AttentionSizes& sizes, std::span<const AttentionRun> runs,
                       std::span<const AttentionTile> tiles, int64_t most_pairs) {
  SplitTiles out;
  for (const AttentionTile& tile : tiles) {
    const AttentionRun& run = runs[static_cast<size_t>(tile.run)];
    const Splits splits = splits_of_row(sizes, run.first_position);
    const int64_t pairs = int64_t{tile.end_pair} - tile.first_pair;
    if (run.rows > 1 || splits.count() == 1 ||
        out.partial_pairs + pairs * splits.count() > most_pairs) {
      out.tiles.push_back(tile);
      continue;
    }
    out.merged.push_back(
        {tile.run, tile.first_pair, tile.end_pair, splits.count(), int32_of(out.partial_pairs)});
    for (int32_t split = splits.first; split < splits.end; ++split) {
      out.tiles.push_back(
          {tile.run, tile.first_pair, tile.end_pair, split, int32_of(out.partial_pairs)});
      out.partial_pairs += pairs;
    }
  }
  return out;
}

void add_key_tiles(const KeyTile& all, int32_t tile_keys, std::vector<KeyTile>& tiles) {
  for (int32_t key = all.first_key; key < all.end_key;) {
    const int32_t end = std::min(all.end_key, (key / tile_keys + 1) * tile_keys);
    tiles.push_back({all.first_run, all.end_run, key, end,
                     all.to + (key - all.first_key) * all.stride, all.stride});
    key = end;
  }
}

BackwardTiles backward_tiles(const AttentionShape& s, const BackwardWork& work, int32_t tile_keys,
                             float* dqkv) {
  BackwardTiles out;
  const int64_t queries = s.heads * s.head_dim, width = queries + 2 * s.kv_heads * s.head_dim;
  PrefixTiles prefixes(tile_keys, out.keys);
  size_t last_part = 0;
  int32_t first_run = 0, run = 0;  // of the part whose sequences are being added
  const auto end_part = [&] {
    std::vector<KeyTile> keys;
    work.for_each_prefix_keys(last_part, [&](const BackwardWork::TakenKeys& k) {
      keys.push_back({first_run, run, int32_of(k.first), int32_of(k.end), k.sums, k.stride});
    });
    prefixes.add_part(std::move(keys));
    first_run = run;
  };
  work.for_each_sequence([&](const AttentionRows& rows, size_t part) {
    if (part != last_part) end_part();
    last_part = part;
    out.runs.add(rows, s.block_size);
    out.rows = std::max(out.rows, rows.first_row + rows.rows);
    add_key_tiles(
        {run, run + 1, int32_of(rows.first_position), int32_of(rows.first_position + rows.rows),
         dqkv + rows.first_row * width + queries, width},
        tile_keys, out.keys);
    ++run;
  });
  if (run == 0) return out;
  end_part();
  prefixes.add_part({});
  return out;
}

}  // namespace rl::cuda

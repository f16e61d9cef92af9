// Which keys of a sequence are in the rows of a rank: one run for each of its chunks.
#include "ops/divided_rows.h"

#include <algorithm>

namespace rl {
namespace {

// Keys in consecutive rows of the whole batch.
struct KeyRows {
  int64_t first_key, first_row, end_row;
  const int32_t* blocks;
};

void add_runs(const DividedRows& all, const KeyRows& keys, const RankRows& rows,
              std::vector<KeyRun>& out) {
  for (const RowChunk& c : all.chunks) {
    if (c.place < rows.begin || c.place >= rows.end) continue;
    const int64_t first = std::max(keys.first_row, c.first_row),
                  end = std::min(keys.end_row, c.end_row);
    if (first >= end) continue;
    const int64_t key = keys.first_key + first - keys.first_row;
    out.push_back({key, key + end - first, keys.blocks, c.place + first - c.first_row});
  }
}

}  // namespace

void add_key_runs(const DividedRows& all, const SequenceRows& whole, int64_t end,
                  const RankRows& rows, std::vector<KeyRun>& out) {
  const int64_t shared = whole.first_position;
  if (whole.prefix_sequence >= 0) {
    const SequenceRows& prompt = all.sequences[static_cast<size_t>(whole.prefix_sequence)];
    add_runs(all, {0, prompt.first_row, prompt.first_row + std::min(shared, end), prompt.blocks},
             rows, out);
  }
  add_runs(all, {shared, whole.first_row, whole.first_row + end - shared, whole.blocks}, rows, out);
}

void add_key_runs(const DividedRows& all, size_t index, const SequenceRows& own,
                  const RankRows& rows, std::vector<KeyRun>& out) {
  const int32_t whole = all.own[index];
  const int64_t end = own.first_position + own.rows;
  if (whole >= 0)
    return add_key_runs(all, all.sequences[static_cast<size_t>(whole)], end, rows, out);
  if (rows.own) out.push_back({0, end, own.blocks, rows.begin});
}

}  // namespace rl

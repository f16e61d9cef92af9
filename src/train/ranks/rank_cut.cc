#include "train/ranks/rank_cut.h"

#include <algorithm>

#include "comm/values.h"
#include "core/error.h"

namespace rl {
namespace {

using Units = std::vector<std::span<const PackItem>>;

size_t unit_length(std::span<const PackItem> items, const RankCut& cut) {
  if (!cut.whole_groups) return std::min(items.size(), static_cast<size_t>(cut.together));
  size_t n = 1;
  while (n < items.size() && items[n].sample->ordinal == items[0].sample->ordinal) ++n;
  return n;
}

Units units_of(std::span<const PackItem> items, const RankCut& cut) {
  Units units;
  while (!items.empty()) {
    units.push_back(items.first(unit_length(items, cut)));
    items = items.subspan(units.back().size());
  }
  return units;
}

int64_t cost_of(std::span<const PackItem> unit, const RankCut& cut) {
  const auto cost = [&](int64_t rows) { return sequence_cost(cut.cost, cut.hidden_size, rows); };
  int64_t sum = 0;
  while (!unit.empty()) {
    const size_t run = run_length(unit, cut.shared_prefix);
    int64_t computed = 0;
    for (const PackItem& item : unit.first(run)) {
      if (item.rows == 0) continue;
      sum += cost(item.rows);
      ++computed;
    }
    const int64_t prompt = unit.front().sample->prompt_tokens;
    sum -= std::max<int64_t>(0, computed - 1) * cost(prompt);
    unit = unit.subspan(run);
  }
  return sum;
}

// The units of each rank.
Partition shared_out(const Units& units, const RankCut& cut, int ranks) {
  Partition parts(static_cast<size_t>(ranks));
  if (cut.cost == BalanceCost::kNone || units.size() <= parts.size()) {
    for (int r = 0; r < ranks; ++r) {
      const Piece piece = piece_of(units.size(), r, ranks);
      for (uint64_t u = piece.begin; u < piece.end; ++u)
        parts[static_cast<size_t>(r)].push_back(static_cast<int32_t>(u));
    }
    return parts;
  }
  std::vector<int64_t> costs;
  for (const auto& unit : units) costs.push_back(cost_of(unit, cut));
  return balance(costs, ranks, false);
}

}  // namespace

std::vector<std::vector<PackItem>> cut_over_ranks(std::span<const PackItem> items,
                                                  const RankCut& cut, int ranks) {
  RL_CHECK(ranks >= 1 && cut.together >= 1);
  const Units units = units_of(items, cut);
  std::vector<std::vector<PackItem>> out;
  for (const std::vector<int32_t>& part : shared_out(units, cut, ranks)) {
    std::vector<PackItem>& own = out.emplace_back();
    for (const int32_t u : part) {
      const std::span<const PackItem> unit = units[static_cast<size_t>(u)];
      own.insert(own.end(), unit.begin(), unit.end());
    }
  }
  return out;
}

std::vector<PackItem> items_of_part(std::span<const PackItem> items, const RankCut& cut,
                                    const RankPart& part) {
  if (part.count == 1) return {items.begin(), items.end()};
  return cut_over_ranks(items, cut, part.count)[static_cast<size_t>(part.index)];
}

}  // namespace rl

// Balanced bins under a token budget: differencing, repair, first-fit, one more bin.
#include <algorithm>
#include <optional>

#include "algo/batching/balance.h"
#include "algo/choice.h"

namespace rl {
namespace {

struct Unit {
  int32_t first;  // sample
  int32_t count;
  int64_t tokens;
  int64_t cost;
};

// Bins of unit indices with their tokens.
struct Bins {
  Partition items;
  std::vector<int64_t> tokens;
};

std::vector<Unit> make_units(std::span<const int32_t> lengths, const MicroBatchParams& p) {
  std::vector<Unit> units;
  const auto size = static_cast<size_t>(p.group_size);
  for (size_t i = 0; i < lengths.size(); i += size) {
    Unit u{static_cast<int32_t>(i), p.group_size, 0, 0};
    for (size_t j = i; j < i + size; ++j) {
      require_value(lengths[j] >= 1, "lengths", lengths[j], "at least 1");
      u.tokens += lengths[j];
      u.cost += sequence_cost(p.cost, p.hidden_size, lengths[j]);
    }
    units.push_back(u);
  }
  return units;
}

Bins make_bins(Partition items, std::span<const Unit> units) {
  Bins bins{std::move(items), {}};
  for (const auto& bin : bins.items) {
    int64_t sum = 0;
    for (const int32_t u : bin) sum += units[static_cast<size_t>(u)].tokens;
    bins.tokens.push_back(sum);
  }
  return bins;
}

// A move of one unit out of the fullest bin, with or without another one in exchange.
struct Change {
  size_t give;                 // position in the fullest bin
  size_t bin;                  // the bin that takes it
  std::optional<size_t> take;  // position in that bin
  int64_t excess;              // excess of both bins after the change
};

void consider(const Bins& bins, std::span<const Unit> units, int64_t budget, size_t full,
              std::optional<Change>& best) {
  const int64_t now = bins.tokens[full] - budget;
  const auto tokens = [&](size_t bin, size_t at) {
    return units[static_cast<size_t>(bins.items[bin][at])].tokens;
  };
  const auto offer = [&](const Change& c, int64_t moved) {
    if (moved <= 0 || bins.tokens[c.bin] + moved > budget) return;
    Change seen = c;
    seen.excess = std::max<int64_t>(0, now - moved);
    if (seen.excess < now && (!best || seen.excess < best->excess)) best = seen;
  };
  for (size_t give = 0; give < bins.items[full].size(); ++give) {
    for (size_t bin = 0; bin < bins.items.size(); ++bin) {
      if (bin == full) continue;
      if (bins.items[full].size() > 1) offer({give, bin, {}, 0}, tokens(full, give));
      for (size_t take = 0; take < bins.items[bin].size(); ++take) {
        offer({give, bin, take, 0}, tokens(full, give) - tokens(bin, take));
      }
    }
  }
}

void apply(Bins& bins, std::span<const Unit> units, size_t full, const Change& c) {
  const int32_t given = bins.items[full][c.give];
  int64_t moved = units[static_cast<size_t>(given)].tokens;
  bins.items[full].erase(bins.items[full].begin() + static_cast<ptrdiff_t>(c.give));
  if (c.take) {
    const int32_t taken = bins.items[c.bin][*c.take];
    moved -= units[static_cast<size_t>(taken)].tokens;
    bins.items[c.bin].erase(bins.items[c.bin].begin() + static_cast<ptrdiff_t>(*c.take));
    bins.items[full].push_back(taken);
  }
  bins.items[c.bin].push_back(given);
  bins.tokens[full] -= moved;
  bins.tokens[c.bin] += moved;
}

// Each change lowers the excess of the fullest bin and makes no other bin exceed the budget, so
// this terminates. Returns false if no change helps.
bool repair(Bins& bins, std::span<const Unit> units, int64_t budget) {
  for (;;) {
    const auto most = std::max_element(bins.tokens.begin(), bins.tokens.end());
    if (*most <= budget) return true;
    const auto full = static_cast<size_t>(most - bins.tokens.begin());
    std::optional<Change> best;
    consider(bins, units, budget, full, best);
    if (!best) return false;
    apply(bins, units, full, *best);
  }
}

// At most `count` bins by first-fit with the longest unit first, or nothing.
std::optional<Bins> first_fit(std::span<const Unit> units, int64_t budget, size_t count) {
  std::vector<int32_t> order(units.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return units[static_cast<size_t>(a)].tokens > units[static_cast<size_t>(b)].tokens;
  });
  Bins bins;
  for (const int32_t u : order) {
    const int64_t tokens = units[static_cast<size_t>(u)].tokens;
    size_t bin = 0;
    while (bin < bins.items.size() && bins.tokens[bin] + tokens > budget) ++bin;
    if (bin == count) return {};
    if (bin == bins.items.size()) {
      bins.items.emplace_back();
      bins.tokens.push_back(0);
    }
    bins.items[bin].push_back(u);
    bins.tokens[bin] += tokens;
  }
  while (bins.items.size() < count) {
    auto most = std::max_element(bins.items.begin(), bins.items.end(),
                                 [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const int32_t moved = most->back();
    most->pop_back();
    bins.items.push_back({moved});
  }
  return make_bins(std::move(bins.items), units);
}

Partition fitting_units(std::span<const Unit> units, const MicroBatchParams& p, int64_t count) {
  std::vector<int64_t> costs;
  for (const Unit& u : units) costs.push_back(u.cost);
  for (; count <= static_cast<int64_t>(units.size()); count += p.divisor) {
    Bins bins = make_bins(balance(costs, static_cast<int32_t>(count), false), units);
    if (repair(bins, units, p.max_tokens)) return std::move(bins.items);
    auto packed = first_fit(units, p.max_tokens, static_cast<size_t>(count));
    if (packed) return std::move(packed->items);
  }
  throw Error(Code::kInvalidArgument,
              str(units.size(), " units do not fit into a multiple of ", p.divisor,
                  " micro-batches of at most ", p.max_tokens, " tokens"))
      .with_key("trainer.max_tokens_per_device");
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void check(const MicroBatchParams& p) {
  require_value(p.max_tokens >= 1, "trainer.max_tokens_per_device",
                static_cast<double>(p.max_tokens), "at least 1");
  require_value(p.min_count >= 1, "min_count", p.min_count, "at least 1");
  require_value(p.divisor >= 1, "divisor", p.divisor, "at least 1");
}

void check_groups(std::span<const int32_t> lengths, const MicroBatchParams& p) {
  require_value(p.group_size >= 1, "group_size", p.group_size, "at least 1");
  if (lengths.size() % static_cast<size_t>(p.group_size) == 0) return;
  throw Error(Code::kInvalidArgument,
              str(lengths.size(), " samples are not a multiple of group_size ", p.group_size))
      .with_key("group_size");
}

[[noreturn]] void fail_oversize(const Unit& u, int64_t budget) {
  throw Error(Code::kOutOfRange, str(u.count == 1 ? "sample " : "the group from sample ", u.first,
                                     " has ", u.tokens, " tokens, above the budget of ", budget))
      .with_key("trainer.max_tokens_per_device");
}

Partition cut_units(std::span<const Unit> units, const MicroBatchParams& p) {
  std::vector<Unit> fitting;
  Partition out;
  const auto samples = [](const Unit& u) {
    std::vector<int32_t> ids(static_cast<size_t>(u.count));
    for (int32_t j = 0; j < u.count; ++j) ids[static_cast<size_t>(j)] = u.first + j;
    return ids;
  };
  int64_t total = 0;
  for (const Unit& u : units) {
    if (u.tokens > p.max_tokens) {
      if (!p.oversize_alone) fail_oversize(u, p.max_tokens);
      out.push_back(samples(u));
      continue;
    }
    fitting.push_back(u);
    total += u.tokens;
  }
  if (fitting.empty() && out.size() % static_cast<size_t>(p.divisor) == 0) return out;
  const auto alone = static_cast<int64_t>(out.size());
  const auto many = static_cast<int64_t>(fitting.size());
  const int64_t least = std::max(round_up(total, p.max_tokens) / p.max_tokens,
                                 std::min<int64_t>(many, p.min_count - alone));
  const int64_t count = round_up(std::max<int64_t>(1, least) + alone, p.divisor) - alone;
  for (const auto& bin : fitting_units(fitting, p, count)) {
    auto& ids = out.emplace_back();
    for (const int32_t u : bin) {
      const auto more = samples(fitting[static_cast<size_t>(u)]);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    std::sort(ids.begin(), ids.end());
  }
  return out;
}

}  // namespace

Partition cut_micro_batches(std::span<const int32_t> lengths, const MicroBatchParams& p) {
  check(p);
  check_groups(lengths, p);
  return cut_units(make_units(lengths, p), p);
}

Partition cut_micro_batches(std::span<const WorkUnit> given, const MicroBatchParams& p) {
  check(p);
  std::vector<Unit> units;
  for (const WorkUnit& u : given) {
    require_value(u.tokens >= 1, "tokens", static_cast<double>(u.tokens), "at least 1");
    require_value(u.cost >= 0, "cost", static_cast<double>(u.cost), "at least 0");
    units.push_back({static_cast<int32_t>(units.size()), 1, u.tokens, u.cost});
  }
  return cut_units(units, p);
}

}  // namespace rl

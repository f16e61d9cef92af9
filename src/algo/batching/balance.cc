// The differencing method. A state keeps only its non-empty sets, largest first; the rest of its k
// places are empty.
#include "algo/batching/balance.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <queue>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<BalanceCost>, 3> kCosts{{
    {BalanceCost::kNone, "none"},
    {BalanceCost::kTokens, "tokens"},
    {BalanceCost::kFlops, "flops"},
}};

struct Set {
  int64_t sum = 0;
  std::vector<int32_t> items;
};

bool larger(const Set& a, const Set& b) {
  if (a.sum != b.sum) return a.sum > b.sum;
  if (a.items.size() != b.items.size()) return a.items.size() > b.items.size();
  return a.items > b.items;
}

struct State {
  std::vector<Set> sets;
  int64_t spread = 0;

  void order(size_t k) {
    std::sort(sets.begin(), sets.end(), larger);
    spread = sets.front().sum - (sets.size() < k ? 0 : sets.back().sum);
  }
};

// Set i of one is merged with set k - 1 - i of the other.
State merged(State a, State b, size_t k) {
  for (size_t j = 0; j < b.sets.size(); ++j) {
    const size_t place = k - 1 - j;
    if (place >= a.sets.size()) continue;
    Set& into = a.sets[place];
    into.sum += b.sets[j].sum;
    std::copy(b.sets[j].items.begin(), b.sets[j].items.end(), std::back_inserter(into.items));
    b.sets[j].items.clear();
  }
  for (Set& s : b.sets) {
    if (!s.items.empty()) a.sets.push_back(std::move(s));
  }
  a.order(k);
  return a;
}

std::vector<State> first_states(std::span<const int64_t> costs, size_t k, bool equal_size) {
  std::vector<int32_t> by_cost(costs.size());
  for (size_t i = 0; i < costs.size(); ++i) by_cost[i] = static_cast<int32_t>(i);
  std::stable_sort(by_cost.begin(), by_cost.end(), [&](int32_t a, int32_t b) {
    return costs[static_cast<size_t>(a)] < costs[static_cast<size_t>(b)];
  });
  const size_t per_state = equal_size ? k : 1;
  std::vector<State> states;
  for (size_t i = 0; i < by_cost.size(); i += per_state) {
    State state;
    for (size_t j = i; j < i + per_state; ++j) {
      state.sets.push_back({costs[static_cast<size_t>(by_cost[j])], {by_cost[j]}});
    }
    state.order(k);
    states.push_back(std::move(state));
  }
  return states;
}

State reduce(std::vector<State> states, size_t k) {
  const auto narrower = [&](size_t a, size_t b) {
    const State& x = states[a];
    const State& y = states[b];
    if (x.spread != y.spread) return x.spread < y.spread;
    return larger(y.sets.front(), x.sets.front());
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(narrower)> widest(narrower);
  for (size_t i = 0; i < states.size(); ++i) widest.push(i);
  while (widest.size() > 1) {
    const size_t a = widest.top();
    widest.pop();
    const size_t b = widest.top();
    widest.pop();
    states[a] = merged(std::move(states[a]), std::move(states[b]), k);
    widest.push(a);
  }
  return std::move(states[widest.top()]);
}

// Zero costs can leave sets empty.
void fill_empty(State& state, size_t k) {
  while (state.sets.size() < k) {
    auto most = std::max_element(
        state.sets.begin(), state.sets.end(),
        [](const Set& a, const Set& b) { return a.items.size() < b.items.size(); });
    const int32_t moved = most->items.back();
    most->items.pop_back();
    state.sets.push_back({0, {moved}});
  }
}

}  // namespace

std::string_view balance_cost_name(BalanceCost v) { return choice_name(kCosts, v); }
BalanceCost parse_balance_cost(std::string_view text) {
  return parse_choice("trainer.balance", kCosts, text);
}

int64_t sequence_cost(BalanceCost kind, int64_t hidden_size, int64_t length) {
  constexpr int64_t kMaxLength = int64_t{1} << 31;
  constexpr int64_t kMaxHidden = int64_t{1} << 20;
  require_value(length >= 0 && length <= kMaxLength, "length", static_cast<double>(length),
                "0..2^31");
  require_value(hidden_size >= 1 && hidden_size <= kMaxHidden, "hidden_size",
                static_cast<double>(hidden_size), "1..2^20");
  if (kind == BalanceCost::kNone) return 1;
  return kind == BalanceCost::kTokens ? length : 6 * hidden_size * length + length * length;
}

Partition balance(std::span<const int64_t> costs, int32_t k, bool equal_size) {
  const auto sets = static_cast<size_t>(k);
  if (k < 1 || costs.size() < sets || (equal_size && costs.size() % sets != 0)) {
    throw Error(Code::kInvalidArgument, str(costs.size(), " items cannot be split into ", k,
                                            equal_size ? " equal-sized" : "", " non-empty sets"))
        .with_key("k");
  }
  for (const int64_t c : costs) {
    require_value(c >= 0, "costs", static_cast<double>(c), "at least 0");
  }
  State state = reduce(first_states(costs, sets, equal_size), sets);
  fill_empty(state, sets);
  Partition out;
  for (Set& s : state.sets) {
    std::sort(s.items.begin(), s.items.end());
    out.push_back(std::move(s.items));
  }
  return out;
}

Partition balance_groups(std::span<const int64_t> costs, std::span<const int32_t> group,
                         int32_t k) {
  require_same_size("group", group.size(), costs.size());
  std::vector<int64_t> group_cost;
  for (size_t i = 0; i < group.size(); ++i) {
    require_value(group[i] >= 0 && static_cast<size_t>(group[i]) < costs.size(), "group", group[i],
                  "0 to the number of samples");
    const auto g = static_cast<size_t>(group[i]);
    if (g >= group_cost.size()) group_cost.resize(g + 1);
    group_cost[g] += costs[i];
  }
  Partition out;
  for (const auto& groups : balance(group_cost, k, true)) {
    auto& set = out.emplace_back();
    for (size_t i = 0; i < group.size(); ++i) {
      if (std::binary_search(groups.begin(), groups.end(), group[i])) {
        set.push_back(static_cast<int32_t>(i));
      }
    }
  }
  return out;
}

}  // namespace rl

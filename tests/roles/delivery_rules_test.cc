// How far rollout may run ahead: against a trainer that takes groups in any order that the store
// allows, drops some, and saves now and then. No group is trained on too old, and neither side
// waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "pipeline/roles/group_deliveries.h"

namespace rl {
namespace {

TEST(DeliveryRules, AreThoseOfARunThatGeneratesAhead) {
  const DeliveryRules rules{4, 2};
  EXPECT_EQ(num_to_draw_ahead(rules, {0, 0, 4, 0, 0}), 12);
  EXPECT_EQ(num_to_draw_ahead(rules, {0, 0, 4, 12, 0}), 0);
  EXPECT_EQ(num_to_draw_ahead(rules, {0, 1, 4, 8, 0}), 0) << "a step is training";
  EXPECT_EQ(num_to_draw_ahead(rules, {0, 1, 3, 8, 0}), 1) << "one of its groups was dropped";
  EXPECT_EQ(num_to_draw_ahead(rules, {1, 1, 4, 8, 0}), 0) << "the oldest waits since step 0";
  EXPECT_EQ(num_to_draw_ahead(rules, {2, 2, 4, 1, 0}), 3) << "one slow group holds back others";
  EXPECT_EQ(num_to_draw_ahead({1, 0}, {7, 7, 1, 0, 7}), 1);
  EXPECT_EQ(num_to_draw_ahead({1, 0}, {7, 8, 1, 0, 7}), 0);
}

// A run of both sides, by chance. Groups become complete in any order; the trainer takes the oldest
// of those that are, drops some of them, and saves every few steps.
struct Simulation {
  DeliveryRules rules;
  int64_t save_every = 1;
  std::mt19937 random;

  struct Drawn {
    int64_t saved = 0;  // at its draw
    bool complete = false;
    int64_t step = 0;  // that it is taken for
  };
  std::map<int64_t, Drawn> waiting = {}, taken = {};  // by ordinal
  int64_t next = 0, saved = 0, step = 0, oldest_age = 0;

  bool by_chance(int64_t one_in) { return int64_t(random() % uint64_t(one_in)) == 0; }
  int64_t num_taken(int64_t of_step) const {
    return std::ranges::count(taken, of_step, [](const auto& item) { return item.second.step; });
  }

  bool draw() {
    DeliveryProgress now{saved, saved, rules.batch_groups, int64_t(waiting.size()), saved};
    if (!taken.empty()) {
      for (const auto& [ordinal, group] : taken)
        now.taken_for = std::max(now.taken_for, group.step);
      now.taken_groups = num_taken(now.taken_for);
    }
    for (const auto& [ordinal, group] : waiting) now.oldest = std::min(now.oldest, group.saved);
    const int64_t room = num_to_draw_ahead(rules, now);
    for (int64_t i = 0; i < room; ++i) waiting[next++] = {saved};
    return room > 0;
  }
  bool complete() {
    std::vector<int64_t> open;
    for (const auto& [ordinal, group] : waiting) {
      if (!group.complete) open.push_back(ordinal);
    }
    if (open.empty()) return false;
    // The first is slow.
    const size_t first = open.size() > 1 && !by_chance(10) ? 1 : 0;
    waiting[open[first + random() % (open.size() - first)]].complete = true;
    return true;
  }
  // All that are missing at once.
  bool train() {
    int64_t kept = num_taken(step + 1);
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const auto& [ordinal, group] : waiting) {
      if (group.complete) found.emplace_back(group.saved, ordinal);
    }
    const auto missing = static_cast<size_t>(rules.batch_groups - kept);
    if (found.size() < missing) return false;
    std::ranges::sort(found);
    found.resize(missing);
    for (const auto& [drawn, ordinal] : found) {
      if (!by_chance(5)) {
        taken[ordinal] = {drawn, true, step + 1};
        oldest_age = std::max(oldest_age, step - drawn);
        ++kept;
      }
      waiting.erase(ordinal);
    }
    if (kept < rules.batch_groups) return true;
    ++step;
    if (step % save_every != 0) return true;
    saved = step;
    taken.clear();
    return true;
  }
  void kill_trainer() {
    for (const auto& [ordinal, group] : taken) waiting[ordinal] = {group.saved, true};
    taken.clear();
    step = saved;
  }
  // What was under way is drawn again.
  void kill_rollout() {
    for (auto& [ordinal, group] : waiting) {
      if (!group.complete) group.saved = saved;
    }
  }
};

TEST(DeliveryRules, KeepEveryGroupWithinItsBoundAndNeverStop) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Simulation run{.rules = {1 + seed % 4, seed / 4 % 4}, .random = std::mt19937(seed)};
    run.save_every = 1 + seed / 16 % (run.rules.max_staleness + 1);
    for (int i = 0; i < 3000; ++i) {
      if (run.by_chance(40)) run.kill_trainer();
      if (run.by_chance(40)) run.kill_rollout();
      const unsigned first = run.random() % 3;
      bool worked = false;
      for (unsigned k = 0; k < 3 && !worked; ++k) {
        const unsigned what = (first + k) % 3;
        worked = what == 0 ? run.draw() : what == 1 ? run.complete() : run.train();
      }
      ASSERT_TRUE(worked) << "seed " << seed << " waits for ever in step " << run.step;
    }
    EXPECT_LE(run.oldest_age, run.rules.max_staleness) << "seed " << seed;
    EXPECT_GT(run.next, 20) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rl

// Requests go where the least is to do, unless an engine in reach has more of their prefix.
#include "rollout/router.h"

#include <gtest/gtest.h>

#include <vector>

namespace rl {
namespace {

size_t routed(const std::vector<EngineLoad>& loads, int64_t slack = 4) {
  return route(loads, slack);
}

TEST(Router, TheLeastLoadedEngineIsTaken) {
  EXPECT_EQ(routed({{3, 0}, {1, 0}, {2, 0}}), 1u);
  EXPECT_EQ(routed({{2, 0}, {2, 0}, {2, 0}}), 0u);
  EXPECT_EQ(routed({{7, 0}}), 0u);
}

TEST(Router, APrefixIsWorthALoadWithinTheBound) {
  EXPECT_EQ(routed({{0, 0}, {4, 16}}), 1u);
  EXPECT_EQ(routed({{0, 0}, {5, 16}}), 0u);
  EXPECT_EQ(routed({{4, 32}, {0, 16}, {4, 48}}), 2u);
  EXPECT_EQ(routed({{1, 32}, {0, 16}, {9, 48}}), 0u);
}

TEST(Router, AmongEqualPrefixesTheLessLoadedIsTaken) {
  EXPECT_EQ(routed({{3, 16}, {2, 16}, {0, 0}}), 1u);
  EXPECT_EQ(routed({{3, 16}, {3, 16}, {0, 0}}), 0u);
}

TEST(Router, TheBoundIsAQuarterOfTheRunningSamplesAndAtLeastOne) {
  EXPECT_EQ(affinity_slack(64), 16);
  EXPECT_EQ(affinity_slack(7), 1);
  EXPECT_EQ(affinity_slack(1), 1);
}

}  // namespace
}  // namespace rl

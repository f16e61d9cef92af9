// Figures of several engines together.
#include "rollout/engine_meter.h"

#include <gtest/gtest.h>

namespace rl {
namespace {

TEST(EngineStats, LongestTimesAreTheLongestAndAllElseIsAdded) {
  EngineStats a, b;
  a.longest_queue_ns = 5;
  b.longest_queue_ns = 3;
  a.longest_first_token_ns = 7;
  b.longest_first_token_ns = 9;
  a.queue_ns = 11;
  b.queue_ns = 13;
  a.begun = 1;
  b.begun = 2;
  a += b;
  EXPECT_EQ(a.longest_queue_ns, 5);
  EXPECT_EQ(a.longest_first_token_ns, 9);
  EXPECT_EQ(a.queue_ns, 24);
  EXPECT_EQ(a.begun, 3);
}

}  // namespace
}  // namespace rl

// Philox against the known-answer vectors published with Random123, and the shape of the draws
// built on it.
#include "core/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace rl {
namespace {

TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, EveryPartOfTheKeyChangesTheDraw) {
  const PhiloxKey key{1, RngPurpose::kSampling};
  std::set<double> draws;
  draws.insert(uniform(key, 0, 0, 0));
  draws.insert(uniform({2, RngPurpose::kSampling}, 0, 0, 0));
  draws.insert(uniform({uint64_t{1} << 32 | 1, RngPurpose::kSampling}, 0, 0, 0));
  draws.insert(uniform({1, RngPurpose::kShuffle}, 0, 0, 0));
  draws.insert(uniform(key, 1, 0, 0));
  draws.insert(uniform(key, uint64_t{1} << 32, 0, 0));
  draws.insert(uniform(key, 0, 1, 0));
  draws.insert(uniform(key, 0, 0, 1));
  EXPECT_EQ(draws.size(), 8u);
  EXPECT_EQ(uniform(key, 3, 4, 5), uniform(key, 3, 4, 5));
}

TEST(Uniform, LiesInTheUnitIntervalWithTheRightMoments) {
  const PhiloxKey key{42, RngPurpose::kSampling};
  const int count = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double u = uniform(key, 7, 3, static_cast<uint32_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  // Five standard errors: the mean's is sqrt(1/12/n) = 0.00091, the second moment's sqrt(4/45/n) =
  // 0.00094.
  EXPECT_NEAR(sum / count, 0.5, 0.0046);
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.0047);
}

}  // namespace
}  // namespace rl

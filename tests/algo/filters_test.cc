#include "algo/batching/filters.h"

#include <cmath>
#include <vector>

#include "support/expect_error.h"

namespace rl {
namespace {

using Values = std::vector<double>;

TEST(Filters, ZeroAdvantageNeedsEveryZero) {
  EXPECT_TRUE(is_zero_advantage(Values{0, -0.0, 0}));
  EXPECT_FALSE(is_zero_advantage(Values{0, 1e-300}));
}

TEST(Filters, EqualValuesHaveNoSpreadWhateverTheirMeanRoundsTo) {
  EXPECT_TRUE(has_no_spread(Values{0.1, 0.1, 0.1}, 0));
  EXPECT_FALSE(has_no_spread(Values{0.1, 0.1, 0.2}, 0));
  EXPECT_TRUE(has_no_spread(Values{1, 1 + 1e-7}, 1e-6));
  EXPECT_FALSE(has_no_spread(Values{1}, 0));
}

TEST(Filters, DynamicFilterIsStrictAtBothEnds) {
  EXPECT_FALSE(passes({0, 1}, Values{0, 0}));
  EXPECT_TRUE(passes({0, 1}, Values{0, 1}));
  EXPECT_FALSE(passes({0, 1}, Values{1, 1}));
  EXPECT_FALSE(passes({0, 1}, {}));
}

TEST(Filters, RepetitionIsTheShareOfRepeatedNgrams) {
  EXPECT_EQ(repetition(std::vector<int32_t>{1, 2, 3, 4}, 2), 0);
  EXPECT_EQ(repetition(std::vector<int32_t>{1, 2, 1, 2, 1}, 2), 0.5);
  EXPECT_EQ(repetition(std::vector<int32_t>(9, 7), 1), 1 - 1.0 / 9);
  EXPECT_EQ(repetition(std::vector<int32_t>{1}, 2), 0);
  EXPECT_EQ(repetition(std::vector<int32_t>{1, 1}, 2), 0);
  EXPECT_EQ(repetition(std::vector<int32_t>{1, 1, 1}, 2), 0.5);
}

TEST(Filters, RefuseBadParameters) {
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [] {
                           validate(DynamicFilter{1, 1});
                         })
                .key,
            "pipeline.filter");
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [] {
                           validate(DynamicFilter{NAN, 1});
                         })
                .key,
            "pipeline.filter");
  expect_error(Code::kOutOfRange, [] { has_no_spread(Values{1, 2}, -1); });
  expect_error(Code::kOutOfRange, [] { repetition({}, 0); });
}

}  // namespace
}  // namespace rl

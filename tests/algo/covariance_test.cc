#include "algo/losses/covariance.h"

#include <vector>

#include "support/expect_error.h"

namespace rl {
namespace {

using Marks = std::vector<uint8_t>;
using Values = std::vector<double>;

TEST(Covariance, IsTheProductOfDeviations) {
  const std::vector<float> advantage{1, 3}, log_prob{-1, -2};
  Values cov(2);
  token_covariances({2, -1.5}, advantage, log_prob, cov);
  EXPECT_EQ(cov, (Values{-0.5, -0.5}));
}

TEST(Covariance, TheLargestShareIsSelectedAndTiesGoToTheFirst) {
  Marks marks(5, 9);
  select_largest(0.4, Values{1, 3, 2, 3, 3}, marks);
  EXPECT_EQ(marks, (Marks{0, 1, 0, 1, 0}));
  select_largest(1e-4, Values{1, 3, 2, 3, 3}, marks);
  EXPECT_EQ(marks, (Marks{0, 1, 0, 0, 0}));
  Marks none;
  select_largest(0.5, {}, none);
}

TEST(Covariance, CandidatesBetweenTheBoundsAreDrawnByTheirNumber) {
  const Values cov{0.5, 2, 3, 4, 6};
  const Marks clipped{0, 0, 0, 1, 0};
  Marks marks(5);
  select_between({.ratio = 0.2, .low = 1, .high = 5}, {cov, clipped, Values{0, .9, .1, 0, 0}},
                 marks);
  EXPECT_EQ(marks, (Marks{0, 0, 1, 0, 0}));
  select_between({.ratio = 1, .low = 1, .high = 5}, {cov, clipped, Values{0, .9, .1, 0, 0}}, marks);
  EXPECT_EQ(marks, (Marks{0, 1, 1, 0, 0}));
}

TEST(Covariance, RefusesBadInput) {
  Marks marks(1);
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { select_largest(0, Values{1}, marks); }).key,
            "algo.cov_ratio");
  expect_error(Code::kInvalidArgument, [&] { select_largest(1, Values{1, 2}, marks); });
}

}  // namespace
}  // namespace rl

#include "algo/advantages/returns.h"

#include <cmath>

#include "algo/advantages/reward.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Values = std::vector<double>;

const std::vector<int32_t> kLengths{4, 0, 2};
const std::vector<uint8_t> kMask{1, 0, 1, 1, 0, 1};

TEST(Returns, MaskedTokensAreNeverReadAndGetExactlyZero) {
  const Values clean{1, 0, 2, 3, 0, 4}, dirty{1, NAN, 2, 3, INFINITY, 4};
  for (const MaskedTokens masked : {MaskedTokens::kSkip, MaskedTokens::kZero}) {
    const ReturnsParams p{.gamma = 0.5, .lambda = 0.25, .masked = masked};
    Values a(6, 9), b(6, 9), ra(6, 9), rb(6, 9);
    gae(p, {{kLengths, kMask}, clean, clean}, {a, ra});
    gae(p, {{kLengths, kMask}, dirty, dirty}, {b, rb});
    EXPECT_EQ(a, b);
    EXPECT_EQ(ra, rb);
    EXPECT_EQ(a[1], 0);
    EXPECT_EQ(ra[4], 0);
    discounted_returns(p, {kLengths, kMask}, clean, a);
    discounted_returns(p, {kLengths, kMask}, dirty, b);
    EXPECT_EQ(a, b);
    remax_advantages({kLengths, kMask}, clean, Values{1, 2, 3}, a);
    remax_advantages({kLengths, kMask}, dirty, Values{1, 2, 3}, b);
    EXPECT_EQ(a, b);
  }
}

TEST(Returns, SkipCarriesOverMaskedTokensAndZeroDiscountsThem) {
  const Values rewards{1, 0, 2, 4, 0, 8};
  Values out(6);
  discounted_returns({.gamma = 0.5}, {kLengths, kMask}, rewards, out);
  EXPECT_EQ(out, (Values{3, 0, 4, 4, 0, 8}));
  discounted_returns({.gamma = 0.5, .masked = MaskedTokens::kZero}, {kLengths, kMask}, rewards,
                     out);
  EXPECT_EQ(out, (Values{2, 0, 4, 4, 0, 8}));
}

TEST(Returns, GaeWithLambdaOneIsReturnLessValue) {
  const Values rewards{1, 0, 2, 4, 0, 8}, values{0.5, 9, 0.25, 1, 9, 2};
  Values advantages(6), returns(6), togo(6);
  gae({.gamma = 0.5, .lambda = 1}, {{kLengths, kMask}, rewards, values}, {advantages, returns});
  discounted_returns({.gamma = 0.5}, {kLengths, kMask}, rewards, togo);
  EXPECT_EQ(returns, togo);
}

TEST(Returns, TheRewardOfASampleSitsAtItsLastLossToken) {
  const std::vector<int32_t> lengths{2, 1};
  const std::vector<uint8_t> mask{1, 0, 0};
  Values out(3, 5);
  token_rewards({{lengths, mask}, Values{2, 3}, {}, 0}, out);
  EXPECT_EQ(out, (Values{2, 0, 0}));
  token_rewards({{lengths, mask}, Values{2, 3}, Values{0.5, NAN, NAN}, 0.25}, out);
  EXPECT_EQ(out, (Values{2 - 0.125, 0, 0}));
}

TEST(Returns, RefusesShapesThatDoNotFit) {
  Values out(6);
  const Values rewards(6), five(5);
  expect_error(Code::kInvalidArgument, [&] {
    discounted_returns({}, {kLengths, kMask}, five, out);
  });
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           discounted_returns({.gamma = 2}, {kLengths, kMask}, rewards, out);
                         })
                .key,
            "algo.gamma");
  EXPECT_EQ(expect_error(Code::kOutOfRange, [] { validate(ReturnsParams{.lambda = -1}); }).key,
            "algo.lambda");
  EXPECT_EQ(parse_masked_tokens("zero"), MaskedTokens::kZero);
}

}  // namespace
}  // namespace rl

#include "algo/losses/policy_loss.h"

#include <cmath>
#include <vector>

#include "support/expect_error.h"

namespace rl {
namespace {

TEST(PolicyLoss, FirstStepAfterSamplingHasRatioExactlyOne) {
  for (const float lp : {-0.1f, -3.7f, -21.0f}) {
    const TokenLoss t = token_policy_loss({}, lp, lp, 0.3);
    EXPECT_EQ(t.value, -0.3);
    EXPECT_EQ(t.gradient, -0.3);
    EXPECT_FALSE(t.clipped);
  }
}

TEST(PolicyLoss, AClampedLogRatioHasNoGradient) {
  const TokenLoss above = token_policy_loss({}, 21.0, 0.0, -1.0);
  EXPECT_EQ(above.value, std::exp(20.0));
  EXPECT_EQ(above.gradient, 0.0);
  const TokenLoss open = token_policy_loss({.ratio_log_clamp = 0}, 21.0, 0.0, -1.0);
  EXPECT_EQ(open.gradient, std::exp(21.0));
}

TEST(PolicyLoss, GradientIsTheDerivativeOfTheValue) {
  const PolicyLossParams params{.clip_low = 0.2, .clip_high = 0.28, .dual_clip = 3.0};
  for (const double x : {-21.0, -1.0, -0.1, 0.05, 0.2, 0.5, 1.5, 21.0}) {
    for (const double advantage : {-1.5, 0.75}) {
      const double h = 1e-6;
      const double up = token_policy_loss(params, x + h, 0, advantage).value;
      const double down = token_policy_loss(params, x - h, 0, advantage).value;
      // Central difference: error h^2 times a third derivative below 10, plus rounding 1e-15 / h.
      EXPECT_NEAR(token_policy_loss(params, x, 0, advantage).gradient, (up - down) / (2 * h), 1e-7)
          << x;
    }
  }
}

// gspo is clamped from above alone; what is masked gets nothing of its sequence's gradient.
TEST(PolicyLoss, GspoIsOpenFromBelowAndLeavesMaskedTokensAlone) {
  PolicyLossParams params{.kind = PolicyLoss::kGspo, .clip_low = 1, .ratio_log_clamp = 2};
  params.gspo_gradient = GspoGradient::kSequence;
  const std::vector<float> old{0, 0, 0}, now{-3, 9, -5}, advantage{1, 1, 1};
  const std::vector<double> weight{0.5, 0, 0.5};
  const std::vector<int32_t> lengths{3};
  PolicyLossInput in{now, old, advantage, weight};
  in.lengths = lengths;
  std::vector<double> gradient(3);
  const double ratio = std::exp(-4.0);  // of the mean of -3 and -5
  EXPECT_DOUBLE_EQ(policy_loss(params, in, gradient).loss, -ratio);
  EXPECT_DOUBLE_EQ(gradient[0], -ratio / 2);
  EXPECT_EQ(gradient[1], 0);
  EXPECT_DOUBLE_EQ(gradient[2], -ratio / 2);
}

// The clamp of x makes both terms of a selected token constant.
TEST(PolicyLoss, AClampedTokenThatKlCovSelectsHasNoGradient) {
  const PolicyLossParams params{
      .kind = PolicyLoss::kKlCov, .ratio_log_clamp = 2, .kl_cov_coef = 0.5};
  for (const double x : {-3.0, 3.0}) {
    const TokenLoss t = token_policy_loss(params, x, 0, -1.0, true);
    EXPECT_EQ(t.gradient, 0.0) << x;
    EXPECT_DOUBLE_EQ(t.value, std::exp(std::copysign(2.0, x)) + 0.5 * 2);
    const TokenLoss inside = token_policy_loss(params, x / 2, 0, -1.0, true);
    EXPECT_DOUBLE_EQ(inside.gradient, std::exp(x / 2) + std::copysign(0.5, x));
  }
}

TEST(PolicyLoss, RefusesBadParametersAndSizes) {
  const auto key_of = [](const PolicyLossParams& p) {
    return expect_error(Code::kOutOfRange, [&] { validate(p); }).key;
  };
  EXPECT_EQ(key_of({.clip_low = 1.5}), "algo.clip_low");
  EXPECT_EQ(key_of({.clip_high = std::nan("")}), "algo.clip_high");
  EXPECT_EQ(key_of({.dual_clip = 1.0}), "algo.dual_clip");
  EXPECT_EQ(key_of({.ratio_log_clamp = -1}), "algo.ratio_log_clamp");
  const std::vector<float> two(2), one(1);
  const std::vector<double> weight(2);
  std::vector<double> gradient(2);
  EXPECT_EQ(expect_error(Code::kInvalidArgument,
                         [&] {
                           policy_loss({}, {two, one, two, weight}, gradient);
                         })
                .key,
            "old_log_prob");
  EXPECT_EQ(parse_policy_loss("none"), PolicyLoss::kNone);
  EXPECT_EQ(policy_loss_name(PolicyLoss::kPpoClip), "ppo_clip");
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [] { parse_policy_loss("ppo"); }).key,
            "algo.policy_loss");
}

}  // namespace
}  // namespace rl

// The bounds of every parameter of an algorithm, from both sides, and small formulas at the values
// where their cases meet.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "algo/advantages/kl_controller.h"
#include "algo/advantages/returns.h"
#include "algo/advantages/reward.h"
#include "algo/batching/filters.h"
#include "algo/losses/policy_loss.h"
#include "algo/moments.h"
#include "algo/optimizers/schedule.h"
#include "algo/sampling/sampling.h"
#include "support/expect_error.h"

namespace rl {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = NAN;
constexpr float kInfF = std::numeric_limits<float>::infinity();

using Values = std::vector<double>;
using Mask = std::vector<uint8_t>;

template <typename P>
void expect_accepted(const std::vector<P>& all) {
  for (size_t i = 0; i < all.size(); ++i) EXPECT_NO_THROW(validate(all[i])) << "entry " << i;
}

template <typename P>
void expect_refused(const std::string& key, const std::vector<P>& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const Error e = expect_error(Code::kOutOfRange, [&] { validate(all[i]); });
    EXPECT_EQ(e.key, key);
    EXPECT_FALSE(e.expected.empty());
    EXPECT_TRUE(contains(e.message, key + " is "));
    EXPECT_TRUE(contains(e.message, e.expected));
  }
}

using Sampling = std::vector<SamplingParams>;

TEST(ParameterBounds, OfSampling) {
  expect_accepted(Sampling{{},
                           {.temperature = 0},
                           {.temperature = 1e-6f},
                           {.top_p = 1e-6f},
                           {.min_p = 1},
                           {.repetition_penalty = 0.01f},
                           {.top_k = std::numeric_limits<int32_t>::max()},
                           {.presence_penalty = -2},
                           {.presence_penalty = 2},
                           {.frequency_penalty = -2},
                           {.frequency_penalty = 2},
                           {.top_logprobs = 20},
                           {.logit_bias = {{0, 100.0f}, {1, -100.0f}}},
                           {.allowed_token_ids = {0}}});
  expect_refused(
      "sampling.temperature",
      Sampling{{.temperature = -1e-6f}, {.temperature = 0.9e-6f}, {.temperature = kInfF}});
  expect_refused("sampling.top_p", Sampling{{.top_p = 0}, {.top_p = 1.001f}, {.top_p = -1}});
  expect_refused("sampling.min_p", Sampling{{.min_p = -0.001f}, {.min_p = 1.001f}});
  expect_refused("sampling.repetition_penalty",
                 Sampling{{.repetition_penalty = 0}, {.repetition_penalty = kInfF}});
  expect_refused("sampling.top_k", Sampling{{.top_k = -1}});
  expect_refused("sampling.presence_penalty",
                 Sampling{{.presence_penalty = -2.001f}, {.presence_penalty = 2.001f}});
  expect_refused("sampling.frequency_penalty",
                 Sampling{{.frequency_penalty = -2.001f}, {.frequency_penalty = 2.001f}});
  expect_refused("sampling.logprobs", Sampling{{.top_logprobs = -1}, {.top_logprobs = 21}});
  expect_refused("sampling.logit_bias", Sampling{{.logit_bias = {{-1, 0.0f}}},
                                                 {.logit_bias = {{0, 100.5f}}},
                                                 {.logit_bias = {{0, -100.5f}}}});
  expect_refused("sampling.allowed_token_ids", Sampling{{.allowed_token_ids = {0, -1}}});
}

TEST(ParameterBounds, ABiasIsGivenOncePerId) {
  const SamplingParams twice{.logit_bias = {{3, 1.0f}, {5, 1.0f}, {3, 2.0f}}};
  const Error e = expect_error(Code::kInvalidArgument, [&] { validate(twice); });
  EXPECT_EQ(e.key, "sampling.logit_bias");
  EXPECT_EQ(e.expected, "each id once");
  EXPECT_EQ(e.message, "sampling.logit_bias names token id 3 twice");
}

TEST(ParameterBounds, PlainSamplingIsShapedByTheTemperatureAlone) {
  for (const SamplingParams& p :
       Sampling{{}, {.temperature = 0.5f}, {.temperature = 2}, {.top_logprobs = 5}}) {
    EXPECT_TRUE(is_plain(p));
    EXPECT_FALSE(has_logit_rules(p));
  }
  for (const SamplingParams& p :
       Sampling{{.temperature = 0}, {.top_p = 0.5f}, {.min_p = 0.5f}, {.top_k = 3}}) {
    EXPECT_FALSE(is_plain(p));
    EXPECT_FALSE(has_logit_rules(p));
  }
  for (const SamplingParams& p : Sampling{{.repetition_penalty = 1.5f},
                                          {.presence_penalty = -1},
                                          {.frequency_penalty = 1},
                                          {.logit_bias = {{1, 0.0f}}},
                                          {.allowed_token_ids = {1}}}) {
    EXPECT_FALSE(is_plain(p));
    EXPECT_TRUE(has_logit_rules(p));
  }
}

using Schedules = std::vector<Schedule>;

TEST(ParameterBounds, OfSchedules) {
  constexpr ScheduleKind kConstant = ScheduleKind::kConstant, kLinear = ScheduleKind::kLinear;
  expect_accepted(Schedules{{kConstant, 0, 0, 0, 0},
                            {kConstant, 1, 9, -5, 7},  // it has no end and no floor
                            {kLinear, 1, 4, 4, 0},
                            {kLinear, 1, 0, 1, 1}});
  expect_refused("optimizer.lr", Schedules{{kConstant, -1, 0, 0, 0}, {kConstant, kInf, 0, 0, 0}});
  expect_refused("schedule.warmup_steps", Schedules{{kConstant, 1, -1, 0, 0}});
  expect_refused("schedule.total_steps", Schedules{{kLinear, 1, 0, 0, 0}, {kLinear, 1, 4, 3, 0}});
  expect_refused("schedule.min_lr", Schedules{{kLinear, 1, 0, 4, -0.1}, {kLinear, 1, 0, 4, 1.1}});
  expect_error(Code::kInternal, [] { learning_rate({}, -1); });
}

using Losses = std::vector<PolicyLossParams>;

TEST(ParameterBounds, OfPolicyLosses) {
  expect_accepted(Losses{{},
                         {.clip_low = 0, .clip_high = 0},
                         {.clip_low = 1, .clip_high = 5},
                         {.dual_clip = 1.01},
                         {.ratio_log_clamp = 0},
                         {.ratio_cap = 1},
                         {.kl_cov_coef = 0}});
  expect_refused("algo.clip_low", Losses{{.clip_low = -0.1}, {.clip_low = 1.1}});
  expect_refused("algo.clip_high", Losses{{.clip_high = -0.1}, {.clip_high = kInf}});
  expect_refused("algo.dual_clip",
                 Losses{{.dual_clip = 1}, {.dual_clip = -2}, {.dual_clip = kInf}});
  expect_refused("algo.ratio_log_clamp",
                 Losses{{.ratio_log_clamp = -1}, {.ratio_log_clamp = kInf}});
  expect_refused("algo.ratio_cap", Losses{{.ratio_cap = 0.9}, {.ratio_cap = kInf}});
  expect_refused("algo.sapo_tau_pos", Losses{{.sapo_tau_pos = 0}, {.sapo_tau_pos = kInf}});
  expect_refused("algo.sapo_tau_neg", Losses{{.sapo_tau_neg = 0}, {.sapo_tau_neg = kNan}});
  expect_refused("algo.dro_beta", Losses{{.dro_beta = 0}, {.dro_beta = kInf}});
  expect_refused("algo.kl_cov_coef", Losses{{.kl_cov_coef = -1}, {.kl_cov_coef = kInf}});
}

TEST(ParameterBounds, OfRewardsReturnsAndFilters) {
  expect_accepted(std::vector<RewardClip>{{0, 0}, {-kInf, kInf}});
  expect_refused("algo.reward.clip_low", std::vector<RewardClip>{{kNan, 0}});
  expect_refused("algo.reward.clip_high", std::vector<RewardClip>{{1, 0}, {0, kNan}});
  expect_accepted(std::vector<OverlongParams>{{4, 0, 0, true}, {4, 4, 1, true}, {1, 1, 1, true}});
  expect_refused("max_length", std::vector<OverlongParams>{{0, 0, 1, true}});
  expect_refused("algo.reward.overlong_buffer",
                 std::vector<OverlongParams>{{4, -1, 1, true}, {4, 5, 1, true}});
  expect_refused("algo.reward.overlong_penalty",
                 std::vector<OverlongParams>{{4, 4, -1, true}, {4, 4, kInf, true}});
  expect_accepted(std::vector<ReturnsParams>{{.gamma = 0, .lambda = 0}, {.gamma = 1, .lambda = 1}});
  expect_refused("algo.gamma", std::vector<ReturnsParams>{{.gamma = -0.1}, {.gamma = 1.1}});
  expect_refused("algo.lambda", std::vector<ReturnsParams>{{.lambda = -0.1}, {.lambda = 1.1}});
  expect_accepted(std::vector<DynamicFilter>{{-1, 0}, {0, 1e-300}});
  expect_refused("pipeline.filter",
                 std::vector<DynamicFilter>{{1, 1}, {1, 0}, {0, kInf}, {-kInf, 0}, {0, kNan}});
}

TEST(ParameterBounds, OfAdaptiveKlAlone) {
  constexpr KlControl kFixed = KlControl::kFixed, kAdaptive = KlControl::kAdaptive;
  expect_accepted(std::vector<KlControllerParams>{{kFixed, 0, -1}, {kAdaptive, 1e-9, 1e-9}});
  expect_refused("algo.kl.target",
                 std::vector<KlControllerParams>{{kAdaptive, 0, 1}, {kAdaptive, kInf, 1}});
  expect_refused("algo.kl.horizon",
                 std::vector<KlControllerParams>{{kAdaptive, 1, 0}, {kAdaptive, 1, kInf}});
  EXPECT_EQ(next_kl_coef({kFixed, 0.1, 1000}, 0.25, kNan, 50), 0.25);
  // Errors of 0, 0.1 and more than 0.2 on either side; exact up to one rounding of each operation.
  const auto next = [](double kl) { return next_kl_coef({kAdaptive, 0.5, 1000}, 0.25, kl, 100); };
  EXPECT_EQ(next(0.5), 0.25);
  EXPECT_NEAR(next(0.55), 0.25 * 1.01, 1e-15);
  EXPECT_NEAR(next(0.45), 0.25 * 0.99, 1e-15);
  EXPECT_NEAR(next(50), 0.25 * 1.02, 1e-15);
  EXPECT_NEAR(next(0), 0.25 * 0.98, 1e-15);
  EXPECT_EQ(next_kl_coef({kAdaptive, 0.5, 1000}, 0.25, 50, 0), 0.25) << "no samples, no change";
  const Error e = expect_error(Code::kOutOfRange, [] { next_kl_coef({}, 1, 1, -1); });
  EXPECT_EQ(e.key, "num_samples");
}

TEST(Formulas, AnOverlongResponsePaysForItsPartOfTheBuffer) {
  OverlongParams p{.max_length = 10, .buffer = 4, .penalty = 2, .capped = true};
  const std::pair<int32_t, double> paid[] = {{0, 0}, {6, 0}, {7, 0.5}, {8, 1}, {10, 2}, {12, 2}};
  for (const auto& [length, penalty] : paid) EXPECT_EQ(overlong_penalty(p, length), penalty);
  p.capped = false;
  EXPECT_EQ(overlong_penalty(p, 10), 2);
  EXPECT_EQ(overlong_penalty(p, 12), 3);
  p.buffer = 0;
  EXPECT_EQ(overlong_penalty(p, 12), 0);
}

TEST(Formulas, ATruncatedResponseIsScaledOrSetToTheNegativePenalty) {
  EXPECT_EQ(truncation_reward(0.5, 3, true), 1.5);
  EXPECT_EQ(truncation_reward(0, 3, true), 0);
  EXPECT_EQ(truncation_reward(-2, 3, true), -2);
  EXPECT_EQ(truncation_reward(0.5, 3, false), 3);
  EXPECT_EQ(truncation_reward(-2, 3, false), 3);
}

TEST(Formulas, MomentsAreOfTheMaskedValues) {
  const Moments m = moments_of(Values{1, 100, 3}, Mask{1, 0, 1});
  EXPECT_EQ(m.count, 2);
  EXPECT_EQ(m.mean, 2);
  EXPECT_EQ(m.squares, 2);
  EXPECT_EQ(variance(m, 0), 1);
  EXPECT_EQ(variance(m, 1), 2);
  EXPECT_EQ(variance({.count = 1, .mean = 4, .squares = 0}, 1), 0) << "one value has no spread";
  EXPECT_EQ(variance({}, 0), 0);
  EXPECT_EQ(moments_of(Values{5}, Mask{0}).count, 0);
  EXPECT_EQ(moments_of(Values{5}, Mask{0}).mean, 0);
  for (const Moments& merged : {merge(m, {}), merge({}, m)}) {
    EXPECT_EQ(merged.count, 2);
    EXPECT_EQ(merged.mean, 2);
    EXPECT_EQ(merged.squares, 2);
  }
  const Moments both = merge(m, moments_of(Values{5, 7}, {}));  // 1, 3, 5, 7
  EXPECT_EQ(both.count, 4);
  EXPECT_EQ(both.mean, 4);
  EXPECT_EQ(both.squares, 20);
  const Error e = expect_error(Code::kInvalidArgument, [] {
    moments_of(Values{1, 2}, Mask{1, 0, 1});
  });
  EXPECT_EQ(e.key, "mask");
  EXPECT_EQ(e.message, "mask has 3 elements, expected 2");
  EXPECT_EQ(normalize_reward({.count = 2, .mean = 1, .squares = 2}, 2, 5), 2);
}

TEST(Formulas, WhitenedValuesFollowEverySwitch) {
  const auto whitened = [](const WhitenParams& p, const Mask& mask = {}) {
    Values values = {1, 3};
    whiten(p, {.count = 2, .mean = 2, .squares = 2}, mask, values);
    return values;
  };
  EXPECT_EQ(whitened({.ddof = 0, .eps = 3}), (Values{-0.5, 0.5}));
  EXPECT_EQ(whitened({.ddof = 1, .eps = 2}), (Values{-0.5, 0.5}));
  EXPECT_EQ(whitened({.ddof = 0, .eps = 4, .floor = true}), (Values{-0.5, 0.5}));
  EXPECT_EQ(whitened({.ddof = 0, .eps = 0.25, .floor = true}), (Values{-1, 1}));
  EXPECT_EQ(whitened({.ddof = 0, .eps = 3, .shift_mean = false}), (Values{1.5, 2.5}));
  EXPECT_EQ(whitened({.ddof = 0, .eps = 3, .divide_by_std = false}), (Values{-1, 1}));
  EXPECT_EQ(whitened({.ddof = 0, .eps = 3}, {0, 1}), (Values{0, 0.5}));
}

TEST(Formulas, SpreadUpToTheLimitIsNone) {
  const Values spread_of_one = {-1, 0, 1};
  EXPECT_TRUE(has_no_spread(spread_of_one, 1));
  EXPECT_FALSE(has_no_spread(spread_of_one, 0.999));
  EXPECT_FALSE(has_no_spread({}, 1));
  EXPECT_TRUE(passes({1, 2}, Values{1, 2}));
  EXPECT_FALSE(passes({1, 2}, Values{2, 2}));
}

}  // namespace
}  // namespace rl

#include <cmath>

#include "algo/advantages/kl_controller.h"
#include "algo/advantages/reward.h"
#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

constexpr double kTolerance = 1e-12;  // a handful of operations in double
// verl's overlong rewards are fp32.
constexpr double kFp32Tolerance = 1e-7;

TEST(Shaping, EveryControllerFollowsItsGolden) {
  const Json data = golden::load("rl/controllers_and_shaping.json");
  golden::Tally tally("rl/controllers_and_shaping.json kl_controllers",
                      data["kl_controllers"].size());
  for (const Json& c : data["kl_controllers"]) {
    KlControllerParams p;
    p.kind = parse_kl_control(c["kind"].get<std::string>());
    if (p.kind == KlControl::kAdaptive) {
      p.target = golden::number(c["target"]);
      p.horizon = golden::number(c["horizon"]);
    }
    double coef = golden::number(c["init"]);
    for (size_t i = 0; i < c["updates"].size(); ++i) {
      coef = next_kl_coef(p, coef, golden::number(c["updates"][i][0]), c["updates"][i][1]);
      golden::expect_close(coef, golden::number(c["values"][i]), kTolerance, "coefficient");
    }
    tally.done();
  }
}

double shaped(const Json& c, size_t i) {
  const double reward = golden::number(c["rewards"][i]);
  if (c["kind"] == "stop_properly") {
    return truncation_reward(golden::number(c["coef"]), reward, c["truncated"][i]);
  }
  const OverlongParams p{.max_length = c["max_response_len"],
                         .buffer = c["buffer_len"],
                         .penalty = c["penalty_factor"],
                         .capped = c["source"] == "openrlhf"};
  validate(p);
  return reward - overlong_penalty(p, c["lens"][i]);
}

TEST(Shaping, EveryShapedRewardMatches) {
  const Json data = golden::load("rl/controllers_and_shaping.json");
  golden::Tally tally("rl/controllers_and_shaping.json reward_shaping",
                      data["reward_shaping"].size());
  for (const Json& c : data["reward_shaping"]) {
    for (size_t i = 0; i < c["rewards"].size(); ++i) {
      golden::expect_close(shaped(c, i), golden::number(c["expected"][i]),
                           c["source"] == "verl" ? kFp32Tolerance : kTolerance, c["kind"]);
    }
    tally.done();
  }
}

TEST(Shaping, NormalisedRewardsHaveMeanZeroAndSpreadOne) {
  const std::vector<double> rewards{1, 2, 4};
  const Moments m = moments_of(rewards, {});
  double sum = 0, squares = 0;
  for (const double r : rewards) {
    const double x = normalize_reward(m, 1e-12, r);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum, 0, 1e-12);          // rounding
  EXPECT_NEAR(squares / 2, 1, 1e-11);  // eps moves it by 1e-12
}

TEST(Shaping, MomentsOfPartsMergeToThoseOfTheWhole) {
  const std::vector<double> all{0.5, -1, 3, 2, 8};
  const Moments a = moments_of(std::span(all).first(2), {});
  const Moments b = moments_of(std::span(all).subspan(2), {});
  const Moments whole = moments_of(all, {});
  for (const Moments& m : {merge(a, b), merge(merge(Moments{}, a), b)}) {
    EXPECT_EQ(m.count, whole.count);
    EXPECT_NEAR(m.mean, whole.mean, 1e-14);  // rounding of the merge
    EXPECT_NEAR(m.squares, whole.squares, 1e-13);
  }
}

TEST(Shaping, RefusesBadParameters) {
  const auto key = [](const auto& call) { return expect_error(Code::kOutOfRange, call).key; };
  EXPECT_EQ(key([] { validate(RewardClip{1, 0}); }), "algo.reward.clip_high");
  EXPECT_EQ(key([] { validate(RewardClip{NAN, 0}); }), "algo.reward.clip_low");
  EXPECT_EQ(key([] { validate(OverlongParams{.max_length = 4, .buffer = 5}); }),
            "algo.reward.overlong_buffer");
  EXPECT_EQ(key([] { validate(OverlongParams{.max_length = 4, .buffer = 4, .penalty = -1}); }),
            "algo.reward.overlong_penalty");
  EXPECT_EQ(key([] { truncation_reward(INFINITY, 0, true); }), "algo.reward.truncation_penalty");
  EXPECT_EQ(key([] { next_kl_coef({.kind = KlControl::kAdaptive, .target = 0}, 1, 1, 1); }),
            "algo.kl.target");
  EXPECT_EQ(key([] { next_kl_coef({.kind = KlControl::kAdaptive, .horizon = 0}, 1, 1, 1); }),
            "algo.kl.horizon");
  EXPECT_EQ(key([] { validate(WhitenParams{.ddof = 2}); }), "algo.adv_ddof");
  EXPECT_EQ(key([] { validate(WhitenParams{.eps = 0}); }), "algo.adv_eps");
  expect_error(Code::kNonFinite, [] { next_kl_coef({.kind = KlControl::kAdaptive}, 1, NAN, 1); });
  EXPECT_EQ(kl_control_name(KlControl::kAdaptive), "adaptive");
}

}  // namespace
}  // namespace rl

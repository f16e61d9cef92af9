#include "algo/advantages/advantage.h"

#include <cmath>

#include "support/expect_error.h"

namespace rl {
namespace {

std::vector<double> run(const AdvantageParams& p, const std::vector<double>& rewards,
                        const std::vector<int32_t>& group) {
  std::vector<double> out(rewards.size(), -99);
  group_advantages(p, rewards, group, out);
  return out;
}

TEST(Advantage, SingletonPolicyDecidesWhatAGroupOfOneGets) {
  AdvantageParams p;
  const std::vector<double> rewards{3.0, 1.0, 2.0};
  const std::vector<int32_t> group{0, 1, 1};
  EXPECT_EQ(run(p, rewards, group)[0], 3.0 / (1.0 + 1e-6));
  p.norm_std = false;
  EXPECT_EQ(run(p, rewards, group), (std::vector<double>{3.0, -0.5, 0.5}));
  p.singleton = AdvSingleton::kZero;
  EXPECT_EQ(run(p, rewards, group), (std::vector<double>{0.0, -0.5, 0.5}));
}

TEST(Advantage, ABatchOfOneSampleHasSpreadOneForAnyDdof) {
  AdvantageParams p;
  p.std_scope = AdvStdScope::kBatch;
  for (p.ddof = 0; p.ddof <= 1; ++p.ddof) EXPECT_EQ(run(p, {3.0}, {0})[0], 3.0 / (1.0 + 1e-6));
}

TEST(Advantage, ASingletonAmongOthersIsOverTheStdOfTheBatch) {
  AdvantageParams p;
  p.std_scope = AdvStdScope::kBatch;
  const std::vector<double> rewards{3.0, 1.0, 2.0};
  const std::vector<int32_t> group{0, 1, 1};
  // Mean 2 and squares 2 over three rewards: std 1 with ddof 1, sqrt(2 / 3) with ddof 0.
  for (p.ddof = 0; p.ddof <= 1; ++p.ddof) {
    const double scale = std::sqrt(2.0 / (3 - p.ddof)) + 1e-6;
    const std::vector<double> seen = run(p, rewards, group);
    EXPECT_DOUBLE_EQ(seen[0], 3.0 / scale);
    EXPECT_DOUBLE_EQ(seen[1], -0.5 / scale);
  }
  p.ddof = 1;
  p.singleton = AdvSingleton::kZero;
  EXPECT_EQ(run(p, rewards, group)[0], 0.0);
}

TEST(Advantage, BiasedStdDividesByTheCount) {
  AdvantageParams p;
  p.ddof = 0;
  p.eps = 1e-12;
  const auto seen = run(p, {0.0, 2.0}, {0, 0});
  EXPECT_NEAR(seen[1], 1.0, 1e-11);  // eps moves it by 1e-12
  p.ddof = 1;
  EXPECT_NEAR(run(p, {0.0, 2.0}, {0, 0})[1], 1.0 / std::sqrt(2.0), 1e-11);
}

TEST(Advantage, EqualRewardsGiveZero) {
  EXPECT_EQ(run({}, {0.75, 0.75, 0.75}, {0, 0, 0}), (std::vector<double>{0, 0, 0}));
}

TEST(Advantage, RefusesBadInput) {
  std::vector<double> out(2);
  const std::vector<int32_t> group{0, 0};
  const auto call = [&](const AdvantageParams& p, const std::vector<double>& r,
                        const std::vector<int32_t>& g) { group_advantages(p, r, g, out); };
  EXPECT_TRUE(contains(expect_error(Code::kNonFinite,
                                    [&] {
                                      call({}, {0.0, std::nan("")}, group);
                                    })
                           .message,
                       "reward 1"));
  expect_error(Code::kOutOfRange, [&] { call({}, {0.0, 1.0}, {0, 2}); });
  expect_error(Code::kOutOfRange, [&] { call({}, {0.0, 1.0}, {0, -1}); });
  expect_error(Code::kInvalidArgument, [&] { call({}, {0.0, 1.0}, {0}); });
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           call({.eps = std::nan("")}, {0, 1}, group);
                         })
                .key,
            "algo.adv_eps");
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           call({.ddof = 2}, {0, 1}, group);
                         })
                .key,
            "algo.adv_ddof");
}

TEST(Advantage, NamesAreThoseOfTheOption) {
  EXPECT_EQ(parse_advantage("dr_grpo"), Advantage::kDrGrpo);
  EXPECT_EQ(advantage_name(Advantage::kGrpo), "grpo");
  EXPECT_EQ(parse_adv_singleton("zero"), AdvSingleton::kZero);
  EXPECT_EQ(adv_singleton_name(AdvSingleton::kRaw), "raw");
  const Error e = expect_error(Code::kInvalidArgument, [] { parse_advantage("GRPO"); });
  EXPECT_EQ(e.key, "algo.advantage");
  EXPECT_TRUE(contains(e.expected, "one of grpo, dr_grpo, rloo"));
}

}  // namespace
}  // namespace rl

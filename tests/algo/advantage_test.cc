#include "algo/advantage.h"

#include <map>

#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

// librl computes in double like the goldens; only summation order differs.
constexpr double kTolerance = 1e-9;
// verl adds its eps to a group of one in fp32, which is off by 5e-8 of the reward.
constexpr double kSingletonTolerance = 1e-7;
// TRL's nanstd multiplies the variance by n / (n - 1) rounded to fp32, which moves the std by up to
// 3e-8 of itself.
constexpr double kTrlTolerance = 3e-8;

std::vector<int32_t> group_index(const Json& names) {
  std::map<std::string, int32_t> seen;
  std::vector<int32_t> out;
  for (const Json& n : names) {
    out.push_back(
        seen.emplace(n.get<std::string>(), static_cast<int32_t>(seen.size())).first->second);
  }
  return out;
}

std::vector<int32_t> blocks_of(size_t n, int32_t size) {
  std::vector<int32_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<int32_t>(i) / size;
  return out;
}

std::vector<double> run(const AdvantageParams& p, const std::vector<double>& rewards,
                        const std::vector<int32_t>& group) {
  std::vector<double> out(rewards.size(), -99);
  group_advantages(p, rewards, group, out);
  return out;
}

TEST(Advantage, MatchesVerlGrpoWithAndWithoutStd) {
  const Json data = golden::load("rl/advantages.json");
  int compared = 0;
  for (const Json& c : data["cases"]) {
    const auto estimator = c["estimator"].get<std::string>();
    if (c["source"] != "verl" || (estimator != "grpo" && estimator != "grpo_vectorized")) continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    std::vector<double> rewards;
    for (const Json& row : batch["rewards_outcome"]) {
      double sum = 0;
      for (const double v : golden::numbers(row)) sum += v;
      rewards.push_back(sum);
    }
    AdvantageParams p;
    p.norm_std = c["params"]["norm_by_std"];
    p.eps = c["params"]["epsilon"];
    const std::vector<int32_t> group = group_index(batch["index"]);
    const std::vector<double> seen = run(p, rewards, group);
    const golden::Rows rows(batch);
    const bool singleton = c["batch"] == "holes" && p.norm_std;
    golden::expect_close(rows.spread(seen), rows.packed(c["advantages"]),
                         singleton ? kSingletonTolerance : kTolerance, c["id"]);
    ++compared;
  }
  EXPECT_EQ(compared, 14);
}

TEST(Advantage, MatchesOpenRlhfGroupNormAndDrGrpoWithoutKlInReward) {
  const Json data = golden::load("rl/advantages.json");
  int compared = 0;
  for (const Json& c : data["cases"]) {
    const bool dr = c["estimator"] == "dr_grpo";
    if (c["source"] != "openrlhf" || (!dr && c["estimator"] != "group_norm")) continue;
    if (golden::number(c["params"]["kl_coef"]) != 0) continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    AdvantageParams p;
    p.kind = dr ? Advantage::kDrGrpo : Advantage::kGrpo;
    p.eps = 1e-9;
    const std::vector<double> rewards = golden::numbers(batch["scores"]);
    const auto seen = run(p, rewards, blocks_of(rewards.size(), c["params"]["group_size"]));
    const golden::Rows rows(batch);
    golden::expect_close(rows.spread(seen), rows.packed(c["advantages"]), kTolerance, c["id"]);
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

TEST(Advantage, MatchesTrlScaleGroupBatchAndNone) {
  const Json data = golden::load("rl/advantages.json");
  int compared = 0;
  for (const Json& c : data["cases"]) {
    if (c["source"] != "trl-formula") continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    AdvantageParams p;
    p.eps = c["params"]["epsilon"];
    p.norm_std = c["params"]["scale_rewards"] != "none";
    if (c["params"]["scale_rewards"] == "batch") p.std_scope = AdvStdScope::kBatch;
    const std::vector<double> rewards = golden::numbers(batch["scores"]);
    const auto seen = run(p, rewards, blocks_of(rewards.size(), c["params"]["group_size"]));
    golden::expect_close(seen, golden::numbers(c["advantages"]), kTrlTolerance, c["id"]);
    ++compared;
  }
  EXPECT_EQ(compared, 12);
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
  EXPECT_EQ(e.expected, "one of grpo, dr_grpo");
}

}  // namespace
}  // namespace rl

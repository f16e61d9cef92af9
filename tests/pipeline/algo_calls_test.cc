// Algorithms on a host's arrays: what cannot be computed from them, or stands in them and means
// nothing, is refused by name; the order of samples says nothing.
#include "pipeline/update/algo_calls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OptionSet with(const std::vector<std::string>& assignments) {
  OptionSet options;
  for (const std::string& text : assignments) options.set_assignment(text);
  return options;
}

// Six sequences of two tokens, three of each prompt.
struct Arrays {
  std::vector<int32_t> lengths = {2, 2, 2, 2, 2, 2};
  std::vector<uint64_t> groups = {4, 4, 4, 9, 9, 9};
  std::vector<double> rewards = {1, 0, 0.5, 0.25, 0.75, 0}, baselines = {1, 1, 1, 0, 0, 0};
  std::vector<float> logprobs = std::vector<float>(12, -1), old = std::vector<float>(12, -0.5f);
  std::vector<float> advantages = std::vector<float>(12, -1), reference;

  AlgoArrays view() const {
    AlgoArrays a;
    a.lengths = lengths;
    a.groups = groups;
    a.rewards = rewards;
    a.baselines = baselines;
    a.logprobs = logprobs;
    a.old_logprobs = old;
    a.ref_logprobs = reference;
    a.advantages = advantages;
    return a;
  }
};

Error refused_advantages(const Arrays& arrays, const char* kind, Code code) {
  const OptionSet options = with({std::string("algo.advantage=") + kind});
  return expect_error(code, [&] { algo_advantages(options, arrays.view()); });
}

TEST(AlgoCalls, WhatNeedsACriticOrAHostsFunctionIsNamed) {
  const Arrays arrays;
  const Error gae = refused_advantages(arrays, "gae", Code::kInvalidArgument);
  EXPECT_EQ(gae.key, "tokens.old_values");
  EXPECT_EQ(refused_advantages(arrays, "custom", Code::kFailedPrecondition).key, "algo.advantage");
  std::vector<double> gradient;
  const Error custom = expect_error(Code::kFailedPrecondition, [&] {
    algo_policy_loss(with({"algo.policy_loss=custom"}), arrays.view(), gradient);
  });
  EXPECT_EQ(custom.key, "algo.policy_loss");
}

TEST(AlgoCalls, AnObjectiveWithoutAPolicyLossIsNamed) {
  const Arrays arrays;
  std::vector<double> gradient;
  for (const char* objective : {"sft", "dpo", "reward_model"}) {
    const OptionSet options = with({std::string("algo.objective=") + objective});
    const Error e = expect_error(Code::kInvalidArgument,
                                 [&] { algo_policy_loss(options, arrays.view(), gradient); });
    EXPECT_EQ(e.key, "algo.objective");
    EXPECT_TRUE(contains(e.message, objective));
  }
}

TEST(AlgoCalls, SamplesOfAPromptNeedNotStandTogether) {
  const std::vector<size_t> order = {3, 0, 4, 1, 5, 2};
  for (const char* kind : {"grpo", "rloo", "opo", "gpg", "grpo_passk", "reinforce_pp_baseline"}) {
    SCOPED_TRACE(kind);
    const OptionSet options = with({std::string("algo.advantage=") + kind, "algo.whiten=none"});
    const Arrays together;
    Arrays apart;
    for (size_t i = 0; i < order.size(); ++i) {
      apart.groups[i] = together.groups[order[i]];
      apart.rewards[i] = together.rewards[order[i]];
    }
    const std::vector<double> expected = algo_advantages(options, together.view());
    const std::vector<double> seen = algo_advantages(options, apart.view());
    for (size_t i = 0; i < order.size(); ++i)
      EXPECT_DOUBLE_EQ(seen[2 * i], expected[2 * order[i]]) << i;
  }
}

TEST(AlgoCalls, RemaxTakesTheBaselineOfEachSequenceOffItsReward) {
  const Arrays arrays;
  const std::vector<double> seen =
      algo_advantages(with({"algo.advantage=remax", "algo.whiten=none"}), arrays.view());
  ASSERT_EQ(seen.size(), 12u);
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_DOUBLE_EQ(seen[i], arrays.rewards[i / 2] - arrays.baselines[i / 2]) << i;
}

TEST(AlgoCalls, ARewardThatIsNotFiniteIsNamed) {
  for (const char* kind : {"grpo", "reinforce_pp", "remax", "dr_grpo"}) {
    for (const double bad : {kNan, kInfinity, -kInfinity}) {
      SCOPED_TRACE(kind);
      Arrays arrays;
      arrays.rewards[2] = bad;
      const Error e = refused_advantages(arrays, kind, Code::kNonFinite);
      EXPECT_EQ(e.key, "tokens.rewards");
      EXPECT_TRUE(contains(e.message, "tokens.rewards[2]"));
    }
  }
  Arrays arrays;
  arrays.baselines[4] = kNan;
  const Error e = refused_advantages(arrays, "remax", Code::kNonFinite);
  EXPECT_EQ(e.key, "tokens.baselines");
  EXPECT_TRUE(contains(e.message, "tokens.baselines[4]"));
}

// The old log-probs, or the current ones where there are none.
TEST(AlgoCalls, APenaltyInTheRewardNeedsLogProbsOfPolicyAndReference) {
  const OptionSet options = with({"algo.advantage=reinforce_pp", "algo.whiten=none",
                                  "algo.kl.where=reward", "algo.kl.coef=0.5"});
  Arrays both;
  both.reference.assign(12, -1.5f);
  Arrays old = both, current = both;
  old.logprobs.clear();
  current.old.clear();
  const std::vector<double> expected = algo_advantages(options, both.view());
  EXPECT_EQ(expected.size(), 12u);
  EXPECT_EQ(algo_advantages(options, old.view()), expected);
  EXPECT_NE(algo_advantages(options, current.view()), expected);
  const auto key_of = [&](const Arrays& arrays) {
    return expect_error(Code::kInvalidArgument, [&] { algo_advantages(options, arrays.view()); })
        .key;
  };
  Arrays neither = old;
  neither.old.clear();
  EXPECT_EQ(key_of(neither), "tokens.logprobs");
  both.reference.clear();
  EXPECT_EQ(key_of(both), "tokens.ref_logprobs");
}

TEST(AlgoCalls, AnArrayThatIsMissingOrShortIsNamed) {
  const OptionSet remax = with({"algo.advantage=remax"}), loss = with({"algo.kl.where=loss"}),
                  reward = with({"algo.kl.where=reward"});
  Arrays all;
  all.reference.assign(12, -1.5f);
  all.old.clear();
  const auto refused = [&](const char* key, auto Arrays::*array, auto&& call) {
    const size_t size = (all.*array).size();
    for (const size_t left : {size_t{0}, size - 1}) {
      SCOPED_TRACE(str(key, " of ", left));
      Arrays arrays = all;
      (arrays.*array).resize(left);
      EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { call(arrays.view()); }).key, key);
    }
  };
  const auto of_remax = [&](const AlgoArrays& a) { algo_advantages(remax, a); };
  refused("tokens.rewards", &Arrays::rewards, of_remax);
  refused("tokens.baselines", &Arrays::baselines, of_remax);
  const auto penalised = [&](const AlgoArrays& a) { algo_advantages(reward, a); };
  refused("tokens.logprobs", &Arrays::logprobs, penalised);
  refused("tokens.ref_logprobs", &Arrays::reference, penalised);
  const auto policy_loss = [&](const AlgoArrays& a) {
    std::vector<double> gradient;
    algo_policy_loss(loss, a, gradient);
  };
  refused("tokens.logprobs", &Arrays::logprobs, policy_loss);
  refused("tokens.advantages", &Arrays::advantages, policy_loss);
  refused("tokens.ref_logprobs", &Arrays::reference, policy_loss);
  const auto kl = [&](const AlgoArrays& a) { algo_kl(loss, a); };
  refused("tokens.logprobs", &Arrays::logprobs, kl);
  refused("tokens.ref_logprobs", &Arrays::reference, kl);
  refused("tokens.logprobs", &Arrays::logprobs,
          [&](const AlgoArrays& a) { algo_corrections(loss, a); });
}

TEST(AlgoCalls, OffPolicyMaskingNeedsAdvantages) {
  const OptionSet options = with({"algo.correction.opsm_delta=0.25"});
  Arrays arrays;
  for (const uint8_t keep : algo_corrections(options, arrays.view()).keep) EXPECT_EQ(keep, 0);
  arrays.advantages.clear();
  const Error e =
      expect_error(Code::kInvalidArgument, [&] { algo_corrections(options, arrays.view()); });
  EXPECT_EQ(e.key, "tokens.advantages");
}

}  // namespace
}  // namespace rl

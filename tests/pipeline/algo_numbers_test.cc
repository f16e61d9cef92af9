// Algorithms on a host's arrays, worked out by hand: every figure of a loss, what is rejected by
// which rule, which array stands in for another, and the place of an entry that is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "pipeline/update/algo_calls.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Texts = std::vector<std::string>;
constexpr double kRounding = 1e-12;  // of sums in another order

Settings with(const Texts& assignments) {
  OptionSet options;
  for (const std::string& text : assignments) options.set_assignment(text);
  return options;
}

// Sequences of one token each, unless lengths are given.
struct Arrays {
  std::vector<int32_t> lengths;
  std::vector<uint64_t> groups;
  std::vector<uint8_t> mask, truncated;
  std::vector<float> logprobs, old, rollout, ref, advantages;
  std::vector<double> rewards, parts;

  AlgoArrays view() const {
    AlgoArrays a;
    a.lengths = lengths;
    a.groups = groups;
    a.mask = mask;
    a.truncated = truncated;
    a.logprobs = logprobs;
    a.old_logprobs = old;
    a.rollout_logprobs = rollout;
    a.ref_logprobs = ref;
    a.advantages = advantages;
    a.rewards = rewards;
    a.reward_parts = parts;
    return a;
  }
};

// Log ratios 1/2, 2 and -3/4 with the advantages 1, -1 and 2.
Arrays three_tokens() {
  Arrays a;
  a.lengths = {2, 1};
  a.logprobs = {-1, -1, -3};
  a.old = {-1.5f, -3, -2.25f};
  a.ref = {-2, -2, -2};
  a.advantages = {1, -1, 2};
  return a;
}

TEST(AlgoNumbers, ALossTellsOfClipsRatiosAndItsKl) {
  const Arrays a = three_tokens();
  std::vector<double> gradient;
  const AlgoLoss l = algo_policy_loss(
      with({"algo.dual_clip=3", "algo.kl.where=loss", "algo.kl.coef=0.5", "algo.kl.estimator=k1"}),
      a.view(), gradient);
  // The first ratio is clipped at 1.2, the second at 3 by the dual clip.
  const double policy = (-1.2 + 3 - 2 * std::exp(-0.75)) / 3;
  EXPECT_NEAR(l.policy_loss, policy, kRounding);
  EXPECT_NEAR(l.kl_loss, 0.5 * (1 + 1 - 1) / 3, kRounding);
  EXPECT_NEAR(l.loss, policy + 0.5 / 3, kRounding);
  EXPECT_DOUBLE_EQ(l.kl, 1.0 / 3);
  EXPECT_DOUBLE_EQ(l.ppo_kl, -(0.5 + 2 - 0.75) / 3);
  EXPECT_NEAR(l.ppo_kl_k3, (std::exp(0.5) - 1.5 + std::exp(2) - 3 + std::exp(-0.75) - 0.25) / 3,
              kRounding);
  EXPECT_DOUBLE_EQ(l.clip_fraction, 1.0 / 3);
  EXPECT_DOUBLE_EQ(l.dual_clip_fraction, 1.0 / 3);
  EXPECT_DOUBLE_EQ(l.ratio_max, std::exp(2));
  EXPECT_EQ(l.num_tokens, 3);
  EXPECT_EQ(l.num_rejected, 0);
  ASSERT_EQ(gradient.size(), 3u);
  const double kl = 0.5 / 3;
  EXPECT_DOUBLE_EQ(gradient[0], kl);
  EXPECT_DOUBLE_EQ(gradient[1], kl);
  EXPECT_NEAR(gradient[2], kl - 2 * std::exp(-0.75) / 3, kRounding);
}

TEST(AlgoNumbers, WithoutOldLogProbsEveryRatioIsOne) {
  Arrays a = three_tokens();
  a.old.clear();
  std::vector<double> gradient;
  const AlgoLoss l = algo_policy_loss(with({}), a.view(), gradient);
  EXPECT_DOUBLE_EQ(l.loss, -(1.0 - 1 + 2) / 3);
  EXPECT_EQ(l.ratio_max, 1);
  EXPECT_EQ(l.kl, 0);
  EXPECT_EQ(l.kl_loss, 0);
}

TEST(AlgoNumbers, TokensWithoutLossHaveNoFigures) {
  Arrays a = three_tokens();
  a.mask = {0, 0, 0};
  std::vector<double> gradient = {9};
  const AlgoLoss l = algo_policy_loss(with({}), a.view(), gradient);
  EXPECT_EQ(gradient, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(l.num_tokens, 0);
  EXPECT_EQ(l.loss, 0);
  a.mask = {0, 1, 0};
  EXPECT_EQ(algo_policy_loss(with({}), a.view(), gradient).num_tokens, 1);
  EXPECT_EQ(gradient[0], 0);
  EXPECT_NE(gradient[1], 0);
}

// The first token stays; the others fall to a bound, the veto, and the off-policy mask.
Arrays rejected_tokens() {
  Arrays a;
  a.lengths = {1, 1, 1, 1};
  a.logprobs = {-1, -1, -2, -2};
  a.rollout = {-1, -3, -1, -2};
  a.old = {-1, -1, -2, -1};
  a.advantages = {1, 1, 1, -1};
  return a;
}

TEST(AlgoNumbers, EveryRuleOfRejectionCounts) {
  const Arrays a = rejected_tokens();
  const Texts bound = {"algo.correction.rs=token_k2", "algo.correction.rs_bounds=1"};
  const auto rejected = [&](const Texts& texts) {
    std::vector<double> gradient;
    const AlgoLoss l = algo_policy_loss(with(texts), a.view(), gradient);
    EXPECT_EQ(l.num_tokens + l.num_rejected, 4);
    return l.num_rejected;
  };
  EXPECT_EQ(rejected({}), 0);
  EXPECT_EQ(rejected(bound), 1);
  EXPECT_EQ(rejected({"algo.correction.veto=0.5"}), 1);
  EXPECT_EQ(rejected({"algo.correction.opsm_delta=0.25"}), 1);
  const Texts all = {bound[0], bound[1], "algo.correction.veto=0.5",
                     "algo.correction.opsm_delta=0.25"};
  EXPECT_EQ(rejected(all), 3);
  const AlgoCorrections c = algo_corrections(with(all), a.view());
  EXPECT_EQ(c.keep, (std::vector<uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(c.weights, (std::vector<double>{1, 0, 0, 0}));
  // The weights of an aggregation know no rejections.
  EXPECT_EQ(algo_weights(with(all), a.view()), (std::vector<double>(4, 0.25)));
}

// The sampler's log-probs, else the old ones, else the current ones, whose weight is 1.
TEST(AlgoNumbers, CorrectionsAreAgainstTheSampler) {
  const Settings settings = with({"algo.policy_loss=none", "algo.correction.is=token"});
  Arrays a;
  a.lengths = {1};
  a.logprobs = {-1};
  const auto weight = [&] { return algo_corrections(settings, a.view()).weights.at(0); };
  EXPECT_EQ(weight(), 1);
  a.old = {-1.5f};
  EXPECT_DOUBLE_EQ(weight(), std::exp(0.5));
  a.rollout = {-1.25f};
  EXPECT_DOUBLE_EQ(weight(), std::exp(0.25));
  a.rollout = {-9};
  EXPECT_EQ(weight(), 2) << "algo.correction.high";
  const Settings decoupled = with({"algo.correction.is=token", "algo.correction.decoupled=true"});
  a.rollout = {-1.75f};
  EXPECT_DOUBLE_EQ(algo_corrections(decoupled, a.view()).weights.at(0), std::exp(0.25));
}

TEST(AlgoNumbers, AKlIsCorrectedByTheRatioToTheOldPolicy) {
  Arrays a;
  a.lengths = {3};
  a.mask = {1, 0, 1};
  a.logprobs = {-1, -1, -1};
  a.ref = {-2, -9, -0.5f};
  a.old = {-1.5f, -1, -1};
  const Settings full = with({"algo.kl.estimator=k1", "algo.kl.ratio=full"});
  const AlgoKl kl = algo_kl(full, a.view());
  ASSERT_EQ(kl.values.size(), 3u);
  EXPECT_DOUBLE_EQ(kl.values[0], std::exp(0.5));
  EXPECT_DOUBLE_EQ(kl.gradient[0], 2 * std::exp(0.5));
  EXPECT_EQ(kl.values[1], 0);
  EXPECT_EQ(kl.gradient[1], 0);
  EXPECT_EQ(kl.values[2], -0.5);
  EXPECT_EQ(kl.gradient[2], 0.5);
  a.old.clear();
  EXPECT_EQ(algo_kl(full, a.view()).values[0], 1);
  EXPECT_EQ(algo_kl(with({"algo.kl.estimator=k1", "algo.kl.value_clamp=0.25"}), a.view()).values,
            (std::vector<double>{0.25, 0, -0.25}));
}

TEST(AlgoNumbers, ATruncatedSequenceIsShapedAsOne) {
  Arrays a;
  a.lengths = {1, 1};
  a.rewards = {1, 1};
  a.truncated = {0, 1};
  const Settings shaped = with({"algo.advantage=dr_grpo", "algo.reward.truncation_penalty=0.5"});
  EXPECT_EQ(algo_advantages(shaped, a.view()), (std::vector<double>{0.25, -0.25}));
  a.rewards = {1, 0};
  EXPECT_EQ(
      algo_advantages(with({"algo.advantage=dr_grpo", "pipeline.overlong_filter=true"}), a.view()),
      (std::vector<double>{0.5, 0}));
}

TEST(AlgoNumbers, ComponentsAreRowsOfOneArray) {
  Arrays a;
  a.lengths = {1, 1};
  a.rewards = {0, 0};
  a.parts = {1, 8, 3, 4};
  const Settings gdpo = with({"algo.advantage=gdpo", "algo.gdpo_weights=1,-0.5",
                              "algo.adv_norm_std=false", "algo.whiten=none"});
  EXPECT_EQ(algo_advantages(gdpo, a.view()), (std::vector<double>{-2, 2}));
  a.parts.pop_back();
  const Error few = expect_error(Code::kInvalidArgument, [&] { algo_advantages(gdpo, a.view()); });
  EXPECT_EQ(few.key, "tokens.reward_parts");
  EXPECT_TRUE(contains(few.message, "has 3 entries, expected 4"));
  a.parts.push_back(std::numeric_limits<double>::infinity());
  const Error bad = expect_error(Code::kNonFinite, [&] { algo_advantages(gdpo, a.view()); });
  EXPECT_EQ(bad.key, "tokens.reward_parts");
  EXPECT_TRUE(contains(bad.message, "tokens.reward_parts[3]"));
}

TEST(AlgoNumbers, APenaltyIsTheSumOverTheTokensOfItsSequence) {
  Arrays a;
  a.lengths = {2, 1};
  a.groups = {5, 5};
  a.rewards = {4, 1};
  a.logprobs = {-1, -1, -1};
  a.ref = {-1.5f, -2, -1.25f};
  const Settings penalised = with(
      {"algo.advantage=dr_grpo", "algo.kl.where=reward", "algo.kl.coef=2", "algo.kl.estimator=k1"});
  // Rewards 4 - 2 * 1.5 and 1 - 2 * 0.25 have the mean 0.75.
  EXPECT_EQ(algo_advantages(penalised, a.view()), (std::vector<double>{0.25, 0.25, -0.25}));
}

TEST(AlgoNumbers, AnArrayOfAnotherSizeIsNamedWithBothNumbers) {
  const std::pair<const char*, std::function<void(Arrays&)>> cases[] = {
      {"tokens.groups", [](Arrays& a) { a.groups = {1}; }},
      {"tokens.truncated",
       [](Arrays& a) {
         a.truncated = {1, 0, 0};
       }},
      {"tokens.mask",
       [](Arrays& a) {
         a.mask = {1, 1};
       }},
      {"tokens.logprobs", [](Arrays& a) { a.logprobs.push_back(0); }},
      {"tokens.old_logprobs", [](Arrays& a) { a.old.pop_back(); }},
      {"tokens.rollout_logprobs", [](Arrays& a) { a.rollout = {0}; }},
      {"tokens.ref_logprobs", [](Arrays& a) { a.ref.pop_back(); }},
      {"tokens.advantages", [](Arrays& a) { a.advantages.pop_back(); }}};
  for (const auto& [key, spoil] : cases) {
    Arrays a = three_tokens();
    spoil(a);
    const Error e = expect_error(Code::kInvalidArgument, [&] { algo_weights(with({}), a.view()); });
    EXPECT_EQ(e.key, key);
    const bool of_sequences =
        std::string(key) == "tokens.groups" || std::string(key) == "tokens.truncated";
    EXPECT_TRUE(contains(e.message, of_sequences ? "expected 2" : "expected 3")) << e.message;
  }
}

TEST(AlgoNumbers, ALengthThatIsNegativeOrTooLargeIsNamedByItsPlace) {
  const auto refused = [](std::vector<int32_t> lengths) {
    Arrays a;
    a.lengths = std::move(lengths);
    const Error e = expect_error(Code::kOutOfRange, [&] { algo_weights(with({}), a.view()); });
    EXPECT_EQ(e.key, "tokens.lengths");
    return e.message;
  };
  EXPECT_TRUE(contains(refused({2, -1, 3}), "lengths[1] is -1"));
  EXPECT_TRUE(contains(refused({INT32_MAX, 1}), "lengths[1] is 1"));
  EXPECT_TRUE(contains(refused({INT32_MAX, 0, INT32_MAX}), "lengths[2] is"));
}

TEST(AlgoNumbers, NoSequencesHaveNoAdvantages) {
  EXPECT_TRUE(algo_advantages(with({}), {}).empty());
  EXPECT_TRUE(algo_weights(with({}), {}).empty());
}

}  // namespace
}  // namespace rl

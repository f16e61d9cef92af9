// The parts of a minibatch's loss by hand: which losses need all of it, masks and weights after
// corrections, what a host's loss is given, and pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/losses/minibatch_tokens.h"
#include "train/losses/reward_pairs.h"
#include "train/losses/token_terms.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions options_of(Objective objective, PolicyLoss kind = PolicyLoss::kPpoClip) {
  TrainerOptions o;
  o.objective = objective;
  o.policy_loss.kind = kind;
  return o;
}

TEST(LossParts, SomeLossesNeedTheWholeMinibatch) {
  using P = PolicyLoss;
  for (const P kind : {P::kPpoClip, P::kNone, P::kGspo, P::kCispo, P::kSapo, P::kGmpo, P::kGpg,
                       P::kDppoTv, P::kDppoKl, P::kClipCov, P::kKlCov, P::kDro, P::kCustom}) {
    SCOPED_TRACE(policy_loss_name(kind));
    const bool whole = kind == P::kGspo || kind == P::kGmpo || kind == P::kClipCov ||
                       kind == P::kKlCov || kind == P::kCustom;
    for (const Objective rl_kind : {Objective::kRl, Objective::kDistill}) {
      EXPECT_EQ(is_minibatch_loss(options_of(rl_kind, kind)), whole);
      EXPECT_EQ(needs_current_logprobs(options_of(rl_kind, kind)), whole);
    }
    EXPECT_FALSE(is_minibatch_loss(options_of(Objective::kSft, kind)));
    EXPECT_FALSE(needs_current_logprobs(options_of(Objective::kSft, kind)));
    EXPECT_TRUE(is_minibatch_loss(options_of(Objective::kDpo, kind)));
    EXPECT_TRUE(needs_current_logprobs(options_of(Objective::kDpo, kind)));
  }
}

TEST(LossParts, CorrectionsOfTheCurrentPolicyNeedItsLogprobs) {
  const auto needs = [](void (*set)(CorrectionOptions&), Objective objective = Objective::kRl) {
    TrainerOptions o = options_of(objective);
    set(o.correction);
    return needs_current_logprobs(o);
  };
  using O = CorrectionOptions;
  EXPECT_FALSE(needs([](O&) {}));
  EXPECT_TRUE(needs([](O& c) { c.opsm_delta = 0.5; }));
  EXPECT_TRUE(needs([](O& c) { c.opsm_delta = 0.5, c.decoupled = true; }));
  EXPECT_TRUE(needs([](O& c) { c.veto = 0.5; }));
  EXPECT_FALSE(needs([](O& c) { c.veto = 0.5, c.decoupled = true; }));
  EXPECT_FALSE(needs([](O& c) { c.decoupled = true; }));
  EXPECT_FALSE(needs([](O& c) { c.opsm_delta = c.veto = 0.5; }, Objective::kSft));
}

// Two samples: of three tokens, the second masked, and of two; every number is another one.
struct TwoSamples {
  TwoSamples() {
    a.loss_mask = {1, 0, 1};
    a.logprobs = {-1.0f, -1.125f, -1.25f};
    b.logprobs = {-2.0f, -2.125f};
    tokens.begin(4);
    tokens.add({&a, 0.5, {}, old_a, true});
    tokens.add({&b, 0, advantages_b, old_b, true});
    std::ranges::copy(std::vector{-5.0f, -5.125f, -5.25f}, tokens.current(4).begin());
    std::ranges::copy(std::vector{-6.0f, -6.125f}, tokens.current(5).begin());
  }
  Sample a = make_sample({1, 2, 3, 4}, 1, 7, 0), b = make_sample({1, 2, 5, 6}, 2, 8, 1);
  std::vector<float> old_a{-3.0f, -3.125f, -3.25f}, old_b{-4.0f, -4.125f};
  std::vector<float> advantages_b{2.0f, -3.0f};
  MinibatchTokens tokens;
};

template <typename T>
std::vector<T> copy_of(std::span<const T> v) {
  return {v.begin(), v.end()};
}

TEST(HostLoss, IsGivenEveryArrayOfTheMinibatch) {
  TwoSamples s;
  EXPECT_EQ(s.tokens.set_weights(LossAgg::kSeqMeanTokenSum, 0), 4);
  const PolicyLossSums sums = s.tokens.compute(
      [&](const AlgoArrays& in, std::span<const double> weights, std::span<double> gradient) {
        using Floats = std::vector<float>;
        EXPECT_EQ(copy_of(in.lengths), (std::vector<int32_t>{3, 2}));
        EXPECT_EQ(copy_of(in.groups), (std::vector<uint64_t>{7, 8}));
        EXPECT_EQ(copy_of(in.sample_ids), (std::vector<uint64_t>{701, 802}));
        EXPECT_EQ(copy_of(in.mask), (std::vector<uint8_t>{1, 0, 1, 1, 1}));
        EXPECT_EQ(copy_of(in.logprobs), (Floats{-5.0f, -5.125f, -5.25f, -6.0f, -6.125f}));
        EXPECT_EQ(copy_of(in.old_logprobs), (Floats{-3.0f, -3.125f, -3.25f, -4.0f, -4.125f}));
        EXPECT_EQ(copy_of(in.rollout_logprobs), (Floats{-1.0f, -1.125f, -1.25f, -2.0f, -2.125f}));
        EXPECT_EQ(copy_of(in.advantages), (Floats{0.5f, 0.5f, 0.5f, 2.0f, -3.0f}));
        EXPECT_TRUE(in.truncated.empty() && in.ref_logprobs.empty() && in.rewards.empty());
        EXPECT_EQ(copy_of(weights), (std::vector<double>{0.5, 0, 0.5, 0.5, 0.5}));
        EXPECT_EQ(copy_of(std::span<const double>(gradient)), std::vector<double>(5, 0.0));
        for (size_t t = 0; t < gradient.size(); ++t) gradient[t] = static_cast<double>(t) + 1;
        return 7.0;
      });
  EXPECT_EQ(sums.loss, 7);
  EXPECT_EQ(sums.num_tokens, 4);
  EXPECT_EQ(sums.neg_log_ratio, 8) << "each became 2 nats less probable";
  EXPECT_EQ(copy_of(s.tokens.gradients()), (std::vector<double>{1, 0, 3, 4, 5}))
      << "a masked token has none";
  EXPECT_EQ(s.tokens.index(5, 1), 4u);
  EXPECT_EQ(s.tokens.old_logprob(4), -4.125f);
  EXPECT_EQ(s.tokens.advantage(4), -3.0f);
}

TEST(LossParts, AWeightFollowsFromTheTokensOfItsSequenceAndOfAll) {
  const auto weights = [](LossAgg agg, double scale = 0) {
    TwoSamples s;
    s.a.loss_mask = {1, 0, 0};
    s.tokens.begin(0);
    s.tokens.add({&s.a, 0.5, {}, s.old_a, true});
    s.tokens.add({&s.b, 0.5, {}, s.old_b, true});
    EXPECT_EQ(s.tokens.set_weights(agg, scale), 3);
    return copy_of(s.tokens.weights());
  };
  using W = std::vector<double>;
  EXPECT_EQ(weights(LossAgg::kTokenMean), (W{1.0 / 3, 0, 0, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(weights(LossAgg::kTokenSum), (W{1, 0, 0, 1, 1}));
  EXPECT_EQ(weights(LossAgg::kSeqMeanTokenMean), (W{0.5, 0, 0, 0.25, 0.25}));
  EXPECT_EQ(weights(LossAgg::kSeqMeanTokenSumNorm, 8), (W{0.0625, 0, 0, 0.0625, 0.0625}));
}

// A sample without old log-probs has no ratio, and one that carries no loss no weight.
TEST(LossParts, WhatCarriesNoLossHasNoWeight) {
  const Sample a = make_sample({1, 2, 3}, 1, 0, 0), b = make_sample({1, 2}, 1, 1, 0);
  MinibatchTokens tokens;
  tokens.begin(0);
  tokens.add({&a, 1, {}, {}, false});
  tokens.add({&b, 1, {}, {}, true});
  EXPECT_EQ(tokens.set_weights(LossAgg::kSeqMeanTokenMean, 0), 1);
  EXPECT_EQ(copy_of(tokens.weights()), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(tokens.old_logprob(0), 0) << "not the stored -1";
  EXPECT_EQ(tokens.correction(2), 1) << "there is none";
  tokens.begin(3);
  tokens.add({&b, 1, {}, b.logprobs, true});
  EXPECT_EQ(tokens.set_weights(LossAgg::kTokenMean, 0), 1);
  EXPECT_EQ(tokens.weights().size(), 1u) << "nothing is left of the minibatch before";
  EXPECT_EQ(tokens.index(3, 0), 0u);
  EXPECT_EQ(tokens.old_logprob(0), -1);
}

// One token of a is 20 nats less probable than it was sampled with.
TEST(Corrections, AVetoTakesTheWholeSample) {
  TwoSamples s;
  CorrectionOptions c;
  c.decoupled = true;
  c.veto = 1e-4;
  s.old_a[2] = -21.25f;
  s.tokens.begin(0);
  s.tokens.add({&s.a, 0.5, {}, s.old_a, true});
  s.tokens.add({&s.b, 0.5, {}, s.old_b, true});
  const CorrectionReport r = s.tokens.correct(c);
  EXPECT_EQ(r.veto.num_tokens, 4);
  EXPECT_EQ(r.veto.num_rejected, 2);
  EXPECT_EQ(r.veto.num_sequences, 2);
  EXPECT_EQ(r.veto.num_touched, 1);
  EXPECT_EQ(r.rejections.num_tokens, 4);
  EXPECT_EQ(r.rejections.num_rejected, 0);
  EXPECT_EQ(r.opsm.num_tokens, 0);
  EXPECT_EQ(s.tokens.set_weights(LossAgg::kTokenMean, 0), 2);
  EXPECT_EQ(copy_of(s.tokens.weights()), (std::vector<double>{0, 0, 0, 0.5, 0.5}));
}

// Old less rollout log-prob is -2 for every token; without decoupling, current less rollout is -4.
TEST(Corrections, DecoupledOnesCompareTheOldPolicyWithTheSampler) {
  for (const bool decoupled : {true, false}) {
    TwoSamples s;
    CorrectionOptions c;
    c.decoupled = decoupled;
    c.weights.level = CorrectionLevel::kToken;
    const CorrectionReport r = s.tokens.correct(c);
    EXPECT_EQ(r.mismatch.num_tokens, 4);
    EXPECT_EQ(r.mismatch.neg_log_ratio, 4 * (decoupled ? 2 : 4));
    EXPECT_NEAR(r.weights.weight_max, std::exp(decoupled ? -2.0 : -4.0), 1e-12);
    EXPECT_NEAR(s.tokens.correction(0), std::exp(decoupled ? -2.0 : -4.0), 1e-12);
    EXPECT_EQ(s.tokens.correction(1), 0) << "masked";
  }
}

// After 0.5 and 0.25, whose mean is 0.375.
TEST(Corrections, NormalizedWeightsHaveTheMeanOne) {
  Sample a = make_sample({1, 2, 3}, 1, 0, 0);
  a.logprobs = {0, 0};
  const std::vector<float> old = {static_cast<float>(std::log(0.5)),
                                  static_cast<float>(std::log(0.25))};
  CorrectionOptions c;
  c.decoupled = c.batch_normalize = true;
  c.weights.level = CorrectionLevel::kToken;
  MinibatchTokens tokens;
  tokens.begin(0);
  tokens.add({&a, 1, {}, old, true});
  const CorrectionReport r = tokens.correct(c);
  EXPECT_NEAR(tokens.correction(0), 4.0 / 3, 1e-6);  // the log-probs are rounded to fp32
  EXPECT_NEAR(tokens.correction(1), 2.0 / 3, 1e-6);
  EXPECT_NEAR(r.weights.token_sum, 0.75, 1e-6) << "reported as they were before";
}

TEST(Corrections, RejectedTokensThatCountKeepTheDenominators) {
  for (const bool counts : {true, false}) {
    TwoSamples s;
    s.a.logprobs[0] = -3.0f;  // the only one that the old policy agrees with
    s.tokens.begin(0);
    s.tokens.add({&s.a, 0.5, {}, s.old_a, true});
    s.tokens.add({&s.b, 0.5, {}, s.old_b, true});
    CorrectionOptions c;
    c.decoupled = true;
    c.counts_rejected = counts;
    c.rejections = {{RejectLevel::kToken, RejectStatistic::kK2, 0, 1}};
    const CorrectionReport r = s.tokens.correct(c);
    EXPECT_EQ(r.rejections.num_rejected, 3);
    EXPECT_EQ(r.rejections.num_touched, 2);
    EXPECT_EQ(s.tokens.set_weights(LossAgg::kTokenMean, 0), 1) << "that carry loss";
    EXPECT_EQ(copy_of(s.tokens.weights()), (std::vector<double>{counts ? 0.25 : 1.0, 0, 0, 0, 0}));
    s.tokens.correct({});
    EXPECT_EQ(s.tokens.correction(0), 1) << "nothing is left of the corrections before";
    s.tokens.set_weights(LossAgg::kTokenMean, 0);
    EXPECT_EQ(s.tokens.weights()[0], 1);
  }
}

// Of 40 alike tokens every fourth is chosen, by draws of the optimizer step.
TEST(ClipCov, EachOptimizerStepDrawsAnew) {
  TrainerOptions o = options_of(Objective::kRl, PolicyLoss::kClipCov);
  o.clip_cov = {.ratio = 0.25, .low = -1e9, .high = 1e9};
  const Sample s = make_sample(std::vector<int32_t>(41, 1), 1, 3, 2);
  const auto chosen = [&](int64_t optimizer_step) {
    MinibatchTokens tokens;
    tokens.begin(0);
    tokens.add({&s, 1, {}, s.logprobs, true});
    std::ranges::fill(tokens.current(0), -1.0f);
    tokens.set_weights(LossAgg::kTokenSum, 0);
    tokens.compute(o, optimizer_step);
    std::vector<size_t> out;
    for (size_t t = 0; t < 40; ++t) {
      if (tokens.gradient(t) == 0) out.push_back(t);
    }
    return out;
  };
  EXPECT_EQ(chosen(4).size(), 10u);
  EXPECT_EQ(chosen(4), chosen(4));
  EXPECT_NE(chosen(4), chosen(5));
  o.seed = 1;
  const auto other_seed = chosen(4);
  o.seed = 0;
  EXPECT_NE(chosen(4), other_seed);
}

// Two pairs; log-probs 1 above the reference for chosen ones and 1 below for rejected ones.
TEST(PairLosses, SumsAndGradientsAreOfTheTokensThatCarryLoss) {
  const std::vector<int32_t> lengths = {2, 1, 1, 3};
  const std::vector<uint8_t> mask = {1, 0, 1, 1, 0, 1, 1};
  const std::vector<float> current = {-1, -50, -2, -3, -50, -4, -5};
  const std::vector<float> reference = {-2, -70, -1, -4, -70, -3.5f, -4.5f};
  std::vector<double> gradient(7, 10.0);  // to which it is added
  const PreferenceSums s =
      pair_losses({.beta = 0.5}, {lengths, mask, current, reference}, gradient);
  EXPECT_EQ(s.pairs, 2);
  EXPECT_EQ(s.right, 2);
  EXPECT_EQ(s.logprob_chosen, -1 - 3);
  EXPECT_EQ(s.logprob_rejected, -2 - 9);
  EXPECT_EQ(s.reward_chosen, 0.5 * (1 + 1));
  EXPECT_EQ(s.reward_rejected, 0.5 * (-1 - 1));
  EXPECT_EQ(s.nll, 1 + 3);
  const double e = std::exp(-1.0);  // D = 2, beta D = 1
  EXPECT_NEAR(s.loss, 2 * std::log1p(e), 1e-12);
  const double slope = 0.5 * e / (1 + e) / 2;  // of the mean over two pairs
  const double expected[] = {-slope, 0, slope, -slope, 0, slope, slope};
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(gradient[i], 10 + expected[i], 1e-12) << i;
}

TEST(PairLosses, APairThatIsNotFiniteIsNumberedFromTheFirstItem) {
  const std::vector<int32_t> lengths = {1, 1, 1, 1};
  const std::vector<uint8_t> mask(4, 1);
  const std::vector<float> reference(4, -1);
  std::vector<float> current = {-1, -1, -1, -1};
  std::vector<int32_t> items = {99};
  find_non_finite_pairs({}, {lengths, mask, current, reference}, 6, items);
  EXPECT_EQ(items, std::vector<int32_t>{99});
  current[3] = NAN;
  find_non_finite_pairs({}, {lengths, mask, current, reference}, 6, items);
  EXPECT_EQ(items, (std::vector<int32_t>{99, 8, 9}));
}

TEST(RewardPairs, GradientsAreOfTheMeanOverPairs) {
  RewardPairs pairs;
  pairs.begin(6, 4);
  for (const auto& [item, value] : {std::pair{6, 2.0f}, {7, 1.0f}, {8, -1.0f}, {9, -1.0f}})
    pairs.set(item, value);
  const double slope = std::exp(-1.0) / (1 + std::exp(-1.0));
  EXPECT_NEAR(pairs.gradient(6), -slope / 2, 1e-15);
  EXPECT_NEAR(pairs.gradient(7), slope / 2, 1e-15);
  EXPECT_EQ(pairs.gradient(8), -0.25);
  EXPECT_EQ(pairs.gradient(9), 0.25);
  const PreferenceSums s = pairs.sums();
  EXPECT_EQ(s.pairs, 2);
  EXPECT_EQ(s.right, 1) << "equal scores are not right";
  EXPECT_EQ(s.reward_chosen, 1);
  EXPECT_EQ(s.reward_rejected, 0);
  EXPECT_NEAR(s.loss, std::log1p(std::exp(-1.0)) + std::log(2.0), 1e-12);
  EXPECT_EQ(s.logprob_chosen, 0);
  std::vector<int32_t> items;
  pairs.find_non_finite(items);
  EXPECT_TRUE(items.empty());
}

// Its loss and its gradient would be 0, and the fault unseen.
TEST(RewardPairs, AnInfiniteMarginIsNotFinite) {
  RewardPairs pairs;
  pairs.begin(2, 4);
  for (int32_t item = 2; item < 6; ++item) pairs.set(item, 0.5f);
  pairs.set(4, INFINITY);
  std::vector<int32_t> items = {0};
  pairs.find_non_finite(items);
  EXPECT_EQ(items, (std::vector<int32_t>{0, 4, 5}));
  EXPECT_TRUE(std::isnan(pairs.sums().loss));
  pairs.begin(0, 2);
  EXPECT_EQ(pairs.sums().pairs, 1);
  EXPECT_NEAR(pairs.sums().loss, std::log(2.0), 1e-15) << "nothing is left of the minibatch before";
}

// Weights 0.5 and 0.25; a masked token may hold anything.
TEST(TokenTerms, TermsAreWeightedAndMaskedTokensNotRead) {
  TrainerOptions o;
  o.policy_loss.kind = PolicyLoss::kNone;
  o.entropy_coef = 0.5;
  o.distill.coef = 3;
  TokenTerms terms;
  terms.push({0, -1.0f, -1.0f, 0, 2.0f, 4.0f, 0.5, 1, 0, 0.25});
  terms.push({0, NAN, NAN, NAN, NAN, NAN, 0, 1, 0, NAN});
  terms.push({1, -2.0f, -2.0f, 0, 1.0f, -8.0f, 0.25, 2, 0, 0.5});
  const TokenSums s = terms.compute(o);
  EXPECT_EQ(s.tokens, 2);
  EXPECT_EQ(s.pg_loss, 0.5 * 4 * 1 - 0.25 * 2 * 8 * 2);
  EXPECT_EQ(s.entropy, 3);
  EXPECT_EQ(s.distill, 0.75);
  EXPECT_EQ(s.distill_loss, 3 * (0.5 * 0.25 + 0.25 * 0.5));
  EXPECT_EQ(s.kl, 0);
  EXPECT_EQ(s.loss, s.pg_loss + s.distill_loss - 0.5 * (0.5 * 2 + 0.25 * 1));
  EXPECT_EQ(copy_of(terms.d_logprob()), (std::vector<float>{-2, 0, 4}));
  EXPECT_EQ(copy_of(terms.d_entropy()), (std::vector<float>{-0.25f, -0.0f, -0.125f}));
  terms.clear();
  EXPECT_EQ(terms.compute(o).tokens, 0);
  EXPECT_TRUE(terms.d_logprob().empty());
}

// The gradient of a loss of the whole minibatch comes with its tokens; its loss is summed
// elsewhere.
TEST(TokenTerms, AGivenGradientIsTakenAsItIs) {
  TrainerOptions o;
  o.policy_loss.kind = PolicyLoss::kGspo;
  TokenTerms terms;
  terms.push({.item = 3,
              .logprob = -1,
              .old_logprob = -2,
              .ref_logprob = 0,
              .entropy = 2,
              .advantage = 7,
              .weight = 0.5,
              .correction = 1,
              .policy_gradient = -0.75});
  const TokenSums s = terms.compute(o);
  EXPECT_EQ(s.pg_loss, 0);
  EXPECT_EQ(s.loss, 0);
  EXPECT_EQ(s.entropy, 2);
  EXPECT_EQ(terms.d_logprob()[0], -0.75f);
}

// Supervised: the plain log-prob, whatever the policy loss of the options.
TEST(TokenTerms, SftHasThePlainLogProbOnly) {
  TrainerOptions o = options_of(Objective::kSft, PolicyLoss::kPpoClip);
  TokenTerms terms;
  terms.push({0, -1.5f, -1.5f, 0, 2.0f, 1.0f, 0.5, 1});
  const TokenSums s = terms.compute(o);
  EXPECT_EQ(s.pg_loss, 0.75);
  EXPECT_EQ(terms.d_logprob()[0], -0.5f);
}

TEST(TokenTerms, EachSampleIsNamedOnceInARow) {
  TrainerOptions o;
  TokenTerms terms;
  for (const int32_t item : {4, 4, 5, 6})
    terms.push({item, item == 5 ? -1.0f : NAN, -1.0f, 0, 1.0f, 1.0f, 1});
  std::vector<int32_t> items = {4};
  terms.find_non_finite(o, items);
  EXPECT_EQ(items, (std::vector<int32_t>{4, 6}));
}

}  // namespace
}  // namespace rl::testing

// How the sums of minibatches add up and become the means of a step.
#include <gtest/gtest.h>

#include "train/trainer_impl.h"

namespace rl {
namespace {

TokenSums token_sums() {
  TokenSums s;
  s.loss = 1;
  s.pg_loss = 2;
  s.kl_loss = 3;
  s.distill_loss = 4;
  s.entropy = 5;
  s.neg_log_ratio = 6;
  s.k3 = 7;
  s.kl = 8;
  s.distill = 9;
  s.ratio_max = 10;
  s.tokens = 32;
  s.clipped = 12;
  s.dual_clipped = 20;
  return s;
}

// Losses are means over minibatches with a finite loss, norms over updates, the rest over tokens.
TEST(StepSums, BecomeMeansOverMinibatchesUpdatesAndTokens) {
  StepSums sums;
  sums.tokens = token_sums();
  sums.finite_losses = 4;
  sums.finite_norms = 2;
  sums.grad_norm = 3;
  sums.preference.pairs = 21;
  sums.corrections.veto.num_tokens = 22;
  sums.probabilities.count = 23;
  TrainMetrics m;
  sums.finish(m);
  EXPECT_EQ(m.loss, 0.25);
  EXPECT_EQ(m.pg_loss, 0.5);
  EXPECT_EQ(m.kl_loss, 0.75);
  EXPECT_EQ(m.distill_loss, 1);
  EXPECT_EQ(m.grad_norm, 1.5);
  EXPECT_EQ(m.entropy, 5.0 / 32);
  EXPECT_EQ(m.ppo_kl, 6.0 / 32);
  EXPECT_EQ(m.ppo_kl_k3, 7.0 / 32);
  EXPECT_EQ(m.kl, 8.0 / 32);
  EXPECT_EQ(m.distill_kl, 9.0 / 32);
  EXPECT_EQ(m.ratio_max, 10);
  EXPECT_EQ(m.clip_fraction, 12.0 / 32);
  EXPECT_EQ(m.dual_clip_fraction, 20.0 / 32);
  EXPECT_EQ(m.preference.pairs, 21);
  EXPECT_EQ(m.corrections.veto.num_tokens, 22);
  EXPECT_EQ(m.probabilities.count, 23);
}

TEST(StepSums, OfNothingAreZeros) {
  StepSums sums;
  sums.tokens.loss = sums.tokens.entropy = sums.grad_norm = 7;
  TrainMetrics m;
  sums.finish(m);
  EXPECT_EQ(m.loss, 0);
  EXPECT_EQ(m.entropy, 0);
  EXPECT_EQ(m.grad_norm, 0);
}

TEST(StepSums, EverySumOfTokensAddsUp) {
  TokenSums s = token_sums(), smaller = token_sums();
  smaller.ratio_max = 3;
  s.add(smaller);
  EXPECT_EQ(s.loss, 2);
  EXPECT_EQ(s.pg_loss, 4);
  EXPECT_EQ(s.kl_loss, 6);
  EXPECT_EQ(s.distill_loss, 8);
  EXPECT_EQ(s.entropy, 10);
  EXPECT_EQ(s.neg_log_ratio, 12);
  EXPECT_EQ(s.k3, 14);
  EXPECT_EQ(s.kl, 16);
  EXPECT_EQ(s.distill, 18);
  EXPECT_EQ(s.tokens, 64);
  EXPECT_EQ(s.clipped, 24);
  EXPECT_EQ(s.dual_clipped, 40);
  EXPECT_EQ(s.ratio_max, 10) << "the largest, not a sum";
  smaller.add(token_sums());
  EXPECT_EQ(smaller.ratio_max, 10);
}

TEST(StepSums, APolicyLossGivesItsPart) {
  PolicyLossSums policy;
  policy.loss = 1;
  policy.num_tokens = 2;
  policy.num_clipped = 3;
  policy.num_dual_clipped = 4;
  policy.neg_log_ratio = 5;
  policy.k3 = 6;
  policy.ratio_max = 7;
  policy.abs_log_ratio = 8;
  TokenSums s;
  s.set_policy(policy);
  EXPECT_EQ(s.pg_loss, 1);
  EXPECT_EQ(s.tokens, 2);
  EXPECT_EQ(s.clipped, 3);
  EXPECT_EQ(s.dual_clipped, 4);
  EXPECT_EQ(s.neg_log_ratio, 5);
  EXPECT_EQ(s.k3, 6);
  EXPECT_EQ(s.ratio_max, 7);
  EXPECT_EQ(s.loss, 0) << "all terms together, which are not known yet";
}

TEST(StepSums, EverySumOfPairsAddsUp) {
  const PreferenceSums one{.pairs = 4,
                           .right = 3,
                           .loss = 100,
                           .reward_chosen = 8,
                           .reward_rejected = 2,
                           .logprob_chosen = -12,
                           .logprob_rejected = -20,
                           .nll = 6};
  PreferenceSums two = one;
  two.add(one);
  EXPECT_EQ(two.pairs, 8);
  EXPECT_EQ(two.right, 6);
  EXPECT_EQ(two.loss, 200);
  EXPECT_EQ(two.reward_chosen, 16);
  EXPECT_EQ(two.reward_rejected, 4);
  EXPECT_EQ(two.logprob_chosen, -24);
  EXPECT_EQ(two.logprob_rejected, -40);
  EXPECT_EQ(two.nll, 12);
  EXPECT_EQ(two.mean(two.loss), 25);
  EXPECT_EQ(PreferenceSums{}.mean(7), 0);
}

TEST(StepSums, EverySumOfCorrectionsAddsUp) {
  CorrectionReport one;
  one.mismatch.num_tokens = 1;
  one.weights.token_sum = 2;
  one.weights.weight_min = 0.125;
  one.weights.weight_max = 9;
  one.rejections.num_tokens = 3;
  one.veto.num_tokens = 4;
  one.opsm.num_tokens = 5;
  CorrectionReport two = one;
  two.add(one);
  EXPECT_EQ(two.mismatch.num_tokens, 2);
  EXPECT_EQ(two.weights.token_sum, 4);
  EXPECT_EQ(two.weights.weight_min, 0.125);
  EXPECT_EQ(two.weights.weight_max, 9);
  EXPECT_EQ(two.rejections.num_tokens, 6);
  EXPECT_EQ(two.veto.num_tokens, 8);
  EXPECT_EQ(two.opsm.num_tokens, 10);
}

}  // namespace
}  // namespace rl

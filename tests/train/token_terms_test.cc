// The sum of the loss terms of a chunk, and its gradients.
#include "train/losses/token_terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rl {
namespace {

TrainerOptions all_terms() {
  TrainerOptions o;
  o.kl_in_loss = true;
  o.kl_coef = 0.3;
  o.entropy_coef = 0.2;
  o.policy_loss.clip_high = 0.28;
  return o;
}

// Inside the clip, above and below it with both signs of the advantage.
std::vector<LossToken> tokens() {
  std::vector<LossToken> out;
  int32_t item = 0;
  for (const float log_ratio : {-0.6f, -0.1f, 0.05f, 0.7f}) {
    for (const float advantage : {-1.5f, 0.5f}) {
      out.push_back({item++, -2.0f + log_ratio, -2.0f, -1.6f, 1.25f, advantage, 0.125});
    }
  }
  return out;
}

double loss_of(const std::vector<LossToken>& tokens) {
  TokenTerms terms;
  for (const LossToken& t : tokens) terms.push(t);
  return terms.compute(all_terms()).loss;
}

TEST(TokenTerms, GradientsAreThoseOfTheLoss) {
  TokenTerms terms;
  for (const LossToken& t : tokens()) terms.push(t);
  terms.compute(all_terms());
  const float h = 0x1p-9f;  // exact in fp32 beside values near 2
  for (size_t i = 0; i < tokens().size(); ++i) {
    const auto slope = [&](float LossToken::*field) {
      std::vector<LossToken> up = tokens(), down = tokens();
      up[i].*field += h;
      down[i].*field -= h;
      return (loss_of(up) - loss_of(down)) / (2.0 * h);
    };
    // A central difference is off by h^2 / 6 times the third derivative, here below 2.
    EXPECT_NEAR(terms.d_logprob()[i], slope(&LossToken::logprob), 2e-6) << i;
    EXPECT_NEAR(terms.d_entropy()[i], slope(&LossToken::entropy), 1e-9) << i;
  }
}

TEST(TokenTerms, SumsAreThoseOfTheTerms) {
  TokenTerms terms;
  for (const LossToken& t : tokens()) terms.push(t);
  const TokenSums s = terms.compute(all_terms());
  EXPECT_EQ(s.tokens, 8);
  EXPECT_EQ(s.clipped, 2);  // ratio low with A < 0, ratio high with A > 0
  EXPECT_NEAR(s.entropy, 8 * 1.25, 1e-12);
  EXPECT_NEAR(s.loss, s.pg_loss + s.kl_loss - 0.2 * 1.25, 1e-12);
  EXPECT_NEAR(s.kl_loss, 0.3 * 0.125 * s.kl, 1e-12);
  EXPECT_NEAR(s.ratio_max, std::exp(0.7), 1e-6);
  EXPECT_NEAR(s.neg_log_ratio, -2 * (-0.6 - 0.1 + 0.05 + 0.7), 1e-6);
}

TEST(TokenTerms, ChunksAddUp) {
  TokenSums parts;
  for (const LossToken& t : tokens()) {
    TokenTerms one;
    one.push(t);
    parts.add(one.compute(all_terms()));
  }
  EXPECT_NEAR(parts.loss, loss_of(tokens()), 1e-14);
  EXPECT_EQ(parts.tokens, 8);
}

TEST(TokenTerms, OnlySamplesWhoseOwnLossIsNotFiniteAreNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float LossToken::*field :
       {&LossToken::logprob, &LossToken::ref_logprob, &LossToken::advantage, &LossToken::entropy}) {
    std::vector<LossToken> some = tokens();
    some[3].*field = nan;
    TokenTerms terms;
    for (const LossToken& t : some) terms.push(t);
    EXPECT_FALSE(std::isfinite(terms.compute(all_terms()).loss));
    std::vector<int32_t> items;
    terms.find_non_finite(all_terms(), items);
    EXPECT_EQ(items, std::vector<int32_t>{3});
  }
}

}  // namespace
}  // namespace rl

#include "algo/losses/preference.h"

#include <cmath>
#include <vector>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr PreferencePair kPair{-12.5, -14.25, -13.0, -13.5, 8};

double log_sigmoid(double x) { return -std::log(1 + std::exp(-x)); }

TEST(Preference, DpoIsItsFormula) {
  const DpoParams p{.beta = 0.25, .label_smoothing = 0.125};
  const double d = (-12.5 + 14.25) - (-13.0 + 13.5);
  const double expected = -0.875 * log_sigmoid(0.25 * d) - 0.125 * log_sigmoid(-0.25 * d);
  const PairLoss l = dpo_loss(p, kPair);
  EXPECT_NEAR(l.value, expected, 1e-15);  // rounding of exp and log
  EXPECT_EQ(l.reward_chosen, 0.25 * 0.5);
  EXPECT_EQ(l.reward_rejected, 0.25 * -0.75);
  EXPECT_EQ(l.d_rejected, -l.d_chosen);
  EXPECT_NEAR(dpo_loss({}, {0, 0, 0, 0, 1}).value, std::log(2.0), 1e-15);
}

TEST(Preference, IpoIsItsFormula) {
  const PairLoss l = dpo_loss({.beta = 0.5, .ipo = true}, kPair);
  EXPECT_EQ(l.value, 0.25 * 0.25);  // D = 1.25, 1 / (2 beta) = 1
  EXPECT_EQ(l.d_chosen, 0.5);
}

TEST(Preference, GradientsAreDerivatives) {
  const double h = 1e-5;
  for (const DpoParams& p :
       {DpoParams{}, DpoParams{.beta = 0.5, .label_smoothing = 0.25, .nll_coef = 0.5},
        DpoParams{.beta = 0.25, .ipo = true, .nll_coef = 1}}) {
    for (const double shift : {-30.0, -1.0, 0.0, 2.0, 40.0}) {
      PreferencePair pair = kPair;
      pair.chosen += shift;
      const PairLoss l = dpo_loss(p, pair);
      const auto at = [&](double c, double r) {
        PreferencePair moved = pair;
        moved.chosen += c;
        moved.rejected += r;
        return dpo_loss(p, moved).value;
      };
      // Central difference: h^2 times a third derivative below 1, plus 1e-16 * 1000 / h.
      EXPECT_NEAR(l.d_chosen, (at(h, 0) - at(-h, 0)) / (2 * h), 1e-7) << shift;
      EXPECT_NEAR(l.d_rejected, (at(0, h) - at(0, -h)) / (2 * h), 1e-7) << shift;
    }
  }
}

TEST(Preference, RewardLossIsBradleyTerryAndDoesNotOverflow) {
  EXPECT_NEAR(reward_pair_loss(1.5, 0.5, 0.25).value, -log_sigmoid(0.75), 1e-15);
  EXPECT_NEAR(reward_pair_loss(0.5, 1.5, 0).value, std::log(1 + std::exp(1.0)), 1e-15);
  EXPECT_EQ(reward_pair_loss(-1000, 1000, 0).value, 2000);
  EXPECT_EQ(reward_pair_loss(-1000, 1000, 0).d_chosen, -1);
  EXPECT_EQ(reward_pair_loss(1000, -1000, 0).d_chosen, 0);
  const double h = 1e-5;
  const double slope =
      (reward_pair_loss(0.5 + h, 1, 0.25).value - reward_pair_loss(0.5 - h, 1, 0.25).value) /
      (2 * h);
  EXPECT_NEAR(reward_pair_loss(0.5, 1, 0.25).d_chosen, slope, 1e-9);  // h^2, and 1e-16 / h
}

TEST(Preference, SumsAreWeightedAndSkipMaskedPairs) {
  const std::vector<PreferencePair> pairs{kPair, {NAN, NAN, NAN, NAN, 1}};
  const std::vector<double> weight{0.5, 0};
  std::vector<double> chosen{1, 1}, rejected{1, 1};
  const DpoSums s = dpo_loss({}, {pairs, weight}, {chosen, rejected});
  const PairLoss l = dpo_loss({}, kPair);
  EXPECT_EQ(s.loss, 0.5 * l.value);
  EXPECT_EQ(s.num_pairs, 1);
  EXPECT_EQ(s.num_right, 1);
  EXPECT_EQ(chosen, (std::vector<double>{1 + 0.5 * l.d_chosen, 1}));
  EXPECT_EQ(rejected, (std::vector<double>{1 - 0.5 * l.d_chosen, 1}));
}

TEST(Preference, RefusesBadParameters) {
  const auto key = [](const DpoParams& p) {
    return expect_error(Code::kOutOfRange, [&] { validate(p); }).key;
  };
  EXPECT_EQ(key({.beta = 0}), "algo.dpo.beta");
  EXPECT_EQ(key({.label_smoothing = 0.75}), "algo.dpo.label_smoothing");
  EXPECT_EQ(key({.label_smoothing = 0.25, .ipo = true}), "algo.dpo.label_smoothing");
  EXPECT_EQ(key({.nll_coef = -1}), "algo.dpo.nll_coef");
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [] {
                           dpo_loss({.nll_coef = 1}, {0, 0, 0, 0, 0});
                         })
                .key,
            "chosen_tokens");
}

}  // namespace
}  // namespace rl

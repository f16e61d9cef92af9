#include "algo/losses/kl.h"

#include "algo/advantages/reward.h"
#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

constexpr double kTolerance = 1e-9;  // both sides compute in double

struct Inputs {
  std::vector<double> log_prob;
  std::vector<double> ref;
};

Inputs inputs_of(const Json& data) {
  return {golden::numbers(data["inputs"]["log_prob"]),
          golden::numbers(data["inputs"]["ref_log_prob"])};
}

// verl's names; its k3 is the clamped form that librl calls low_var.
KlEstimator from_verl(std::string name) {
  const bool plus = name.back() == '+';
  if (plus) name.pop_back();
  if (name == "kl") name = "k1";
  if (name == "mse") name = "k2";
  if (name == "k3" || name == "low_var_kl") name = "low_var";
  return parse_kl_estimator(name + (plus ? "+" : ""));
}

// OpenRLHF bounds every value to +-10; its k3 is the clamped form. Its unbiased gradient is the
// straight-through form, times the ratio to the old policy, capped at 10, where there is one.
KlBounds openrlhf_bounds(const Json& c) {
  KlBounds b{.value_clamp = 10};
  if (c["with_old"].get<bool>())
    b = {.value_clamp = 10, .ratio = KlRatio::kGradient, .ratio_cap = 10};
  return b;
}

TEST(Kl, MatchesEveryVerlAndOpenRlhfEstimator) {
  const Json data = golden::load("rl/kl.json");
  golden::Tally tally("rl/kl.json cases", data["cases"].size());
  const Inputs in = inputs_of(data);
  const std::vector<double> old = golden::numbers(data["inputs"]["old_log_prob"]);
  for (const Json& c : data["cases"]) {
    const auto name = c["estimator"].get<std::string>();
    const bool verl = c["source"] == "verl";
    KlEstimator estimator = verl ? from_verl(name) : from_verl(name == "k3" ? "low_var_kl" : name);
    if (!verl) estimator.straight_through = c["unbiased_gradient"];
    const KlBounds bounds = verl ? KlBounds{} : openrlhf_bounds(c);
    const std::vector<double> value = golden::numbers(c["value"]);
    const std::vector<double> gradient = golden::numbers(c["grad_log_prob"]);
    for (size_t i = 0; i < value.size(); ++i) {
      const KlTerm t = kl_term(estimator, bounds, in.log_prob[i], in.ref[i], old[i]);
      golden::expect_close(t.value, value[i], kTolerance, name);
      golden::expect_close(t.gradient, gradient[i], kTolerance, name);
    }
    tally.done();
  }
}

TEST(Kl, MatchesKlInReward) {
  const Json data = golden::load("rl/kl.json");
  golden::Tally tally("rl/kl.json kl_in_reward", data["kl_in_reward"].size());
  for (const Json& c : data["kl_in_reward"]) {
    const Json& batch = data["rewards_batches"][c["batch"].get<std::string>()];
    const golden::Padded rows(batch);
    std::vector<double> reward = golden::numbers(batch["scores"]);
    double coef = 0;
    if (c["source"] == "openrlhf") {
      coef = c["kl_coef"];
      for (double& r : reward) r = clip_reward({c["clip"][0], c["clip"][1]}, r);
    } else {
      coef = c["kl_ratio"];
    }
    std::vector<double> kl = golden::flat(batch["log_prob"]);
    const std::vector<double> ref = golden::flat(batch["ref_log_prob"]);
    for (size_t i = 0; i < kl.size(); ++i) kl[i] = kl_term({KlKind::kK1}, kl[i], ref[i]).value;
    std::vector<double> out(kl.size(), -9);
    token_rewards({{rows.lengths, rows.mask}, reward, kl, coef}, out);
    golden::expect_close(rows.inside(out), rows.inside(golden::flat(c["expected"])), kTolerance,
                         c["batch"]);
    tally.done();
  }
}

TEST(Kl, PlainK3IsTheClampedOneWithoutItsClamps) {
  const KlTerm near = kl_term({KlKind::kK3}, -1.0, -1.5);
  EXPECT_EQ(near.value, kl_term({KlKind::kLowVar}, -1.0, -1.5).value);
  const KlTerm far = kl_term({KlKind::kK3}, -5.0, -1.0);
  EXPECT_NEAR(far.value, std::exp(4.0) - 5.0, 1e-12);  // rounding of one exp
  EXPECT_NEAR(far.gradient, 1 - std::exp(4.0), 1e-12);
}

TEST(Kl, GradientIsTheDerivativeOfTheValue) {
  for (const KlKind kind : {KlKind::kK1, KlKind::kK2, KlKind::kK3, KlKind::kLowVar, KlKind::kAbs}) {
    for (const double d : {-1.25, -0.125, 0.5, 2.0}) {
      const double h = 1e-6;
      const double slope =
          (kl_term({kind}, d + h, 0).value - kl_term({kind}, d - h, 0).value) / (2 * h);
      // Central difference: error h^2 e^2 plus 1e-16 / h.
      EXPECT_NEAR(kl_term({kind}, d, 0).gradient, slope, 1e-8);
    }
  }
}

TEST(Kl, LossIsWeightedAndAddsToTheGradient) {
  const std::vector<float> lp{-1.0f, -2.0f};
  const std::vector<float> ref{-1.5f, -2.0f};
  const std::vector<double> weight{0.25, 0.5};
  std::vector<double> gradient{1.0, 1.0};
  const KlLossSums s = kl_loss({KlKind::kK2}, {lp, ref, weight, 2.0}, gradient);
  EXPECT_EQ(s.loss, 2.0 * 0.25 * 0.125);
  EXPECT_EQ(s.value, 0.125);
  EXPECT_EQ(gradient, (std::vector<double>{1.0 + 2.0 * 0.25 * 0.5, 1.0}));
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           kl_loss({KlKind::kK2}, {lp, ref, weight, -1.0}, gradient);
                         })
                .key,
            "algo.kl.coef");
}

// The full ratio form is differentiated through the ratio.
TEST(Kl, RatioFormsHaveTheirDerivatives) {
  const KlBounds full{.ratio = KlRatio::kFull};
  for (const double d : {-1.25, 0.5, 2.0}) {
    const double h = 1e-6;
    const auto value = [&](double x) { return kl_term({KlKind::kK3}, full, x, 0, -0.75).value; };
    // Central difference: error h^2 times a third derivative below 100, plus 1e-15 / h.
    EXPECT_NEAR(kl_term({KlKind::kK3}, full, d, 0, -0.75).gradient,
                (value(d + h) - value(d - h)) / (2 * h), 1e-8);
  }
}

TEST(Kl, AMaskedTokenContributesNothing) {
  const std::vector<float> lp{-1.0f, NAN};
  const std::vector<double> weight{0.5, 0};
  std::vector<double> gradient{0, 7};
  const KlLossSums s = kl_loss({KlKind::kK2}, {lp, lp, weight, 1.0}, gradient);
  EXPECT_EQ(s.loss, 0);
  EXPECT_EQ(s.value, 0);
  EXPECT_EQ(gradient[1], 7);
}

TEST(Kl, NamesCarryTheStraightThroughMark) {
  for (const char* name : {"k1", "k2", "k3", "low_var", "abs", "k1+", "k3+", "low_var+"}) {
    EXPECT_EQ(kl_estimator_name(parse_kl_estimator(name)), name);
  }
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [] { parse_kl_estimator("k4"); }).key,
            "algo.kl.estimator");
  expect_error(Code::kInvalidArgument, [] { parse_kl_estimator("+"); });
  expect_error(Code::kInvalidArgument, [] { parse_kl_estimator("k3++"); });
}

}  // namespace
}  // namespace rl

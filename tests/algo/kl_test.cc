#include "algo/kl.h"

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

TEST(Kl, MatchesEveryVerlEstimator) {
  const Json data = golden::load("rl/kl.json");
  const Inputs in = inputs_of(data);
  int compared = 0;
  for (const Json& c : data["cases"]) {
    if (c["source"] != "verl") continue;
    const KlEstimator estimator = from_verl(c["estimator"]);
    const std::vector<double> value = golden::numbers(c["value"]);
    const std::vector<double> gradient = golden::numbers(c["grad_log_prob"]);
    for (size_t i = 0; i < value.size(); ++i) {
      const KlTerm t = kl_term(estimator, in.log_prob[i], in.ref[i]);
      golden::expect_close(t.value, value[i], kTolerance, c["estimator"]);
      golden::expect_close(t.gradient, gradient[i], kTolerance, c["estimator"]);
    }
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

// OpenRLHF clamps every estimator to +-10: compared where that clamp is idle, and everywhere for
// k3. Its unbiased gradient without old log-probs is the straight-through form. The cases with old
// log-probs weight by a ratio, which is the policy loss's business.
TEST(Kl, MatchesOpenRlhfEstimatorsInsideItsClamp) {
  const Json data = golden::load("rl/kl.json");
  const Inputs in = inputs_of(data);
  int compared = 0;
  int elements = 0;
  for (const Json& c : data["cases"]) {
    if (c["source"] != "openrlhf" || c["with_old"].get<bool>()) continue;
    const auto name = c["estimator"].get<std::string>();
    KlEstimator estimator = parse_kl_estimator(name == "k3" ? "low_var" : name);
    estimator.straight_through = c["unbiased_gradient"];
    const std::vector<double> value = golden::numbers(c["value"]);
    const std::vector<double> gradient = golden::numbers(c["grad_log_prob"]);
    for (size_t i = 0; i < value.size(); ++i) {
      if (name != "k3" && std::abs(value[i]) >= 10) continue;
      const KlTerm t = kl_term(estimator, in.log_prob[i], in.ref[i]);
      golden::expect_close(t.value, value[i], kTolerance, name);
      golden::expect_close(t.gradient, gradient[i], kTolerance, name);
      ++elements;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 6);
  EXPECT_GE(elements, 6 * 20);
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

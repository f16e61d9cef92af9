#include "algo/losses/entropy.h"

#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

constexpr double kTolerance = 1e-9;  // both sides compute in double

TEST(Entropy, MatchesLogProbEntropyAndGradientsOfEveryCase) {
  const Json data = golden::load("rl/entropy.json");
  golden::Tally tally("rl/entropy.json", data["cases"].size());
  int gradients = 0;
  for (const Json& c : data["cases"]) {
    const double temperature = golden::number(c["temperature"]);
    for (size_t i = 0; i < c["logits"].size(); ++i) {
      const std::vector<float> logits = golden::floats(golden::numbers(c["logits"][i]));
      const RowReference row = row_reference(logits, temperature);
      const auto label = c["labels"][i].get<int32_t>();
      golden::expect_close(row.entropy, golden::number(c["entropy"][i]), kTolerance, "entropy");
      golden::expect_close(row.log_probs[static_cast<size_t>(label)],
                           golden::number(c["logprob"][i]), kTolerance, "log-prob");
      golden::expect_close(row.sum_squares, golden::number(c["sum_pi_squared"][i]), kTolerance,
                           "squares");
      if (c["grad_entropy_sum"].is_null()) continue;
      std::vector<double> g(logits.size(), 0);
      add_entropy_gradient(row, temperature, 1.0, g);
      golden::expect_close(g, golden::numbers(c["grad_entropy_sum"][i]), kTolerance,
                           "entropy gradient");
      std::fill(g.begin(), g.end(), 0);
      add_log_prob_gradient(row, temperature, label, 1.0, g);
      golden::expect_close(g, golden::numbers(c["grad_logprob_sum"][i]), kTolerance,
                           "log-prob gradient");
      ++gradients;
    }
    tally.done();
  }
  EXPECT_EQ(gradients, 21);
}

TEST(Entropy, AForbiddenTokenCountsAsProbabilityZero) {
  const std::vector<float> logits{0.0f, -HUGE_VALF, 0.0f};
  const RowReference row = row_reference(logits, 1.0);
  EXPECT_NEAR(row.entropy, std::log(2.0), 1e-15);  // two equal tokens
  std::vector<double> g(3, 0);
  add_entropy_gradient(row, 1.0, 1.0, g);
  EXPECT_EQ(g[1], 0.0);
}

TEST(Entropy, BonusIsTheWeightedEntropyAndSkipsMaskedTokens) {
  std::vector<double> g{1, 1, 1};
  const std::vector<double> weight{0.25, 0, 0.5};
  const std::vector<float> entropy{2, NAN, 1};
  EXPECT_EQ(entropy_bonus(0.5, weight, entropy, g), -0.5 * (0.25 * 2 + 0.5));
  EXPECT_EQ(g, (std::vector<double>{1 - 0.125, 1, 1 - 0.25}));
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { entropy_bonus(-1, weight, entropy, g); }).key,
            "algo.entropy_coef");
}

TEST(Entropy, RefusesRowsWithoutADistribution) {
  expect_error(Code::kNonFinite, [] { row_reference(std::vector<float>{0.0f, NAN}, 1.0); });
  expect_error(Code::kNonFinite, [] { row_reference(std::vector<float>{-HUGE_VALF}, 1.0); });
  expect_error(Code::kInvalidArgument, [] { row_reference({}, 1.0); });
  EXPECT_EQ(
      expect_error(Code::kOutOfRange, [] { row_reference(std::vector<float>{0.0f}, 0.0); }).key,
      "temperature");
}

}  // namespace
}  // namespace rl

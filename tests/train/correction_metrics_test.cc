// What a step reports about the mismatch of sampler and trainer, under its public names, against
// the goldens.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "train/losses/minibatch_tokens.h"

namespace rl::testing {
namespace {

using Json = nlohmann::json;

// The goldens are computed in double from inputs that are exact in fp32; verl adds 1e-8 to counts.
constexpr double kTolerance = 1e-7;

double number(const Json& v) {
  return v.is_string() ? std::stod(v.get<std::string>()) : v.get<double>();
}

std::vector<float> row_of(const Json& row) {
  std::vector<float> out;
  for (const Json& v : row) out.push_back(static_cast<float>(number(v)));
  return out;
}

struct Batch {
  std::vector<Sample> samples;
  std::vector<std::vector<float>> old;
  bool has_empty_row = false;

  explicit Batch(const Json& batch) {
    const Json& masks = batch["response_mask"];
    for (size_t i = 0; i < masks.size(); ++i) {
      Sample s;
      s.ordinal = i;
      s.prompt_tokens = 1;
      s.logprobs = row_of(batch["rollout_log_prob"][i]);
      s.ids.assign(s.logprobs.size() + 1, 0);
      for (const Json& m : masks[i]) s.loss_mask.push_back(number(m) == 1);
      has_empty_row |= std::ranges::count(s.loss_mask, 1) == 0;
      samples.push_back(s);
      old.push_back(row_of(batch["old_log_prob"][i]));
    }
  }
};

std::map<std::string, double> metrics_of(const Batch& batch, const CorrectionOptions& options) {
  MinibatchTokens tokens;
  tokens.begin(0);
  for (size_t i = 0; i < batch.samples.size(); ++i)
    tokens.add({&batch.samples[i], 0, {}, batch.old[i], true});
  TrainMetrics metrics;
  metrics.has_corrections = true;
  metrics.corrections = tokens.correct(options);
  std::map<std::string, double> out;
  for_each_metric(metrics, [&](const char* name, double value) { out[name] = value; });
  return out;
}

CorrectionOptions options_of(const Json& c) {
  CorrectionOptions o;
  o.decoupled = true;
  if (c["rollout_is"].is_null()) return o;
  o.weights.level = parse_correction_level(c["rollout_is"].get<std::string>());
  o.weights.high = c["is_threshold"];
  return o;
}

// Sequence means of verl count an empty row; those of its weights are of logarithms it clamps
// elsewhere. Of log_ppl_diff librl has the mean alone.
bool compares(const Json& c, const Batch& batch, const std::string& name) {
  if (name.ends_with("log_ppl_diff_max") || name.ends_with("log_ppl_diff_min")) return false;
  const bool of_sequences =
      name.find("ppl") != std::string::npos || name == "rollout_corr/chi2_seq";
  if (of_sequences) return !batch.has_empty_row;
  if (name == "rollout_corr/kl" || name == "rollout_corr/k3_kl" ||
      name == "rollout_corr/chi2_token")
    return true;
  const bool of_tokens = name == "rollout_corr/rollout_is_max" ||
                         name == "rollout_corr/rollout_is_min" ||
                         name.find("ratio_fraction") != std::string::npos;
  const bool of_weights =
      name == "rollout_corr/rollout_is_mean" || name == "rollout_corr/rollout_is_eff_sample_size";
  return of_weights || (of_tokens && c["rollout_is"] == "token");
}

TEST(CorrectionMetrics, AreThoseOfVerlUnderTheSameNames) {
  std::ifstream in(RL_FIXTURES "/rl/rollout_correction.json");
  const Json file = Json::parse(in);
  std::map<std::string, int> compared;
  for (const Json& c : file["cases"]) {
    if (c["source"] != "verl" || c["is_threshold"].is_string()) continue;
    SCOPED_TRACE(c["id"].get<std::string>());
    const Batch batch(file["batches"][c["batch"].get<std::string>()]);
    const std::map<std::string, double> seen = metrics_of(batch, options_of(c));
    for (const auto& [name, value] : c["metrics"].items()) {
      if (!compares(c, batch, name)) continue;
      ASSERT_TRUE(seen.contains(name)) << name;
      const double expected = number(value);
      EXPECT_NEAR(seen.at(name), expected, kTolerance * (1 + std::abs(expected))) << name;
      ++compared[name];
    }
  }
  EXPECT_GE(compared["rollout_corr/log_ppl_diff"], 4);
  EXPECT_EQ(compared.size(), 17u);
}

// Probabilities of one token each.
std::map<std::string, double> compared(const std::vector<double>& stored,
                                       const std::vector<double>& found) {
  TrainMetrics metrics;
  for (size_t i = 0; i < stored.size(); ++i)
    metrics.probabilities.add(static_cast<float>(std::log(stored[i])),
                              static_cast<float>(std::log(found[i])));
  std::map<std::string, double> out;
  for_each_metric(metrics, [&](const char* name, double value) { out[name] = value; });
  return out;
}

constexpr const char* kCorrelation = "training/rollout_actor_probs_pearson_corr";
constexpr double kOfLogs = 1e-6;  // the log-probs are rounded to fp32

// Deviations from the means are (-3, -1, 1, 3) / 10 and (-3, -2, 3, 2) / 10.
TEST(ProbabilityDifferences, AreOfTheStoredAndTheComputedProbabilities) {
  const std::vector<double> stored = {0.2, 0.4, 0.6, 0.8}, found = {0.3, 0.4, 0.9, 0.8};
  for (const bool swapped : {false, true}) {
    const std::map<std::string, double> m =
        swapped ? compared(found, stored) : compared(stored, found);
    EXPECT_EQ(m.at("training/rollout_probs_diff_valid"), 1);
    EXPECT_NEAR(m.at("training/rollout_probs_diff_mean"), 0.1, kOfLogs);
    EXPECT_NEAR(m.at("training/rollout_probs_diff_max"), 0.3, kOfLogs);
    EXPECT_NEAR(m.at("training/rollout_probs_diff_std"), std::sqrt(0.02), kOfLogs);
    EXPECT_NEAR(m.at(kCorrelation), 20 / std::sqrt(20.0 * 26.0), kOfLogs);
  }
  EXPECT_NEAR(compared(stored, {0.8, 0.9, 0.4, 0.3}).at(kCorrelation), -20 / std::sqrt(20.0 * 26.0),
              kOfLogs);
}

TEST(ProbabilityDifferences, OfEqualOrConstantProbabilitiesHaveTheCorrelationOne) {
  EXPECT_EQ(compared({0.2, 0.4}, {0.2, 0.4}).at(kCorrelation), 1);
  EXPECT_EQ(compared({0.5, 0.5}, {0.2, 0.4}).at(kCorrelation), 1);
  EXPECT_EQ(compared({0.2, 0.4}, {0.5, 0.5}).at(kCorrelation), 1);
  EXPECT_EQ(compared({}, {}).at(kCorrelation), 1);
  EXPECT_EQ(compared({}, {}).at("training/rollout_probs_diff_valid"), 0);
}

TEST(ProbabilityDifferences, LeaveOutWhatIsNotFinite) {
  const auto with = [](double stored, double found) {
    return compared({0.2, stored, 0.4}, {0.3, found, 0.6});
  };
  for (const auto& m : {with(0, 0.5), with(0.5, 0), with(NAN, 0.5), with(0.5, NAN)})
    EXPECT_EQ(m, compared({0.2, 0.4}, {0.3, 0.6}));
}

}  // namespace
}  // namespace rl::testing

// Algorithms on arrays, through the C interface: goldens of verl, sums that add up, and errors that
// name the field.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

using Json = nlohmann::json;

// The goldens are computed in double from inputs that are exact in fp32; verl adds 1e-8 to counts.
constexpr double kTolerance = 1e-7;

Json golden(const char* name) {
  std::ifstream in(std::string(RL_FIXTURES "/rl/") + name);
  EXPECT_TRUE(in.good()) << name;
  return Json::parse(in);
}

// A number, or one of the words that stand for a non-finite one.
double number(const Json& v) {
  return v.is_string() ? std::stod(v.get<std::string>()) : v.get<double>();
}

class Options {
 public:
  Options() { EXPECT_RL_OK(rl_options_create(&handle, &err)); }
  ~Options() { rl_options_destroy(handle); }
  Options(const Options&) = delete;
  void set(const char* key, const std::string& text) { abi_test::set(handle, key, text); }
  rl_options* handle = nullptr;
};

// A padded batch of the goldens, every position of it, response_mask as mask.
struct Tokens {
  rl_algo_tokens view;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> mask;
  std::vector<float> logprobs, old, advantages;

  Tokens(const Json& batch, bool per_token) {
    for (const Json& row : batch["response_mask"]) {
      lengths.push_back(static_cast<int32_t>(row.size()));
      for (const Json& m : row) mask.push_back(number(m) == 1);
    }
    logprobs = flat(batch["log_prob"]);
    old = flat(batch["old_log_prob"]);
    if (per_token) advantages = flat(batch["adv_token"]);
    for (size_t i = 0; i < lengths.size() && !per_token; ++i) {
      const auto a = static_cast<float>(number(batch["adv_seq"][i]));
      advantages.insert(advantages.end(), static_cast<size_t>(lengths[i]), a);
    }
    rl_algo_tokens_init(&view, sizeof view);
    view.lengths = lengths.data();
    view.num_sequences = lengths.size();
    view.num_tokens = mask.size();
    view.mask = mask.data();
    view.logprobs = logprobs.data();
    view.old_logprobs = old.data();
    view.advantages = advantages.data();
  }
  static std::vector<float> flat(const Json& tensor) {
    std::vector<float> out;
    for (const Json& row : tensor) {
      for (const Json& v : row) out.push_back(static_cast<float>(number(v)));
    }
    return out;
  }
};

// Options of a case whose loss is one that verl aggregates by the mode that is named.
bool take_case(const Json& params, const std::string& name, Options& options) {
  static const std::map<std::string, const char*> names = {
      {"vanilla", "ppo_clip"}, {"gspo", "gspo"}, {"cispo", "cispo"}, {"gpg", "gpg"},
      {"dppo_tv", "dppo_tv"},  {"sapo", "sapo"}, {"dro", "dro"}};
  const auto found = names.find(name);
  if (found == names.end() || params["is_weights"].get<bool>()) return false;
  if (!params["global_batch_info"].empty()) return false;
  std::string agg = params["agg"];
  std::replace(agg.begin(), agg.end(), '-', '_');
  if (agg == "seq_mean_token_sum_norm") return false;
  options.set("algo.policy_loss", found->second);
  options.set("algo.loss_agg", agg);
  if (name == "sapo") {
    options.set("algo.sapo_tau_pos", params.value("tau_pos", Json(1.0)).dump());
    options.set("algo.sapo_tau_neg", params.value("tau_neg", Json(1.05)).dump());
  } else if (name != "gpg" && name != "dro") {
    options.set("algo.clip_low", params.value("clip_ratio_low", Json(0.2)).dump());
    options.set("algo.clip_high", params.value("clip_ratio_high", Json(0.2)).dump());
  }
  const std::string cap = params.value("clip_ratio_c", Json(3.0)).dump();
  if (name == "vanilla") options.set("algo.dual_clip", cap);
  if (name == "dppo_tv") options.set("algo.ratio_cap", cap);
  if (name == "gspo") options.set("algo.ratio_log_clamp", "10");
  if (name == "dro") options.set("algo.dro_beta", params.value("dro_beta", Json(0.1)).dump());
  return true;
}

TEST(Algo, PolicyLossesAreThoseOfVerlWithTheirGradients) {
  const Json file = golden("policy_losses.json");
  std::map<std::string, int> seen;
  for (const Json& c : file["cases"]) {
    const std::string id = c["id"];
    if (c["source"] != "verl") continue;
    Options options;
    if (!take_case(c["params"], c["loss_name"], options)) continue;
    SCOPED_TRACE(id);
    const Json& batch = file["batches"][c["batch"].get<std::string>()];
    const Tokens t(batch, c["advantages"] == "adv_token");
    std::vector<double> gradient(t.mask.size());
    rl_algo_loss loss;
    rl_algo_loss_init(&loss, sizeof loss);
    EXPECT_RL_OK(rl_algo_policy_loss(options.handle, &t.view, gradient.data(), gradient.size(),
                                     &loss, &err));
    const double expected = number(c["loss"]);
    EXPECT_NEAR(loss.loss, expected, kTolerance * (1 + std::abs(expected)));
    size_t at = 0;
    for (const Json& row : c["grad_log_prob"]) {
      for (const Json& v : row) {
        const double wanted = t.mask[at] != 0 ? number(v) : 0;
        EXPECT_NEAR(gradient[at++], wanted, kTolerance * (1 + std::abs(wanted)));
      }
    }
    ++seen[c["loss_name"]];
  }
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Algo, AdvantagesCompareTheSamplesOfAGroup) {
  const int32_t lengths[] = {2, 1, 1, 2};
  const uint64_t groups[] = {7, 7, 9, 9};
  const uint8_t mask[] = {1, 0, 1, 1, 1, 1};
  const double rewards[] = {1, 0, 0.5, 0.25};
  rl_algo_tokens t;
  rl_algo_tokens_init(&t, sizeof t);
  t.lengths = lengths;
  t.num_sequences = 4;
  t.num_tokens = 6;
  t.groups = groups;
  t.mask = mask;
  t.rewards = rewards;
  double a[6];
  Options options;
  options.set("algo.advantage", "rloo");
  EXPECT_RL_OK(rl_algo_advantages(options.handle, &t, a, 6, nullptr, 0, &err));
  const double expected[] = {1, 0, -1, 0.25, -0.25, -0.25};
  for (int i = 0; i < 6; ++i) EXPECT_DOUBLE_EQ(a[i], expected[i]) << i;
  EXPECT_RL_OK(rl_algo_advantages(nullptr, &t, a, 6, nullptr, 0, &err));  // grpo
  EXPECT_NEAR(a[0], 0.5 / (std::sqrt(0.5) + 1e-6), 1e-12);
  options.set("algo.advantage", "remax");
  rl_error* error = nullptr;
  EXPECT_EQ(rl_algo_advantages(options.handle, &t, a, 6, nullptr, 0, &error), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(error, RL_ERROR_KEY), "tokens.baselines");
  EXPECT_EQ(a[0], 0.0);
  rl_error_release(error);
  const double baselines[] = {0.5, 0.5, 0, 0};
  t.baselines = baselines;
  EXPECT_RL_OK(rl_algo_advantages(options.handle, &t, a, 6, nullptr, 0, &err));
  EXPECT_DOUBLE_EQ(a[2], -0.5);
  EXPECT_DOUBLE_EQ(a[5], 0.25);
}

// gamma and lambda 1: advantages are rewards to go minus values, returns are rewards to go.
TEST(Algo, GaeReadsValuesAndRewardsOfTokens) {
  const int32_t lengths[] = {2, 1};
  const double rewards[] = {1, 0}, token_rewards[] = {0.5, 0, -1};
  const float values[] = {0.25f, 0.5f, 2};
  rl_algo_tokens t;
  rl_algo_tokens_init(&t, sizeof t);
  t.lengths = lengths;
  t.num_sequences = 2;
  t.num_tokens = 3;
  t.rewards = rewards;
  t.token_rewards = token_rewards;
  double a[3], returns[3];
  Options options;
  options.set("algo.advantage", "gae");
  options.set("algo.whiten", "none");
  rl_error* error = nullptr;
  EXPECT_EQ(rl_algo_advantages(options.handle, &t, a, 3, returns, 3, &error), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(error, RL_ERROR_KEY), "tokens.old_values");
  rl_error_release(error);
  t.values = values;
  EXPECT_RL_OK(rl_algo_advantages(options.handle, &t, a, 3, returns, 3, &err));
  const double to_go[] = {1.5, 1, -1}, expected[] = {1.25, 0.5, -3};
  for (int i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(returns[i], to_go[i]) << i;
    EXPECT_DOUBLE_EQ(a[i], expected[i]) << i;
  }
  EXPECT_EQ(rl_algo_advantages(nullptr, &t, a, 3, nullptr, 0, &error), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(error, RL_ERROR_KEY), "tokens.token_rewards") << "grpo has none";
  rl_error_release(error);
}

TEST(Algo, AValueLossIsClippedAroundTheOldValue) {
  const int32_t lengths[] = {2};
  const float values[] = {1, 3}, old[] = {1, 1}, returns[] = {0, 0};
  rl_algo_tokens t;
  rl_algo_tokens_init(&t, sizeof t);
  t.lengths = lengths;
  t.num_sequences = 1;
  t.num_tokens = 2;
  t.values = values;
  t.returns = returns;
  rl_algo_loss loss;
  rl_algo_loss_init(&loss, sizeof loss);
  double gradient[2];
  EXPECT_RL_OK(rl_algo_value_loss(nullptr, &t, gradient, 2, &loss, &err));
  EXPECT_DOUBLE_EQ(loss.loss, (0.5 + 4.5) / 2);
  EXPECT_DOUBLE_EQ(gradient[0], 0.5);
  EXPECT_DOUBLE_EQ(gradient[1], 1.5);
  EXPECT_EQ(loss.num_tokens, 2u);
  Options options;
  options.set("algo.advantage", "gae");
  options.set("algo.value_clip", "0.5");
  const float higher[] = {4, 4};  // the clipped value, 1.5, is the further one
  t.old_values = old;
  t.returns = higher;
  EXPECT_RL_OK(rl_algo_value_loss(options.handle, &t, gradient, 2, &loss, &err));
  EXPECT_DOUBLE_EQ(loss.loss, (4.5 + 3.125) / 2);
  EXPECT_DOUBLE_EQ(gradient[0], -1.5);
  EXPECT_EQ(gradient[1], 0.0);
  EXPECT_DOUBLE_EQ(loss.clip_fraction, 0.5);
}

struct Small {
  const int32_t lengths[2] = {2, 2};
  const uint8_t mask[4] = {1, 1, 0, 1};
  const float logprobs[4] = {-1, -2, -3, -1.5f};
  const float rollout[4] = {-1.5f, -2, -9, -3.5f};
  const float ref[4] = {-1.5f, -1, -3, -1.5f};
  const float advantages[4] = {1, 1, -1, -1};
  rl_algo_tokens view;
  Small() {
    rl_algo_tokens_init(&view, sizeof view);
    view.lengths = lengths;
    view.num_sequences = 2;
    view.num_tokens = 4;
    view.mask = mask;
    view.logprobs = logprobs;
    view.rollout_logprobs = rollout;
    view.ref_logprobs = ref;
    view.advantages = advantages;
  }
};

TEST(Algo, AnEntropyLossIsTheWeightedSumOfEntropies) {
  Small s;
  const float entropies[] = {1, 2, 8, 3};
  s.view.entropies = entropies;
  rl_algo_loss loss;
  rl_algo_loss_init(&loss, sizeof loss);
  double gradient[4];
  Options options;
  options.set("algo.entropy_coef", "0.5");
  EXPECT_RL_OK(rl_algo_entropy_loss(options.handle, &s.view, gradient, 4, &loss, &err));
  EXPECT_DOUBLE_EQ(loss.loss, -0.5 * 2);
  for (const int i : {0, 1, 3}) EXPECT_DOUBLE_EQ(gradient[i], -0.5 / 3);
  EXPECT_EQ(gradient[2], 0.0);
}

TEST(Algo, TotalsAndGivenWeightsReplaceThoseOfTheTokens) {
  Small s;
  double w[4];
  s.view.total_tokens = 12;
  EXPECT_RL_OK(rl_algo_weights(nullptr, &s.view, w, 4, &err));
  for (const int i : {0, 1, 3}) EXPECT_DOUBLE_EQ(w[i], 1.0 / 12);
  Options options;
  options.set("algo.loss_agg", "seq_mean_token_mean");
  s.view.total_sequences = 8;
  EXPECT_RL_OK(rl_algo_weights(options.handle, &s.view, w, 4, &err));
  EXPECT_DOUBLE_EQ(w[0], 1.0 / 16);
  EXPECT_DOUBLE_EQ(w[3], 1.0 / 8);
  const double given[] = {2, 3, 5, 7};
  s.view.weights = given;
  EXPECT_RL_OK(rl_algo_weights(options.handle, &s.view, w, 4, &err));
  const double kept[] = {2, 3, 0, 7};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(w[i], kept[i]) << i;
  const double bad[] = {2, 3, 5, std::nan("")};
  s.view.weights = bad;
  rl_error* error = nullptr;
  EXPECT_EQ(rl_algo_weights(options.handle, &s.view, w, 4, &error), RL_NON_FINITE);
  EXPECT_EQ(text_of(error, RL_ERROR_KEY), "tokens.weights");
  rl_error_release(error);
}

TEST(Algo, SequencesArePackedWithinABudgetOrEvenly) {
  const int32_t lengths[] = {6, 5, 4, 1};
  int32_t bins[4];
  uint64_t count = 0;
  rl_algo_packing packing;
  rl_algo_packing_init(&packing, sizeof packing);
  packing.max_tokens = 8;
  Options options;
  options.set("trainer.balance", "tokens");
  EXPECT_RL_OK(rl_algo_pack(options.handle, lengths, 4, &packing, bins, 4, &count, &err));
  ASSERT_EQ(count, 3u);
  int64_t sums[3] = {};
  for (int i = 0; i < 4; ++i) sums[bins[i]] += lengths[i];
  for (const int64_t sum : sums) EXPECT_LE(sum, 8);
  packing.max_tokens = 0;
  packing.min_bins = 2;
  EXPECT_RL_OK(rl_algo_pack(options.handle, lengths, 4, &packing, bins, 4, &count, &err));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(bins[0], bins[3]) << "7 and 9, or 6 + 1 and 5 + 4";
  const auto refused = [&](const char* key, auto&& spoil) {
    rl_algo_packing bad = packing;
    spoil(bad);
    rl_error* error = nullptr;
    EXPECT_EQ(rl_algo_pack(options.handle, lengths, 4, &bad, bins, 4, &count, &error),
              RL_OUT_OF_RANGE);
    EXPECT_EQ(text_of(error, RL_ERROR_KEY), key);
    rl_error_release(error);
  };
  refused("packing.min_bins", [](auto& p) { p.min_bins = 0; });
  refused("packing.divisor", [](auto& p) { p.divisor = 2; });
  refused("packing.group_size", [](auto& p) { p.group_size = UINT64_MAX; });
}

// rl_algo_pack names fields of its struct, never options or parameters of the library's own.
class AlgoPacking : public ::testing::Test {
 protected:
  AlgoPacking() { rl_algo_packing_init(&packing_, sizeof packing_); }
  void expect_refused(rl_status status, const char* key, const std::string& part) const {
    rl_error* error = nullptr;
    std::vector<int32_t> bins(lengths_.size());
    uint64_t count = 0;
    EXPECT_EQ(rl_algo_pack(options_.handle, lengths_.data(), lengths_.size(), &packing_,
                           bins.data(), bins.size(), &count, &error),
              status);
    EXPECT_EQ(text_of(error, RL_ERROR_KEY), key);
    const std::string message = text_of(error, RL_ERROR_MESSAGE);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    rl_error_release(error);
  }

  Options options_;
  rl_algo_packing packing_;
  std::vector<int32_t> lengths_ = {6, 5, 4};
};

TEST_F(AlgoPacking, SequencesFillTheirGroups) {
  packing_.group_size = 2;
  for (const uint64_t budget : {0, 100}) {
    packing_.max_tokens = budget;
    expect_refused(RL_INVALID_ARGUMENT, "packing.group_size",
                   "3 sequences are no multiple of packing.group_size 2");
  }
}

TEST_F(AlgoPacking, WithoutABudgetThereIsAUnitForEveryBin) {
  packing_.min_bins = 4;
  expect_refused(RL_INVALID_ARGUMENT, "packing.min_bins", "3 units are fewer");
  lengths_.assign(6, 1);
  packing_.group_size = 2;
  packing_.min_bins = 2;
  expect_refused(RL_INVALID_ARGUMENT, "packing.min_bins", "3 groups are no multiple");
}

TEST_F(AlgoPacking, TheBudgetIsThatOfTheStruct) {
  packing_.max_tokens = 5;
  expect_refused(RL_OUT_OF_RANGE, "packing.max_tokens", "sample 0 has 6 tokens");
  packing_.max_tokens = 10;
  packing_.divisor = 4;
  expect_refused(RL_INVALID_ARGUMENT, "packing.max_tokens", "do not fit into a multiple of 4");
}

// 6 C L + L^2 of the longest sequence and the widest model is 4.6e18, and int64_t ends at 9.2e18.
TEST_F(AlgoPacking, TheCostOfAllSequencesIsANumber) {
  options_.set("trainer.balance", "flops");
  packing_.hidden = 1 << 20;
  lengths_.assign(2, std::numeric_limits<int32_t>::max());
  expect_refused(RL_OUT_OF_RANGE, "lengths", "the cost of all sequences");
  packing_.max_tokens = uint64_t{1} << 31;
  expect_refused(RL_OUT_OF_RANGE, "lengths", "the cost of all sequences");
}

TEST(Algo, WeightsSumToOneUnderEveryMean) {
  const Small s;
  double w[4];
  EXPECT_RL_OK(rl_algo_weights(nullptr, &s.view, w, 4, &err));
  for (const int i : {0, 1, 3}) EXPECT_DOUBLE_EQ(w[i], 1.0 / 3);
  EXPECT_EQ(w[2], 0.0);
  Options options;
  options.set("algo.loss_agg", "seq_mean_token_mean");
  EXPECT_RL_OK(rl_algo_weights(options.handle, &s.view, w, 4, &err));
  EXPECT_DOUBLE_EQ(w[0], 0.25);
  EXPECT_DOUBLE_EQ(w[3], 0.5);
}

TEST(Algo, KlIsThatOfTheEstimator) {
  const Small s;
  double value[4], gradient[4];
  EXPECT_RL_OK(rl_algo_kl(nullptr, &s.view, value, 4, gradient, 4, &err));
  EXPECT_DOUBLE_EQ(value[0], std::exp(-0.5) - 1 + 0.5);  // k3
  EXPECT_DOUBLE_EQ(gradient[0], 1 - std::exp(-0.5));
  EXPECT_EQ(value[2], 0.0);
  Options options;
  options.set("algo.kl.where", "loss");
  options.set("algo.kl.estimator", "k1+");
  EXPECT_RL_OK(rl_algo_kl(options.handle, &s.view, value, 4, gradient, 4, &err));
  EXPECT_EQ(value[1], -1.0);
  EXPECT_EQ(gradient[1], -1.0);  // of k2
}

TEST(Algo, CorrectionsWeighAndReject) {
  const Small s;
  Options options;
  options.set("algo.correction.decoupled", "true");
  options.set("algo.correction.is", "token");
  options.set("algo.correction.rs", "token_k2");
  options.set("algo.correction.rs_bounds", "1");
  double w[4];
  uint8_t keep[4];
  EXPECT_RL_OK(rl_algo_corrections(options.handle, &s.view, w, 4, keep, 4, &err));
  EXPECT_DOUBLE_EQ(w[0], std::exp(0.5));
  EXPECT_DOUBLE_EQ(w[1], 1.0);
  EXPECT_EQ(w[3], 0.0);  // l = 2, l^2 / 2 above 1
  EXPECT_EQ(std::vector<int>(keep, keep + 4), (std::vector<int>{1, 1, 0, 0}));
  double gradient[4];
  rl_algo_loss loss;
  rl_algo_loss_init(&loss, sizeof loss);
  EXPECT_RL_OK(rl_algo_policy_loss(options.handle, &s.view, gradient, 4, &loss, &err));
  EXPECT_EQ(loss.num_tokens, 2u);
  EXPECT_EQ(loss.num_rejected, 1u);
  EXPECT_DOUBLE_EQ(loss.loss, -(std::exp(0.5) + 1) / 2);
  EXPECT_DOUBLE_EQ(gradient[0], -std::exp(0.5) / 2);
  EXPECT_EQ(gradient[3], 0.0);
}

TEST(Algo, WhatIsWrongIsNamed) {
  Small s;
  Options options;
  double gradient[4] = {1, 1, 1, 1};
  rl_algo_loss loss;
  rl_algo_loss_init(&loss, sizeof loss);
  const auto key = [&](rl_status expected) {
    rl_error* error = nullptr;
    gradient[0] = 1;
    EXPECT_EQ(rl_algo_policy_loss(options.handle, &s.view, gradient, 4, &loss, &error), expected);
    const std::string text = text_of(error, RL_ERROR_KEY);
    rl_error_release(error);
    EXPECT_EQ(gradient[0], 0.0);
    EXPECT_EQ(loss.num_tokens, 0u);
    return text;
  };
  s.view.num_tokens = 5;
  EXPECT_EQ(key(RL_INVALID_ARGUMENT), "tokens.num_tokens");
  s.view.num_tokens = 4;
  s.view.advantages = nullptr;
  EXPECT_EQ(key(RL_INVALID_ARGUMENT), "tokens.advantages");
  s.view.advantages = s.advantages;
  const int32_t bad[] = {-1, 4};
  s.view.lengths = bad;
  EXPECT_EQ(key(RL_OUT_OF_RANGE), "tokens.lengths");
  s.view.lengths = s.lengths;
  options.set("algo.correction.is", "token");
  EXPECT_EQ(key(RL_CONFLICT), "algo.correction.is");
  options.set("algo.correction.is", "none");
  options.set("algo.kl.where", "loss");
  s.view.ref_logprobs = nullptr;
  EXPECT_EQ(key(RL_INVALID_ARGUMENT), "tokens.ref_logprobs");
}

}  // namespace
}  // namespace abi_test

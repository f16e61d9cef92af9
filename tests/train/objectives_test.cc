// SFT and preference objectives through the trainer: values and gradients are those of PyTorch's
// autograd on the same model (tests/fixtures/objectives/llama.json, float32), nothing depends on
// the cut into micro-batches, pairs stay together, and samples need no log-probs.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const auto* const kGolden =
      new Json(Json::parse(std::ifstream(std::string(RL_FIXTURES) + "/objectives/llama.json")));
  return *kGolden;
}

// The pairs of the golden file, without log-probs.
struct Pairs {
  std::vector<Sample> samples;
  std::vector<std::vector<float>> reference;

  std::vector<TrainSample> batch() const {
    std::vector<TrainSample> out;
    for (size_t i = 0; i < samples.size(); ++i) out.push_back({&samples[i], 0, {}, reference[i]});
    return out;
  }
};

Pairs golden_pairs() {
  Pairs out;
  for (const Json& pair : golden().at("pairs")) {
    const auto prompt = pair.at("prompt").get<std::vector<int32_t>>();
    for (const char* side : {"chosen", "rejected"}) {
      const Json& answer = pair.at(side);
      std::vector<int32_t> ids = prompt;
      for (const Json& id : answer.at("ids")) ids.push_back(id.get<int32_t>());
      const size_t i = out.samples.size();
      out.samples.push_back(make_sample(ids, static_cast<int32_t>(prompt.size()), i / 2, i % 2));
      out.samples[i].logprobs.clear();
      out.samples[i].versions.assign(answer.at("ids").size(), kUnknownVersion);
      out.samples[i].loss_mask = answer.at("mask").get<std::vector<uint8_t>>();
      out.reference.push_back(answer.at("ref_logprobs").get<std::vector<float>>());
    }
  }
  return out;
}

TrainerOptions options_of(Objective objective) {
  TrainerOptions o;
  o.max_tokens = 512;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.objective = objective;
  return o;
}

// The settings of each case of the golden file.
std::map<std::string, TrainerOptions> golden_cases() {
  TrainerOptions sft = options_of(Objective::kSft), by_sequence = sft;
  by_sequence.loss_agg = LossAgg::kSeqMeanTokenMean;
  TrainerOptions dpo = options_of(Objective::kDpo);
  dpo.dpo.beta = golden().at("beta");
  TrainerOptions smoothed = dpo, ipo = dpo;
  smoothed.dpo.label_smoothing = golden().at("label_smoothing");
  smoothed.dpo.nll_coef = golden().at("nll_coef");
  ipo.dpo.ipo = true;
  return {{"sft_token_mean", sft},
          {"sft_seq_mean_token_mean", by_sequence},
          {"dpo", dpo},
          {"dpo_smoothed_nll", smoothed},
          {"ipo", ipo}};
}

struct Result {
  TrainMetrics metrics;
  std::vector<float> gradients;
};

Result step(const TrainerOptions& options, const Pairs& pairs = golden_pairs()) {
  TrainRig rig({}, options);
  Result r;
  r.metrics = rig.trainer->step(pairs.batch());
  r.gradients = rig.gradients();
  return r;
}

TEST(Objectives, LossAndGradientAreThoseOfAutograd) {
  TrainRig rig({}, options_of(Objective::kSft));
  for (const auto& [name, options] : golden_cases()) {
    SCOPED_TRACE(name);
    const Json& expected = golden().at("cases").at(name);
    const Result r = step(options);
    const double loss = expected.at("loss"), norm = expected.at("grad_norm");
    // Both sides are fp32 forwards; sums of twenty log-probs of size 8 are good to 1e-5.
    EXPECT_NEAR(r.metrics.loss, loss, 1e-5 * std::abs(loss));
    EXPECT_EQ(r.metrics.pg_loss, r.metrics.loss);
    EXPECT_NEAR(r.metrics.grad_norm, norm, 2e-5 * norm);
    size_t compared = 0;
    for (const Parameter& p : rig.model().layout().parameters()) {
      if (!expected.at("gradients").contains(p.name)) continue;
      ++compared;
      const auto values = expected.at("gradients").at(p.name).get<std::vector<float>>();
      const std::vector<float> own(r.gradients.begin() + p.offset,
                                   r.gradients.begin() + p.offset + p.size);
      EXPECT_LE(relative_l2(own, values), 2e-5) << p.name;
    }
    EXPECT_EQ(compared, 3u);
  }
}

TEST(Objectives, AFiniteDifferenceAlongTheGradientIsItsNorm) {
  for (const auto& [name, options] : golden_cases()) {
    SCOPED_TRACE(name);
    TrainerOptions still = options;
    still.schedule.lr = 0;
    still.adamw.weight_decay = 0;
    TrainRig rig({}, still);
    const Pairs pairs = golden_pairs();
    const double norm = rig.trainer->step(pairs.batch()).grad_norm;
    const std::vector<float> gradient = rig.gradients(), start = rig.masters();
    const auto loss_at = [&](double distance) {
      for (size_t i = 0; i < start.size(); ++i) {
        rig.model().master()[i] = start[i] + static_cast<float>(distance / norm * gradient[i]);
      }
      rig.model().publish();
      return rig.trainer->step(pairs.batch()).loss;
    };
    constexpr double kStep = 1e-3;  // both the third derivative and fp32 rounding stay below 1%
    EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), norm, 0.01 * norm);
  }
}

TEST(Objectives, PreferenceMetricsAreMeansOverPairs) {
  TrainerOptions options = options_of(Objective::kDpo);
  options.dpo.beta = golden().at("beta");
  const PreferenceSums p = step(options).metrics.preference;
  double chosen = 0, rejected = 0, reward = 0, margin = 0, right = 0, nll = 0;
  for (const Json& s : golden().at("sums")) {
    const double c = s.at("chosen"), r = s.at("rejected");
    const double rc = options.dpo.beta * (c - s.at("ref_chosen").get<double>());
    const double rr = options.dpo.beta * (r - s.at("ref_rejected").get<double>());
    chosen += c / 3;
    rejected += r / 3;
    reward += rc / 3;
    margin += (rc - rr) / 3;
    right += rc > rr;
    nll -= c / s.at("n_chosen").get<double>() / 3;
  }
  EXPECT_EQ(p.pairs, 3);
  EXPECT_EQ(p.right, right);
  EXPECT_NEAR(p.mean(p.logprob_chosen), chosen, 1e-4);  // fp32 sums of up to twelve log-probs
  EXPECT_NEAR(p.mean(p.logprob_rejected), rejected, 1e-4);
  EXPECT_NEAR(p.mean(p.reward_chosen), reward, 1e-4);
  EXPECT_NEAR(p.mean(p.reward_chosen - p.reward_rejected), margin, 1e-4);
  EXPECT_NEAR(p.mean(p.nll), nll, 1e-4);
}

TEST(Objectives, NoCutIntoMicroBatchesMattersToThem) {
  std::mt19937 rng(29);
  double largest = 0;
  for (const auto& [name, options] : golden_cases()) {
    SCOPED_TRACE(name);
    const Result whole = step(options);
    for (int cut = 0; cut < 10; ++cut) {
      TrainerOptions o = options;
      o.max_tokens = 25 + static_cast<int64_t>(rng() % 60);
      o.logprob_chunk_tokens = static_cast<int64_t>(rng() % 12);
      o.batch.shared_prefix = cut % 2 == 0;
      const Result r = step(o);
      EXPECT_EQ(r.metrics.optimizer_steps, 1);
      // Sums in double, in another order.
      EXPECT_NEAR(r.metrics.loss, whole.metrics.loss, 1e-12 * std::abs(whole.metrics.loss));
      EXPECT_EQ(r.metrics.preference.loss, whole.metrics.preference.loss);
      largest = std::max(largest, relative_l2(r.gradients, whole.gradients));
    }
  }
  EXPECT_LE(largest, 1e-6);  // N4
  RecordProperty("relative_l2", std::to_string(largest));
}

TEST(Objectives, ThePromptOfAPairIsComputedOnce) {
  TrainerOptions options = options_of(Objective::kDpo);
  const TrainMetrics shared = step(options).metrics;
  options.batch.shared_prefix = false;
  const TrainMetrics apart = step(options).metrics;
  EXPECT_EQ(apart.computed_rows - shared.computed_rows, 5 + 17 + 9);
  EXPECT_EQ(shared.loss, apart.loss);
}

TEST(Objectives, MinibatchesHoldWholePairs) {
  TrainerOptions options = options_of(Objective::kDpo);
  options.batch.num_minibatches = 2;
  EXPECT_EQ(step(options).metrics.optimizer_steps, 2);
  EXPECT_EQ(step(options).metrics.preference.pairs, 3);
  options.batch.global_batch_size = 1;  // counts pairs
  const TrainMetrics each = step(options).metrics;
  EXPECT_EQ(each.optimizer_steps, 3);
  EXPECT_EQ(each.preference.pairs, 3);
  TrainerOptions sft = options_of(Objective::kSft);
  sft.batch.global_batch_size = 1;  // counts responses
  EXPECT_EQ(step(sft).metrics.optimizer_steps, 6);
}

TEST(Objectives, StoredLogprobsAdvantagesAndOrderChangeNothing) {
  for (const Objective objective : {Objective::kSft, Objective::kDpo}) {
    const Result plain = step(options_of(objective));
    TrainRig rig({}, options_of(objective));
    Pairs pairs = golden_pairs();
    for (Sample& s : pairs.samples) s.logprobs.assign(static_cast<size_t>(s.generated()), -3.0f);
    std::vector<TrainSample> batch = pairs.batch();
    for (TrainSample& s : batch) s.advantage = 7;
    std::ranges::reverse(batch);
    EXPECT_EQ(rig.trainer->step(batch).loss, plain.metrics.loss);
    EXPECT_TRUE(same_bits(rig.gradients(), plain.gradients));
  }
}

TEST(Objectives, TheReferenceModelGivesTheLogprobsThatAreNotGiven) {
  TrainRig rig({.with_reference = true}, options_of(Objective::kDpo));
  const Pairs pairs = golden_pairs();
  std::vector<TrainSample> batch = pairs.batch();
  for (TrainSample& s : batch) s.ref_logprobs = {};
  const TrainMetrics first = rig.trainer->step(batch);
  // The policy is its reference yet, bit for bit: D = 0.
  EXPECT_NEAR(first.loss, std::log(2.0), 1e-12);
  EXPECT_EQ(first.preference.reward_chosen, 0);
  const TrainMetrics second = rig.trainer->step(batch);
  EXPECT_LT(second.loss, first.loss);
  EXPECT_EQ(second.preference.right, 3);
}

TEST(Objectives, MetricsHaveTheNamesOfTheirObjective) {
  const auto names = [](const TrainMetrics& metrics) {
    std::map<std::string, double> out;
    for_each_metric(metrics, [&](const char* name, double value) { out[name] = value; });
    return out;
  };
  const auto dpo = names(step(options_of(Objective::kDpo)).metrics);
  const auto sft = names(step(options_of(Objective::kSft)).metrics);
  for (const char* name : {"rewards/chosen", "rewards/rejected", "rewards/margins",
                           "rewards/accuracies", "logps/chosen", "logps/rejected", "nll_loss"}) {
    EXPECT_EQ(dpo.count(name), 1u) << name;
    EXPECT_EQ(sft.count(name), 0u) << name;
  }
  for (const char* name : {"actor/pg_loss", "actor/ppo_kl", "actor/ratio_max"}) {
    EXPECT_EQ(dpo.count(name) + sft.count(name), 0u) << name;
  }
  for (const char* name : {"actor/loss", "actor/entropy", "actor/grad_norm", "actor/lr"}) {
    EXPECT_EQ(dpo.count(name) + sft.count(name), 2u) << name;
  }
}

TEST(Objectives, EachMetricOfPreferencesHasItsOwnSum) {
  const TrainMetrics m = step(options_of(Objective::kDpo)).metrics;
  const PreferenceSums& p = m.preference;
  std::map<std::string, double> shown;
  for_each_metric(m, [&](const char* name, double value) { shown[name] = value; });
  EXPECT_EQ(shown.at("rewards/chosen"), p.mean(p.reward_chosen));
  EXPECT_EQ(shown.at("rewards/rejected"), p.mean(p.reward_rejected));
  EXPECT_EQ(shown.at("rewards/margins"), p.mean(p.reward_chosen - p.reward_rejected));
  EXPECT_EQ(shown.at("rewards/accuracies"), p.mean(static_cast<double>(p.right)));
  EXPECT_EQ(shown.at("logps/chosen"), p.mean(p.logprob_chosen));
  EXPECT_EQ(shown.at("logps/rejected"), p.mean(p.logprob_rejected));
  EXPECT_EQ(shown.at("nll_loss"), p.mean(p.nll));
  EXPECT_NE(p.logprob_chosen, p.logprob_rejected);
}

TEST(Objectives, ALossThatIsNotFiniteNamesThePair) {
  Pairs pairs = golden_pairs();
  pairs.reference[2][0] = std::numeric_limits<float>::infinity();
  const TrainMetrics m = step(options_of(Objective::kDpo), pairs).metrics;
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.non_finite_samples,
            (std::vector<uint64_t>{pairs.samples[2].id, pairs.samples[3].id}));
  EXPECT_EQ(m.preference.pairs, 0);
}

TEST(Objectives, WhatIsNoPairIsNamed) {
  TrainRig rig({}, options_of(Objective::kDpo));
  const auto refused = [&](const std::function<void(Pairs&)>& spoil) {
    Pairs pairs = golden_pairs();
    spoil(pairs);
    const Error e =
        expect_error(Code::kFailedPrecondition, [&] { rig.trainer->step(pairs.batch()); });
    EXPECT_EQ(e.key, "algo.objective");
    return e.message;
  };
  EXPECT_TRUE(contains(refused([](Pairs& p) { p.samples.pop_back(); }), "only sample of its pair"));
  EXPECT_TRUE(contains(refused([](Pairs& p) {
                         p.samples.erase(p.samples.begin() + 2);
                         p.reference.erase(p.reference.begin() + 2);
                       }),
                       "sample 102 (ordinal 1, slot 1) is the only sample of its pair"));
  EXPECT_TRUE(contains(refused([](Pairs& p) { p.samples[3].slot = 2; }), "not part of a pair"));
  EXPECT_TRUE(contains(refused([](Pairs& p) { p.samples[3].slot = 0; }), "not part of a pair"));
  EXPECT_TRUE(contains(refused([](Pairs& p) { p.samples[1].ids[0] ^= 1; }), "a different prompt"));
  EXPECT_TRUE(contains(refused([](Pairs& p) { std::ranges::fill(p.samples[4].loss_mask, 0); }),
                       "no token that carries loss"));
  Pairs pairs = golden_pairs();
  std::vector<TrainSample> batch = pairs.batch();
  batch[0].ref_logprobs = {};
  EXPECT_TRUE(
      contains(expect_error(Code::kFailedPrecondition, [&] { rig.trainer->step(batch); }).message,
               "algo.objective is dpo"));
}

TEST(Objectives, ARatioNeedsLogprobs) {
  TrainRig rig({}, options_of(Objective::kRl));
  const Pairs pairs = golden_pairs();
  rig.trainer->check(pairs.batch());
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { rig.trainer->step(pairs.batch()); });
  EXPECT_EQ(e.key, "logprobs");
  EXPECT_TRUE(contains(e.message, "ordinal 0, slot 0"));
}

}  // namespace
}  // namespace rl::testing

// Figures of an update, worked out by hand: the arrays that a host's function sees, advantages of
// given and of component rewards, metrics of a batch and of its engines, and the KL coefficient
// from step to step.
#include <gtest/gtest.h>

#include "pipeline/update/batch_advantages.h"
#include "pipeline/update/engine_metrics.h"
#include "pipeline/update/kl_coefficient.h"
#include "pipeline/update/step_metrics.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Texts = std::vector<std::string>;

SamplePtr sample_of(uint64_t id, uint64_t ordinal, std::vector<uint8_t> mask,
                    std::vector<float> logprobs) {
  auto s = std::make_shared<Sample>();
  s->id = id;
  s->ordinal = ordinal;
  s->prompt_tokens = 3;
  s->ids.assign(3 + mask.size(), 5);
  s->loss_mask = std::move(mask);
  s->logprobs = std::move(logprobs);
  return s;
}

// Two samples of group 7, one of group 4; the last one was cut and carries no loss at all.
struct Batch {
  std::vector<SamplePtr> samples = {sample_of(11, 7, {1, 0}, {-1, -2}),
                                    sample_of(12, 7, {1, 1, 1}, {-3, -4, -5}),
                                    sample_of(13, 4, {0}, {-6})};
  std::vector<double> scores = {1, 3, 2};
  std::vector<std::vector<double>> parts;
  std::vector<std::vector<float>> ref = {{-1.5f, -9}, {-3.25f, -4.5f, -5}, {-8}};
  CustomAdvantage custom;

  Batch() { samples[2]->finish = FinishReason::kLength; }
  ScoredBatch view() const {
    ScoredBatch b{samples, scores, parts, ref};
    b.custom = &custom;
    return b;
  }
};

AdvantageOptions options_of(Advantage kind) {
  AdvantageOptions o;
  o.estimator.kind = kind;
  return o;
}

TEST(UpdateFigures, AHostsFunctionSeesTheWholeBatch) {
  Batch b;
  b.parts = {{1, 2}, {3, 4}, {5, 6}};
  bool seen = false;
  b.custom = [&](const AlgoArrays& in, std::span<double> advantages) {
    const auto list = [](auto span) { return std::vector(span.begin(), span.end()); };
    EXPECT_EQ(list(in.lengths), (std::vector<int32_t>{2, 3, 1}));
    EXPECT_EQ(list(in.groups), (std::vector<uint64_t>{7, 7, 4}));
    EXPECT_EQ(list(in.sample_ids), (std::vector<uint64_t>{11, 12, 13}));
    EXPECT_EQ(list(in.mask), (std::vector<uint8_t>{1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(list(in.old_logprobs), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
    EXPECT_EQ(list(in.rollout_logprobs), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
    EXPECT_EQ(list(in.ref_logprobs), (std::vector<float>{-1.5f, -9, -3.25f, -4.5f, -5, -8}));
    EXPECT_EQ(list(in.rewards), (std::vector<double>{1, 3, 2}));
    EXPECT_EQ(list(in.reward_parts), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    EXPECT_TRUE(in.logprobs.empty());
    for (size_t t = 0; t < advantages.size(); ++t) advantages[t] = static_cast<double>(t) + 1;
    seen = true;
  };
  const BatchAdvantages a = batch_advantages(options_of(Advantage::kCustom), b.view());
  EXPECT_TRUE(seen);
  EXPECT_EQ(a.advantages, (std::vector<double>{1, 0, 3, 4, 5, 0}));
  EXPECT_EQ(a.returns, a.advantages);
  EXPECT_EQ(a.per_sample, (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(a.varies);
}

TEST(UpdateFigures, ComponentsOfUnequalNumberAreNamed) {
  Batch b;
  b.custom = [](const AlgoArrays&, std::span<double>) { FAIL() << "nothing is wrong"; };
  AdvantageOptions o = options_of(Advantage::kCustom);
  b.parts = {{1, 2}, {3}, {5, 6}};
  const auto refused = [&] {
    return expect_error(Code::kInvalidArgument, [&] { batch_advantages(o, b.view()); });
  };
  const Error unequal = refused();
  EXPECT_EQ(unequal.key, "reward_parts");
  EXPECT_EQ(unequal.expected, "2 parts");
  EXPECT_TRUE(contains(unequal.message, sample_name(*b.samples[1]) + " has 1 parts"));
  EXPECT_TRUE(contains(unequal.message, sample_name(*b.samples[0]) + " has 2"));
  o.gdpo_weights = {1, 1, 1};
  const Error weighed = refused();
  EXPECT_EQ(weighed.key, "algo.gdpo_weights");
  EXPECT_EQ(weighed.expected, "3 parts");
  EXPECT_TRUE(contains(weighed.message, sample_name(*b.samples[0]) + " has 2 parts"));
}

TEST(UpdateFigures, ComponentsAreWeighedOnTheirOwn) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kGdpo);
  o.estimator.norm_std = false;
  o.gdpo_weights = {1, -0.5};
  b.parts = {{1, 8}, {3, 4}, {5, 6}};
  // Each component less its mean in the group; a group of one keeps the value itself.
  EXPECT_EQ(batch_advantages(o, b.view()).per_sample,
            (std::vector<double>{-1 - 0.5 * 2, 1 + 0.5 * 2, 5 - 0.5 * 6}));
  b.parts[2] = {5};
  const Error e = expect_error(Code::kInvalidArgument, [&] { batch_advantages(o, b.view()); });
  EXPECT_EQ(e.key, "algo.gdpo_weights");
  EXPECT_TRUE(contains(e.message, sample_name(*b.samples[2]) + " has 1 parts"));
  EXPECT_TRUE(contains(e.message, "has 2 entries"));
  b.parts.clear();
  EXPECT_TRUE(
      contains(expect_error(Code::kInvalidArgument, [&] { batch_advantages(o, b.view()); }).message,
               sample_name(*b.samples[0]) + " has 0 parts"));
}

TEST(UpdateFigures, AHostsAdvantagesKeepTheFilters) {
  Batch b;
  b.samples[1]->finish = FinishReason::kLength;
  AdvantageOptions o = options_of(Advantage::kGrpo);
  o.masks_overlong = true;
  o.shaping.normalize = true;  // not applied
  const BatchAdvantages a = given_advantages(o, b.view(), std::vector<double>{4, 5, 6});
  EXPECT_EQ(a.rewards, b.scores);
  EXPECT_EQ(a.per_sample, (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(a.carries_loss, (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(a.masked_overlong, 2);
  EXPECT_EQ(a.mask, (std::vector<uint8_t>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(a.advantages, (std::vector<double>{4, 0, 0, 0, 0, 0}));
  EXPECT_EQ(a.returns, a.advantages);
  EXPECT_FALSE(a.varies);
}

// A mean over samples of their means over loss tokens; a sample without any does not count.
TEST(UpdateFigures, TheKlOfABatchIsAMeanOfSamples) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kDrGrpo);
  o.kl_in_reward = true;
  o.kl_estimator = {KlKind::kK1, false};
  ScoredBatch batch = b.view();
  batch.kl_coef = 2;
  const BatchAdvantages a = batch_advantages(o, batch);
  EXPECT_EQ(a.kl, (0.5 + (0.25 + 0.5 + 0) / 3) / 2);
  EXPECT_EQ(a.rewards, (std::vector<double>{1 - 2 * 0.5, 3 - 2 * 0.75, 2}));
  o.kl_bounds.value_clamp = 0.25;
  EXPECT_EQ(batch_advantages(o, batch).rewards, (std::vector<double>{0.5, 3 - 2 * 0.5, 2}));
  // Without any loss token there is no mean.
  const ScoredBatch none{
      std::span(b.samples).last(1), std::span(b.scores).last(1), {}, std::span(b.ref).last(1)};
  EXPECT_EQ(batch_advantages(o, none).kl, 0);
  // A filter takes the loss of a sample, not its KL.
  o.masks_overlong = true;
  b.samples[0]->finish = FinishReason::kLength;
  EXPECT_EQ(batch_advantages(o, batch).rewards[0], 0.5);
}

TEST(UpdateFigures, OpoWeighsByLossTokens) {
  Batch b;
  const BatchAdvantages a = batch_advantages(options_of(Advantage::kOpo), b.view());
  // Rewards 1 and 3 with 1 and 3 loss tokens have the baseline (1 + 9) / 4.
  EXPECT_EQ(a.per_sample[0], -1.5);
  EXPECT_EQ(a.per_sample[1], 0.5);
}

TEST(UpdateFigures, OnlyReturnsOfReinforcePpAreDiscounted) {
  Batch b;
  std::vector<GreedyResponse> greedy(3, GreedyResponse{b.samples[0].get(), 0.25});
  AdvantageOptions o = options_of(Advantage::kReinforcePp);
  o.returns.gamma = 0.5;
  ScoredBatch batch = b.view();
  batch.greedy = greedy;
  const BatchAdvantages a = batch_advantages(o, batch);
  EXPECT_EQ(a.returns, (std::vector<double>{1, 0, 0.75, 1.5, 3, 0}));
  EXPECT_EQ(a.advantages, a.returns);
  EXPECT_TRUE(a.varies);
  o.estimator.kind = Advantage::kRemax;
  const BatchAdvantages r = batch_advantages(o, batch);
  EXPECT_EQ(r.returns, (std::vector<double>{1, 0, 3, 3, 3, 0}));
  EXPECT_EQ(r.advantages, (std::vector<double>{0.75, 0, 2.75, 2.75, 2.75, 0}));
  EXPECT_EQ(r.per_sample, (std::vector<double>{0, 0, 0}));
}

TEST(UpdateFigures, ANegativePenaltyReplacesTheRewardOfACutResponse) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kDrGrpo);
  o.shaping.truncation_penalty = -0.5;
  EXPECT_EQ(batch_advantages(o, b.view()).rewards, (std::vector<double>{1, 3, -0.5}));
  o.shaping.truncation_penalty = 0;
  EXPECT_EQ(batch_advantages(o, b.view()).rewards, (std::vector<double>{1, 3, 0}));
}

TEST(UpdateFigures, ASpreadIsMeanMostAndLeast) {
  MetricList m;
  set_spread(m, "a", std::vector<double>{-4, -1, -7});
  EXPECT_EQ(m.get("a/mean"), -4.0);
  EXPECT_EQ(m.get("a/max"), -1.0);
  EXPECT_EQ(m.get("a/min"), -7.0);
  set_spread(m, "b", std::vector<double>{2, 5});
  EXPECT_EQ(m.get("b/mean"), 3.5);
  EXPECT_EQ(m.get("b/max"), 5.0);
  EXPECT_EQ(m.get("b/min"), 2.0);
  set_spread(m, "c", {});
  for (const char* name : {"c/mean", "c/max", "c/min"}) EXPECT_EQ(m.get(name), 0.0) << name;
}

TEST(UpdateFigures, ABatchTellsOfScoresRewardsAndLossTokens) {
  const Batch b;
  BatchAdvantages a;
  a.rewards = {-1, 0, 4};
  a.mask = {1, 0, 1, 1, 1, 0};
  a.advantages = {1, 100, 2, 3, 6, 100};
  a.returns = {-1, -100, -2, -3, -6, -100};
  a.masked_overlong = 2;
  a.masked_repetitive = 1;
  const MetricList m = batch_metrics({b.samples, b.scores, a});
  const std::pair<const char*, double> expected[] = {{"critic/score/mean", 2},
                                                     {"critic/score/max", 3},
                                                     {"critic/score/min", 1},
                                                     {"critic/rewards/mean", 1},
                                                     {"critic/rewards/max", 4},
                                                     {"critic/rewards/min", -1},
                                                     {"critic/advantages/mean", 3},
                                                     {"critic/advantages/max", 6},
                                                     {"critic/advantages/min", 1},
                                                     {"critic/returns/mean", -3},
                                                     {"critic/returns/max", -1},
                                                     {"critic/returns/min", -6},
                                                     {"prompt_length/mean", 3},
                                                     {"response_length/mean", 2},
                                                     {"response_length/max", 3},
                                                     {"response_length/min", 1},
                                                     {"response_length/clip_ratio", 1.0 / 3},
                                                     {"pipeline/samples_masked/overlong", 2},
                                                     {"pipeline/samples_masked/repetition", 1},
                                                     {"global_seqlen/mean", 15}};
  for (const auto& [name, value] : expected) EXPECT_EQ(m.get(name), value) << name;
}

TEST(UpdateFigures, ValuesAreThoseOfLossTokens) {
  BatchAdvantages a;
  a.mask = {1, 0, 1, 1};
  a.returns = {2, 50, 4, 6};
  const std::vector<std::vector<float>> values = {{1, 90}, {2, 6}};
  const MetricList m = value_metrics(a, values);
  EXPECT_EQ(m.get("critic/values/mean"), 3.0);
  EXPECT_EQ(m.get("critic/values/max"), 6.0);
  EXPECT_EQ(m.get("critic/values/min"), 1.0);
  // Errors 1, 2 and 0 have the variance 1, returns 2, 4 and 6 the variance 4.
  EXPECT_DOUBLE_EQ(m.get("critic/vf_explained_var").value(), 1 - 1 / (4 + 1e-5));
}

TEST(UpdateFigures, AnIntervalCountsTokensBySort) {
  EngineStats s;
  s.admitted = 3;
  s.finished = 5;
  s.prefill_tokens = 7;
  s.decode_tokens = 11;
  s.mixed_kv_tokens = 13;
  s.generated_tokens = 17;
  const MetricList m = interval_metrics(0, s);
  EXPECT_EQ(m.get("perf/engine/admitted"), 3.0);
  EXPECT_EQ(m.get("perf/engine/finished"), 5.0);
  EXPECT_EQ(m.get("perf/engine/prefill_tokens"), 7.0);
  EXPECT_EQ(m.get("perf/engine/decode_tokens"), 11.0);
  EXPECT_EQ(m.get("perf/engine/mixed_kv_tokens"), 13.0);
  EXPECT_EQ(m.get("perf/engine/tokens_per_s"), 0.0) << "no time has passed";
  EXPECT_EQ(m.get("timing_s/request/first_token/mean"), 0.0);
}

TEST(UpdateFigures, AStepHasTheDecodeTimeAndPeakOfItsEngines) {
  EngineStats before, after;
  before.decode_ns = 500'000'000;
  after.decode_ns = 2'000'000'000;
  before.blocks_peak = 90;
  before.blocks_total = after.blocks_total = 100;
  after.blocks_peak = 40;
  const MetricList m = rollout_metrics(before, after);
  EXPECT_DOUBLE_EQ(m.get("timing_s/engine/decode").value(), 1.5);
  EXPECT_EQ(m.get("timing_s/engine/prefill"), 0.0);
  EXPECT_EQ(m.get("perf/engine/kv_use_peak"), 0.4);
  EXPECT_EQ(m.get("perf/engine/prefix_hit_rate"), 0.0);
}

Settings with(const Texts& assignments) {
  OptionSet options;
  for (const std::string& text : assignments) options.set_assignment(text);
  return options;
}

TEST(UpdateFigures, AFixedCoefficientIsTheOption) {
  KlCoefficient c(with({"algo.kl.where=loss", "algo.kl.coef=0.5"}));
  EXPECT_TRUE(c.in_loss());
  EXPECT_FALSE(c.adaptive());
  c.update(100, 1000);
  EXPECT_EQ(c.value(), 0.5);
  c.restore(3);
  EXPECT_EQ(c.value(), 3);
  c.set_options(with({"algo.kl.where=reward", "algo.kl.coef=0.5"}));
  EXPECT_EQ(c.value(), 0.5) << "also when the option has not changed";
  EXPECT_FALSE(c.in_loss());
}

TEST(UpdateFigures, AnAdaptiveCoefficientGoesOnFromWhereItIs) {
  const Texts texts = {"algo.kl.where=loss", "algo.kl.controller=adaptive", "algo.kl.target=0.5",
                       "algo.kl.horizon=100"};
  const auto adaptive = [&](const char* coef) {
    Texts all = texts;
    all.push_back(str("algo.kl.coef=", coef));
    return with(all);
  };
  KlCoefficient c(adaptive("0.5"));
  EXPECT_EQ(c.adaptive(), 0.5);
  c.update(0.55, 50);  // 10 % above the target
  EXPECT_DOUBLE_EQ(c.value(), 0.5 * (1 + 0.1 * 0.5));
  c.update(5, 25);  // at most 20 % count
  const double reached = 0.5 * (1 + 0.1 * 0.5) * (1 + 0.2 * 0.25);
  EXPECT_DOUBLE_EQ(c.value(), reached);
  c.set_options(adaptive("0.5"));
  EXPECT_DOUBLE_EQ(c.value(), reached) << "the option has not changed";
  EXPECT_EQ(c.adaptive(), c.value());
  c.set_options(adaptive("0.25"));
  EXPECT_EQ(c.value(), 0.25);
  c.restore(2);
  EXPECT_EQ(c.adaptive(), 2.0);
  c.set_options(adaptive("0.25"));
  EXPECT_EQ(c.value(), 2);
}

}  // namespace
}  // namespace rl

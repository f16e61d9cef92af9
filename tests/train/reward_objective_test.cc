// The objective reward_model through the trainer: scores, loss and gradient are those of PyTorch's
// autograd (tests/fixtures/objectives/reward_model.json, of llama_value in float64), nothing
// depends on the cut into micro-batches, pairs stay together, and what is no pair is named.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "train/losses/reward_pairs.h"
#include "train/roles/reward_model.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const auto* const kGolden = new Json(
      Json::parse(std::ifstream(std::string(RL_FIXTURES) + "/objectives/reward_model.json")));
  return *kGolden;
}

Sample answer(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids, uint64_t ordinal,
              uint32_t slot) {
  std::vector<int32_t> all = prompt;
  all.insert(all.end(), ids.begin(), ids.end());
  Sample s = make_sample(std::move(all), static_cast<int32_t>(prompt.size()), ordinal, slot);
  s.logprobs.clear();
  return s;
}

std::vector<Sample> golden_pairs() {
  std::vector<Sample> out;
  for (const Json& pair : golden().at("pairs")) {
    const auto prompt = pair.at("prompt").get<std::vector<int32_t>>();
    for (const char* side : {"chosen", "rejected"})
      out.push_back(answer(prompt, pair.at(side), out.size() / 2, out.size() % 2));
  }
  return out;
}

// Twelve pairs with prompts of 1 to 40 tokens, some prompts of several pairs, responses of 1 to 30.
std::vector<Sample> random_pairs(int64_t vocab) {
  std::mt19937 rng(17);
  const auto ids = [&](size_t count) {
    std::vector<int32_t> out(count);
    for (auto& id : out) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
    return out;
  };
  std::vector<Sample> out;
  std::vector<int32_t> prompt;
  for (uint64_t i = 0; i < 12; ++i) {
    if (i % 3 != 2) prompt = ids(1 + rng() % 40);
    for (uint32_t slot = 0; slot < 2; ++slot)
      out.push_back(answer(prompt, ids(1 + rng() % 30), i, slot));
  }
  return out;
}

std::vector<TrainSample> batch_of(const std::vector<Sample>& samples) {
  std::vector<TrainSample> out;
  for (const Sample& s : samples) out.push_back({&s, 0, {}, {}});
  return out;
}

TrainerOptions usual_options() {
  TrainerOptions o;
  o.objective = Objective::kRewardModel;
  o.max_tokens = 2048;
  o.max_sequence = 101;
  o.schedule.lr = 1e-3;
  return o;
}

std::vector<float> scores(Trainer& trainer, const std::vector<Sample>& samples) {
  std::vector<const Sample*> inputs;
  for (const Sample& s : samples) inputs.push_back(&s);
  std::vector<float> out(samples.size(), -7.0f);
  trainer.scores(inputs, out);
  return out;
}

struct Result {
  TrainMetrics metrics;
  std::vector<float> gradients, scores;
};

Result step(const RigOptions& rig_options, const TrainerOptions& options) {
  TrainRig rig(rig_options, options);
  fill_head(rig.model(), 3);
  const std::vector<Sample> pairs = random_pairs(rig.model().config().vocab);
  Result r;
  r.scores = scores(*rig.trainer, pairs);
  r.metrics = rig.trainer->step(batch_of(pairs));
  r.gradients = rig.gradients();
  return r;
}

TEST(RewardObjective, ScoresLossAndGradientAreThoseOfAutograd) {
  TrainRig rig({.model = "llama_value"}, usual_options());
  const std::vector<Sample> pairs = golden_pairs();
  const std::vector<float> got = scores(*rig.trainer, pairs);
  // As for other values: torch's own fp32 run is off by less than a quarter of each tolerance.
  for (size_t i = 0; i < pairs.size(); ++i)
    EXPECT_NEAR(got[i], golden().at("values")[i].get<double>(), 2e-5);
  const TrainMetrics m = rig.trainer->step(batch_of(pairs));
  const double norm = golden().at("grad_norm");
  EXPECT_NEAR(m.loss, golden().at("loss").get<double>(), 1e-5);
  EXPECT_EQ(m.pg_loss, m.loss);
  EXPECT_NEAR(m.grad_norm, norm, 2e-5 * norm);
  const std::vector<float> gradients = rig.gradients();
  size_t compared = 0;
  for (const Parameter& p : rig.model().layout().parameters()) {
    if (!golden().at("gradients").contains(p.name)) continue;
    ++compared;
    const std::vector<float> own(gradients.begin() + p.offset,
                                 gradients.begin() + p.offset + p.size);
    EXPECT_LE(relative_l2(own, golden().at("gradients").at(p.name)), 2e-5) << p.name;
  }
  EXPECT_EQ(compared, 4u);
}

TEST(RewardObjective, AFiniteDifferenceAlongTheGradientIsItsNorm) {
  TrainerOptions still = usual_options();
  still.schedule.lr = 0;
  still.adamw.weight_decay = 0;
  TrainRig rig({}, still);
  fill_head(rig.model(), 3);
  const std::vector<Sample> pairs = random_pairs(rig.model().config().vocab);
  const double norm = rig.trainer->step(batch_of(pairs)).grad_norm;
  const std::vector<float> gradient = rig.gradients(), start = rig.masters();
  const auto loss_at = [&](double distance) {
    for (size_t i = 0; i < start.size(); ++i) {
      rig.model().master()[i] = start[i] + static_cast<float>(distance / norm * gradient[i]);
    }
    rig.model().publish();
    return rig.trainer->step(batch_of(pairs)).loss;
  };
  constexpr double kStep = 1e-3;  // both the third derivative and fp32 rounding stay below 1%
  EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), norm, 0.01 * norm);
}

class RewardCut : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, RewardCut, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(RewardCut, TenRandomCutsLeaveScoresAndLoss) {
  const RigOptions rig{.compute = GetParam(), .threads = 2};
  TrainerOptions whole = usual_options();
  whole.batch.shared_prefix = false;
  const Result want = step(rig, whole);
  EXPECT_EQ(want.metrics.micro_batches, 1);
  EXPECT_GT(want.metrics.preference.right, 0);
  std::mt19937 rng(31);
  int forwarded_first = 0;
  double worst = 0;
  for (int cut = 0; cut < 10; ++cut) {
    TrainerOptions o = usual_options();
    o.max_tokens = static_cast<int64_t>(100 + rng() % 300);
    o.batch.micro_batch_size = cut % 4 == 0 ? 1 + rng() % 7 : 0;
    o.batch.forward_max_tokens = static_cast<int64_t>(rng() % 2 * 150);
    o.batch.shared_prefix = rng() % 2 == 0;
    o.batch.pad_to = rng() % 2 == 0 ? 1 : 8;
    o.batch.balance = cut % 4 == 1 ? BalanceCost::kTokens : BalanceCost::kNone;
    SCOPED_TRACE(str(o.max_tokens, " ", o.batch.micro_batch_size, " ", o.batch.shared_prefix));
    const Result got = step(rig, o);
    EXPECT_EQ(got.scores, want.scores);
    EXPECT_EQ(got.metrics.loss, want.metrics.loss);
    EXPECT_EQ(got.metrics.preference.reward_chosen, want.metrics.preference.reward_chosen);
    worst = std::max(worst, relative_l2(got.gradients, want.gradients));
    forwarded_first += got.metrics.current_ns > 0;
  }
  // Some cuts part a pair, some do not.
  EXPECT_GT(forwarded_first, 0);
  EXPECT_LT(forwarded_first, 10);
  // N4. A shared prompt rounds its gradients once in bf16; cuts alone sum fp32 in another order.
  EXPECT_LT(worst, GetParam() == Dtype::kF32 ? 1e-6 : 3e-3);
  std::cout << "relative L2 of the gradients of pairs over ten random cuts, "
            << dtype_name(GetParam()) << ": " << worst << "\n";
}

TEST_P(RewardCut, ThreadsLeaveTheBits) {
  TrainerOptions o = usual_options();
  o.max_tokens = 120;
  const Result one = step({.compute = GetParam(), .threads = 1}, o);
  const Result three = step({.compute = GetParam(), .threads = 3}, o);
  EXPECT_EQ(one.scores, three.scores);
  EXPECT_TRUE(same_bits(one.gradients, three.gradients));
}

TEST(RewardObjective, ThePromptOfAPairIsComputedOnce) {
  TrainerOptions o = usual_options();
  const TrainMetrics shared = step({}, o).metrics;
  o.batch.shared_prefix = false;
  const TrainMetrics apart = step({}, o).metrics;
  EXPECT_EQ(shared.current_ns, 0);
  EXPECT_EQ(apart.loss_tokens, 24);
  EXPECT_EQ(apart.computed_rows, apart.tokens);
  int64_t prompts = 0;  // those of two neighbouring pairs stand in one run
  const std::vector<Sample> pairs = random_pairs(256);
  for (size_t i = 1; i < pairs.size(); ++i) {
    const auto prompt = [&](size_t k) {
      return std::span(pairs[k].ids).first(pairs[k].prompt_tokens);
    };
    if (std::ranges::equal(prompt(i), prompt(i - 1))) prompts += pairs[i].prompt_tokens;
  }
  EXPECT_EQ(apart.computed_rows - shared.computed_rows, prompts);
}

TEST(RewardObjective, MinibatchesHoldWholePairs) {
  TrainerOptions o = usual_options();
  o.batch.num_minibatches = 5;
  EXPECT_EQ(step({}, o).metrics.optimizer_steps, 5);
  EXPECT_EQ(step({}, o).metrics.preference.pairs, 12);
  o.batch.global_batch_size = 4;  // counts pairs
  o.epochs = 2;
  const TrainMetrics m = step({}, o).metrics;
  EXPECT_EQ(m.optimizer_steps, 6);
  EXPECT_EQ(m.preference.pairs, 24);
}

TEST(RewardObjective, AMicroBatchKeepsPairsWhenBothHalvesFollowEachOther) {
  const auto kept = [](const std::vector<std::vector<int32_t>>& indices) {
    MicroBatchPlan plan;
    for (const std::vector<int32_t>& some : indices) {
      plan.emplace_back();
      for (const int32_t index : some) {
        PackItem item{};
        item.index = index;
        plan.back().push_back(item);
      }
    }
    return keeps_pairs(plan);
  };
  EXPECT_TRUE(kept({{0, 1, 4, 5}, {2, 3}}));
  EXPECT_FALSE(kept({{0, 3}, {2, 1}}));  // halves of two pairs
  EXPECT_FALSE(kept({{1, 2}}));          // neighbours, but of two pairs
  EXPECT_FALSE(kept({{0, 1, 2}, {3}}));
}

TEST(RewardObjective, ReadsNothingOfASampleButItsIds) {
  TrainRig plain({}, usual_options()), other({}, usual_options());
  fill_head(plain.model(), 3);
  fill_head(other.model(), 3);
  std::vector<Sample> pairs = random_pairs(256);
  const double want = plain.trainer->step(batch_of(pairs)).loss;
  for (Sample& s : pairs) {
    s.logprobs.assign(static_cast<size_t>(s.generated()), NAN);
    s.temperature = 0.5f;
    if (s.generated() > 1) s.loss_mask.back() = 0;
  }
  std::vector<TrainSample> batch = batch_of(pairs);
  for (TrainSample& s : batch) s.advantage = 7;
  std::ranges::reverse(batch);
  EXPECT_EQ(other.trainer->step(batch).loss, want);
  EXPECT_TRUE(same_bits(other.gradients(), plain.gradients()));
}

TEST(RewardObjective, LearnsFromAHeadOfZeros) {
  TrainRig rig({}, usual_options());
  const std::vector<Sample> pairs = random_pairs(256);
  const TrainMetrics first = rig.trainer->step(batch_of(pairs));
  EXPECT_NEAR(first.loss, std::log(2.0), 1e-15);
  EXPECT_EQ(first.preference.right, 0);  // no score is the larger one
  TrainMetrics last;
  for (int i = 0; i < 20; ++i) last = rig.trainer->step(batch_of(pairs));
  EXPECT_LT(last.loss, 0.1);
  EXPECT_EQ(last.preference.right, 12);
}

TEST(RewardObjective, ScoresAreThoseOfARewardModelAndOfTheNextStep) {
  TrainRig rig({}, usual_options());
  const std::vector<Sample> pairs = random_pairs(256);
  for (int i = 0; i < 3; ++i)
    rig.trainer->train(batch_of(pairs));  // not published: packed when asked
  const std::vector<float> got = scores(*rig.trainer, pairs);
  StepOptions options;
  options.max_sequence = 101;
  const Arena workspace(
      "test reward workspace",
      RewardModel::workspace_bytes({rig.model().config(), rig.model().kv_shape(), 1}, options));
  RewardModel frozen(rig.model(), options, workspace.data());
  std::vector<const Sample*> inputs;
  for (const Sample& s : pairs) inputs.push_back(&s);
  std::vector<float> want(pairs.size());
  frozen.score(inputs, want);
  EXPECT_EQ(got, want);
  double chosen = 0, rejected = 0;
  for (size_t i = 0; i < got.size(); i += 2) {
    chosen += got[i];
    rejected += got[i + 1];
  }
  const PreferenceSums p = rig.trainer->step(batch_of(pairs)).preference;
  EXPECT_EQ(p.reward_chosen, chosen);
  EXPECT_EQ(p.reward_rejected, rejected);
}

TEST(RewardObjective, MetricsHaveTheNamesOfPairsWithoutLogprobs) {
  std::set<std::string> names;
  for_each_metric(step({}, usual_options()).metrics,
                  [&](const char* name, double) { names.insert(name); });
  for (const char* name : {"actor/loss", "actor/grad_norm", "actor/lr", "rewards/chosen",
                           "rewards/rejected", "rewards/margins", "rewards/accuracies"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  for (const char* name : {"actor/entropy", "actor/pg_loss", "logps/chosen", "nll_loss"}) {
    EXPECT_EQ(names.count(name), 0u) << name;
  }
}

TEST(RewardObjective, AScoreThatIsNotFiniteSkipsTheStepAndNamesThePair) {
  for (const float bad : {NAN, INFINITY}) {
    TrainRig rig({.model = "llama_value"}, usual_options());
    std::vector<Sample> pairs = golden_pairs();
    for (Sample& s : pairs) {
      for (int32_t& id : s.ids) id = id == 63 ? 62 : id;
    }
    pairs[3].ids.back() = 63;
    const int64_t hidden = rig.model().config().hidden;
    std::fill_n(rig.model().master() + rig.model().layout().embedding() + 63 * hidden, hidden, bad);
    rig.model().publish();
    const std::vector<float> before = rig.masters();
    const TrainMetrics m = rig.trainer->step(batch_of(pairs));
    EXPECT_EQ(m.skipped_steps, 1);
    EXPECT_EQ(m.non_finite_samples, (std::vector<uint64_t>{pairs[2].id, pairs[3].id}));
    EXPECT_EQ(m.preference.pairs, 0);
    EXPECT_TRUE(same_bits(rig.masters(), before));
  }
}

TEST(RewardObjective, WhatIsNoPairIsNamed) {
  TrainRig rig({.model = "llama_value"}, usual_options());
  const auto refused = [&](const std::function<void(std::vector<Sample>&)>& spoil) {
    std::vector<Sample> pairs = golden_pairs();
    spoil(pairs);
    const Error e =
        expect_error(Code::kFailedPrecondition, [&] { rig.trainer->step(batch_of(pairs)); });
    EXPECT_EQ(e.key, "algo.objective");
    EXPECT_TRUE(contains(e.message, "algo.objective = reward_model needs"));
    return e.message;
  };
  using Samples = std::vector<Sample>;
  EXPECT_TRUE(contains(refused([](Samples& p) { p.pop_back(); }), "only sample of its pair"));
  EXPECT_TRUE(contains(refused([](Samples& p) { p.erase(p.begin() + 2); }),
                       "sample 102 (ordinal 1, slot 1) is the only sample of its pair"));
  EXPECT_TRUE(contains(refused([](Samples& p) { p[3].slot = 2; }), "not part of a pair"));
  EXPECT_TRUE(contains(refused([](Samples& p) { p[1].ids[0] ^= 1; }), "a different prompt"));
  EXPECT_TRUE(contains(refused([](Samples& p) { std::ranges::fill(p[4].loss_mask, 0); }),
                       "no token that carries loss"));
  const std::vector<Sample> pairs = golden_pairs();
  std::vector<TrainSample> batch = batch_of(pairs);
  batch[1].carries_loss = false;
  EXPECT_TRUE(
      contains(expect_error(Code::kInvalidArgument, [&] { rig.trainer->step(batch); }).message,
               "part of a pair"));
}

// The last token is a row: a sample of 100 tokens fits, one of 101 does not.
TEST(RewardObjective, TheLongestSampleHasARowForItsLastToken) {
  TrainerOptions o = usual_options();
  o.max_tokens = 100;
  TrainRig rig({}, o);
  const std::vector<int32_t> prompt(60, 5), full(40, 7);
  std::vector<Sample> pairs = {answer(prompt, full, 0, 0), answer(prompt, {9, 8}, 0, 1)};
  EXPECT_EQ(rig.trainer->step(batch_of(pairs)).optimizer_steps, 1);
  EXPECT_EQ(scores(*rig.trainer, pairs).size(), 2u);
  pairs[0] = answer(prompt, std::vector<int32_t>(41, 7), 0, 0);
  EXPECT_TRUE(
      contains(expect_error(Code::kOutOfRange, [&] { rig.trainer->step(batch_of(pairs)); }).message,
               "has 101 tokens"));
  expect_error(Code::kOutOfRange, [&] { scores(*rig.trainer, pairs); });
}

}  // namespace
}  // namespace rl::testing

// Advantages of a batch: the order of shaping, penalty, estimator and whitening, what a filter
// takes from the loss, and that the order of groups says nothing.
#include "pipeline/update/batch_advantages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/expect_error.h"

namespace rl {
namespace {

// Two groups of three with responses of 2, 3 and 4 tokens; the second token of each carries no
// loss.
struct Batch {
  std::vector<SamplePtr> samples;
  std::vector<double> scores = {1, 0, 0.5, 0.25, 0.75, 0};
  std::vector<std::vector<float>> ref;
  std::vector<GreedyResponse> greedy;
  double coef = 0.5;

  Batch() {
    for (uint64_t i = 0; i < 6; ++i) {
      auto s = std::make_shared<Sample>();
      s->ordinal = i / 3;
      s->slot = static_cast<uint32_t>(i % 3);
      s->id = i;
      s->prompt_tokens = 2;
      s->ids.assign(4 + i % 3, 7);
      const auto count = static_cast<size_t>(s->generated());
      s->logprobs.assign(count, -1.0f);
      s->loss_mask.assign(count, 1);
      s->loss_mask[1] = 0;
      s->finish = i == 4 ? FinishReason::kLength : FinishReason::kStopToken;
      ref.emplace_back(count, -1.5f);  // d = 0.5
      samples.push_back(s);
    }
  }
  ScoredBatch view() const { return {samples, scores, {}, ref, greedy, coef}; }
};

AdvantageOptions options_of(Advantage kind) {
  AdvantageOptions o;
  o.estimator.kind = kind;
  return o;
}

double loss_tokens(const Sample& s) {
  return static_cast<double>(std::count(s.loss_mask.begin(), s.loss_mask.end(), 1));
}

TEST(BatchAdvantages, ShapingComesInOrder) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kDrGrpo);
  o.shaping.truncation_penalty = 0.5;
  o.shaping.overlong = {.max_length = 4, .buffer = 2, .penalty = 1};
  o.shaping.clips = true;
  o.shaping.clip = {-0.25, 0.5};
  const std::vector<double> r = batch_advantages(o, b.view()).rewards;
  // Lengths 2, 3, 4: nothing, a half, all of the penalty. The fifth response was cut.
  EXPECT_EQ(r, (std::vector<double>{0.5, -0.25, -0.25, 0.25, 0.375 - 0.5, -0.25}));
  o.shaping.clips_advantage = true;
  const BatchAdvantages late = batch_advantages(o, b.view());
  EXPECT_EQ(late.rewards, (std::vector<double>{1, -0.5, -0.5, 0.25, -0.125, -1}));
  EXPECT_EQ(late.per_sample[0], 0.5);  // 1, clipped
  EXPECT_EQ(late.per_sample[1], -0.25);
}

TEST(BatchAdvantages, GaeReadsValuesAndTheKlOfEachToken) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kGae);
  o.returns = {.gamma = 0.5, .lambda = 0.25};
  o.kl_in_reward = true;
  o.kl_estimator = parse_kl_estimator("k1");
  std::vector<std::vector<float>> values;
  for (const SamplePtr& s : b.samples) {
    values.emplace_back();
    for (int64_t g = 0; g < s->generated(); ++g) {
      values.back().push_back(s->loss_mask[g] != 0 ? 0.125f * static_cast<float>(g + 1) : NAN);
    }
  }
  ScoredBatch batch = b.view();
  batch.values = values;
  const BatchAdvantages a = batch_advantages(o, batch);
  EXPECT_TRUE(a.varies);
  // The third sample has the tokens 0, 2 and 3, values 1/8, 3/8 and 4/8, and a penalty of 0.25
  // each.
  const double third = 0.5 - 0.25 - 0.5;
  const double second = -0.25 + 0.5 * 0.5 - 0.375 + 0.125 * third;
  const double first = -0.25 + 0.5 * 0.375 - 0.125 + 0.125 * second;
  const size_t at = 2 + 3;
  EXPECT_EQ(std::vector(a.advantages.begin() + at, a.advantages.begin() + at + 4),
            (std::vector<double>{first, 0, second, third}));
  EXPECT_EQ(a.returns[at], first + 0.125);
  EXPECT_EQ(a.returns[at + 1], 0);
  values[4][0] = INFINITY;
  const Error e = expect_error(Code::kNonFinite, [&] { batch_advantages(o, batch); });
  EXPECT_EQ(e.key, "critic.optimizer.lr");
  EXPECT_TRUE(contains(e.message, sample_name(*b.samples[4])));
}

TEST(BatchAdvantages, NormalizedScoresHaveMeanZeroAndVarianceOne) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kGrpo);
  o.shaping.normalize = true;
  const std::vector<double> r = batch_advantages(o, b.view()).rewards;
  double sum = 0, squares = 0;
  for (const double v : r) sum += v, squares += v * v;
  EXPECT_NEAR(sum, 0, 1e-12);
  EXPECT_NEAR(squares / 5, 1, 1e-6);  // 1e-8 beside a variance of 0.16
}

TEST(BatchAdvantages, ThePenaltyOfASampleIsTheSumOverItsLossTokens) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kDrGrpo);
  o.kl_in_reward = true;
  o.kl_estimator = {KlKind::kK1, false};
  const BatchAdvantages a = batch_advantages(o, b.view());
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_DOUBLE_EQ(a.rewards[i], b.scores[i] - 0.5 * 0.5 * loss_tokens(*b.samples[i]));
  }
  EXPECT_DOUBLE_EQ(a.kl, 0.5);
  EXPECT_FALSE(a.varies);
  const double mean = (a.rewards[0] + a.rewards[1] + a.rewards[2]) / 3;
  EXPECT_DOUBLE_EQ(a.per_sample[1], a.rewards[1] - mean);
}

TEST(BatchAdvantages, AHostsFunctionSeesWhichResponsesWereTruncated) {
  Batch b;
  std::vector<uint8_t> truncated;
  const CustomAdvantage custom = [&](const AlgoArrays& in, std::span<double>) {
    truncated.assign(in.truncated.begin(), in.truncated.end());
  };
  ScoredBatch batch = b.view();
  batch.custom = &custom;
  batch_advantages(options_of(Advantage::kCustom), batch);
  EXPECT_EQ(truncated, (std::vector<uint8_t>{0, 0, 0, 0, 1, 0}));
}

TEST(BatchAdvantages, AnAdvantageOfTheHostThatIsNotFiniteIsNamedWhereverItIs) {
  Batch b;
  ScoredBatch batch = b.view();
  size_t bad = 0;
  const CustomAdvantage custom = [&](const AlgoArrays&, std::span<double> advantages) {
    std::ranges::fill(advantages, 1.0);
    if (bad < advantages.size()) advantages[bad] = NAN;
  };
  batch.custom = &custom;
  const AdvantageOptions o = options_of(Advantage::kCustom);
  for (size_t i = 0; i < b.samples.size(); ++i) {
    for (const uint8_t mask : b.samples[i]->loss_mask) {
      SCOPED_TRACE(bad);
      if (mask != 0) {
        const Error e = expect_error(Code::kNonFinite, [&] { batch_advantages(o, batch); });
        EXPECT_EQ(e.key, "algo.advantage");
        EXPECT_TRUE(contains(e.message, sample_name(*b.samples[i]))) << e.message;
      } else {
        batch_advantages(o, batch);
      }
      ++bad;
    }
  }
}

TEST(BatchAdvantages, ThePenaltyOfATokenLowersItAndThoseBefore) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kDrGrpo);
  o.kl_in_reward = o.kl_per_token = true;
  o.kl_estimator = {KlKind::kK1, false};
  o.returns.gamma = 0.5;
  const BatchAdvantages a = batch_advantages(o, b.view());
  EXPECT_TRUE(a.varies);
  EXPECT_DOUBLE_EQ(a.per_sample[0], 0.5);  // of the scores alone
  // Tokens of the second sample: 1, masked, 1; its outcome is -0.5.
  EXPECT_DOUBLE_EQ(a.advantages[4], -0.5 - 0.25);
  EXPECT_EQ(a.advantages[3], 0.0);
  EXPECT_DOUBLE_EQ(a.advantages[2], -0.25 + 0.5 * (-0.5 - 0.25));
  o.estimator.kind = Advantage::kReinforcePp;
  EXPECT_DOUBLE_EQ(batch_advantages(o, b.view()).advantages[4], 0 - 0.25);
}

TEST(BatchAdvantages, RemaxSubtractsTheRewardOfTheGreedyResponse) {
  Batch b;
  Sample greedy = *b.samples[2];
  for (int i = 0; i < 6; ++i) b.greedy.push_back({&greedy, i < 3 ? 0.25 : 0.5});
  const BatchAdvantages a = batch_advantages(options_of(Advantage::kRemax), b.view());
  EXPECT_DOUBLE_EQ(a.advantages[0], 0.75);
  EXPECT_DOUBLE_EQ(a.returns[0], 1.0);
  EXPECT_DOUBLE_EQ(a.advantages.back(), -0.5);
}

TEST(BatchAdvantages, WhiteningIsOverTheLossTokensOfTheBatch) {
  Batch b;
  for (const Whitening form : {Whitening::kEps, Whitening::kFloor}) {
    AdvantageOptions o = options_of(Advantage::kReinforcePpBaseline);
    o.whitening = form;
    const BatchAdvantages a = batch_advantages(o, b.view());
    double sum = 0, squares = 0, count = 0;
    for (size_t t = 0; t < a.mask.size(); ++t) {
      EXPECT_TRUE(a.mask[t] != 0 || a.advantages[t] == 0.0);
      sum += a.advantages[t];
      squares += a.advantages[t] * a.advantages[t];
      count += a.mask[t];
    }
    EXPECT_NEAR(sum, 0, 1e-12);
    EXPECT_NEAR(squares / (count - (form == Whitening::kEps ? 1 : 0)), 1, 1e-6);
    EXPECT_TRUE(a.varies);
    EXPECT_NE(a.returns, a.advantages);
  }
}

TEST(BatchAdvantages, AFilteredSampleKeepsItsPlaceInTheBaseline) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kGrpo);
  const BatchAdvantages plain = batch_advantages(o, b.view());
  o.masks_overlong = true;
  BatchAdvantages a = batch_advantages(o, b.view());
  EXPECT_EQ(a.carries_loss, (std::vector<uint8_t>{1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(a.masked_overlong, 1);
  EXPECT_EQ(a.per_sample, plain.per_sample);
  o.repetition_limit = 0.4;  // responses of one id: 0, 1/2 and 2/3 of their bigrams came before
  o.repetition_ngram = 2;
  a = batch_advantages(o, b.view());
  EXPECT_EQ(a.carries_loss, (std::vector<uint8_t>{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(a.masked_overlong, 1);
  EXPECT_EQ(a.masked_repetitive, 3);
  o.repetition_limit = 0.5;  // is allowed itself
  EXPECT_EQ(batch_advantages(o, b.view()).masked_repetitive, 2);
}

TEST(BatchAdvantages, PermutingGroupsChangesNothing) {
  for (const Advantage kind :
       {Advantage::kGrpo, Advantage::kDrGrpo, Advantage::kRloo, Advantage::kOpo, Advantage::kGpg,
        Advantage::kGrpoPassk, Advantage::kReinforcePp, Advantage::kReinforcePpBaseline}) {
    Batch b, swapped;
    for (size_t i = 0; i < 6; ++i) {
      swapped.samples[i] = b.samples[(i + 3) % 6];
      swapped.scores[i] = b.scores[(i + 3) % 6];
    }
    AdvantageOptions o = options_of(kind);
    o.whitening = Whitening::kEps;
    const BatchAdvantages x = batch_advantages(o, b.view()),
                          y = batch_advantages(o, swapped.view());
    const size_t half = x.advantages.size() / 2;
    for (size_t t = 0; t < x.advantages.size(); ++t) {
      // The moments of whitening are summed in another order.
      EXPECT_NEAR(x.advantages[t], y.advantages[(t + half) % x.advantages.size()], 1e-12);
    }
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(x.per_sample[i], y.per_sample[(i + 3) % 6]);
  }
}

TEST(BatchAdvantages, APenaltyThatIsNotFiniteNamesItsSample) {
  Batch b;
  b.ref[3][0] = -INFINITY;
  AdvantageOptions o = options_of(Advantage::kGrpo);
  o.kl_in_reward = true;
  const Error e = expect_error(Code::kNonFinite, [&] { batch_advantages(o, b.view()); });
  EXPECT_TRUE(contains(e.message, "ordinal 1, slot 0")) << e.message;
  b.samples[3]->loss_mask[0] = 0;
  EXPECT_TRUE(std::isfinite(batch_advantages(o, b.view()).kl));
}

TEST(BatchAdvantages, TheOutcomeKnowsNothingOfKlAndWhitening) {
  Batch b;
  AdvantageOptions o = options_of(Advantage::kGrpo);
  const std::vector<double> plain = batch_advantages(o, b.view()).per_sample;
  o.kl_in_reward = true;
  o.whitening = Whitening::kEps;
  EXPECT_EQ(outcome_advantages(o, b.view()), plain);
}

}  // namespace
}  // namespace rl

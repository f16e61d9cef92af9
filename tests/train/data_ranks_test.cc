// Steps of several data-parallel ranks: all have the same bits after each, a layout gives the same
// bits twice, and the gradient is that of one rank but for the order of its sums.
#include "train/ranks/data_ranks.h"

#include <gtest/gtest.h>

#include <limits>

#include "data_rank_rig.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

template <typename Call>
void expect_refusal(const Call& call, Code code, const std::string& part) {
  EXPECT_TRUE(contains(expect_error(code, call).message, part));
}

// Sums of fp32 gradients in another order, as with another cut into micro-batches.
constexpr double kGradientBound = 1e-6;

void expect_near_one_rank(const Outcome& ranks, const Outcome& one) {
  EXPECT_LT(relative_l2(ranks.first_gradients, one.first_gradients), kGradientBound);
  for (size_t i = 0; i < one.metrics.size(); ++i) {
    const TrainMetrics &a = ranks.metrics[i], &b = one.metrics[i];
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.loss_tokens, b.loss_tokens);
    EXPECT_EQ(a.minibatches, b.minibatches);
    EXPECT_EQ(a.optimizer_steps, b.optimizer_steps);
    EXPECT_EQ(a.logprob_compared_tokens, b.logprob_compared_tokens);
    EXPECT_EQ(a.probabilities.count, b.probabilities.count);
    EXPECT_EQ(a.preference.pairs, b.preference.pairs);
    // Later minibatches have weights that differ by roundings.
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * std::abs(b.loss) + 1e-6);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * b.grad_norm);
    EXPECT_NEAR(a.entropy, b.entropy, 1e-4 * std::abs(b.entropy));
  }
  EXPECT_EQ(ranks.metrics[0].logprob_max_abs_diff, 0);
}

void expect_layouts_agree(const TrainerOptions& options, const RigOptions& rig = {}) {
  const Outcome one = on_ranks(1, rig, options)[0];
  for (const int size : {2, 3}) {
    SCOPED_TRACE(size);
    const std::vector<Outcome> ranks = on_ranks(size, rig, options);
    for (const Outcome& other : ranks) expect_same(other, ranks[0]);
    expect_same(on_ranks(size, rig, options)[0], ranks[0]);
    expect_near_one_rank(ranks[0], one);
  }
}

class RankObjectives : public ::testing::TestWithParam<Objective> {};
INSTANTIATE_TEST_SUITE_P(Objectives, RankObjectives,
                         ::testing::Values(Objective::kRl, Objective::kSft, Objective::kDpo,
                                           Objective::kRewardModel),
                         [](const auto& info) { return std::string(objective_name(info.param)); });

TEST_P(RankObjectives, TrainAsOneRankDoes) {
  expect_layouts_agree(options_of(GetParam()), {.with_reference = GetParam() == Objective::kDpo});
}

TEST_P(RankObjectives, TrainAsOneRankDoesWhenWorkIsBalanced) {
  TrainerOptions o = options_of(GetParam());
  o.batch.balance = BalanceCost::kTokens;
  o.batch.whole_groups = true;
  expect_layouts_agree(o, {.with_reference = GetParam() == Objective::kDpo});
}

class RankLosses : public ::testing::TestWithParam<PolicyLoss> {};
INSTANTIATE_TEST_SUITE_P(Losses, RankLosses,
                         ::testing::Values(PolicyLoss::kGspo, PolicyLoss::kClipCov,
                                           PolicyLoss::kKlCov, PolicyLoss::kGmpo),
                         [](const auto& info) {
                           return std::string(policy_loss_name(info.param));
                         });

// Their loss of a token depends on others, which other ranks compute.
TEST_P(RankLosses, OfWholeMinibatchesTrainAsOneRankDoes) {
  TrainerOptions o = options_of();
  o.policy_loss.kind = GetParam();
  o.clip_cov = {.ratio = 0.1, .low = -100, .high = 100};
  o.entropy_coef = 0.01;
  expect_layouts_agree(o);
}

TEST(DataRanks, ShareForwardsOfReferenceAndProximalPolicy) {
  TrainerOptions o = options_of();
  o.kl_in_loss = true;
  o.kl_coef = 0.1;
  o.correction.decoupled = true;
  o.correction.weights.level = CorrectionLevel::kToken;
  expect_layouts_agree(o, {.with_reference = true});
}

TEST(DataRanks, WeighTheWholeBatchOnce) {
  TrainerOptions o = options_of();
  o.policy_loss.kind = PolicyLoss::kNone;  // its masks need the present log-probs
  o.correction.weights.level = CorrectionLevel::kSequence;
  o.correction.batch_normalize = true;
  o.loss_agg = LossAgg::kSeqMeanTokenMean;
  expect_layouts_agree(o);
}

TEST(DataRanks, TrainWithMuon) {
  TrainerOptions o = options_of();
  o.optimizer.kind = OptimizerKind::kMuon;
  o.optimizer.ema = 0.9;
  expect_layouts_agree(o);
}

TEST(DataRanks, HaveTheSameBitsWithGradientsInBf16) {
  TrainerOptions o = options_of();
  o.optimizer.grad_dtype = GradDtype::kBf16;
  const std::vector<Outcome> ranks = on_ranks(2, {}, o);
  expect_same(ranks[1], ranks[0]);
  expect_same(on_ranks(2, {}, o)[0], ranks[0]);
  // Two roundings of 2^-8 each, of the half of the samples and of the sum.
  const Outcome one = on_ranks(1, {}, o)[0];
  EXPECT_NEAR(ranks[0].metrics[0].grad_norm, one.metrics[0].grad_norm,
              0.02 * one.metrics[0].grad_norm);
}

// Fewer samples than ranks: some have nothing to compute, and take the same steps.
TEST(DataRanks, MayHaveNoSamples) {
  TrainerOptions o = options_of();
  o.batch.num_minibatches = 1;
  const Work two_samples = [](TrainRig& rig) {
    std::vector<Sample> samples = random_samples(2, rig.model().config().vocab, 4);
    store_logprobs(rig, samples);
    Outcome out;
    out.metrics.push_back(rig.trainer->step(with_advantages(samples)));
    out.first_gradients = rig.gradients();
    out.masters = rig.masters();
    return out;
  };
  const std::vector<Outcome> ranks = on_ranks(5, {}, o, two_samples);
  for (const Outcome& rank : ranks) expect_same(rank, ranks[0]);
  EXPECT_EQ(ranks[0].metrics[0].optimizer_steps, 1);
  expect_near_one_rank(ranks[0], on_ranks(1, {}, o, two_samples)[0]);
}

// The gradients that a host gets are those of the whole batch, on every rank.
TEST(DataRanks, HoldTheGradientsOfTheWholeBatch) {
  TrainerOptions o = options_of();
  o.batch.num_minibatches = 1;
  const Work halves = [](TrainRig& rig) {
    std::vector<Sample> samples = samples_for(rig, Objective::kRl, 5);
    const std::vector<TrainSample> batch = with_advantages(samples);
    rig.trainer->begin_gradients(batch, {});
    while (rig.trainer->next()) {
    }
    Outcome out;
    out.first_gradients = rig.gradients();
    rig.trainer->apply();
    out.metrics.push_back(rig.trainer->finish());
    rig.trainer->publish(out.metrics.back());
    out.masters = rig.masters();
    return out;
  };
  const std::vector<Outcome> ranks = on_ranks(2, {}, o, halves);
  expect_same(ranks[1], ranks[0]);
  expect_near_one_rank(ranks[0], on_ranks(1, {}, o, halves)[0]);
}

// The sample is the second rank's.
TEST(DataRanks, SkipAStepTogetherThatIsNotFinite) {
  TrainerOptions o = options_of();
  o.batch.num_minibatches = 1;
  const Work spoiled = [](TrainRig& rig) {
    std::vector<Sample> samples = samples_for(rig, Objective::kRl, 5);
    const std::vector<float> before = rig.masters();
    std::vector<TrainSample> batch = with_advantages(samples);
    batch.back().advantage = std::numeric_limits<double>::infinity();
    Outcome out;
    out.metrics.push_back(rig.trainer->step(batch));
    EXPECT_TRUE(same_bits(rig.masters(), before));
    return out;
  };
  const std::vector<Outcome> ranks = on_ranks(2, {}, o, spoiled);
  for (const Outcome& rank : ranks) {
    EXPECT_EQ(rank.metrics[0].skipped_steps, 1);
    EXPECT_EQ(rank.metrics[0].non_finite_samples, (std::vector<uint64_t>{504}));
  }
}

TEST(DataRanks, RefuseDifferentBatchesBeforeAnythingRuns) {
  const Work work = [](TrainRig& rig) {
    std::vector<Sample> samples = samples_for(rig, Objective::kRl, 5);
    const std::vector<float> before = rig.masters();
    // The last three decide which forwards are made.
    const std::vector<float> logprobs(static_cast<size_t>(samples[3].generated()), -1.0f);
    for (const char* other : {"advantage", "versions", "mixed_kv", "ref_logprobs"}) {
      SCOPED_TRACE(other);
      std::vector<Sample> own = samples;
      std::vector<TrainSample> batch = with_advantages(own);
      if (rig.ranks.rank() == 1) {
        const std::string what = other;
        if (what == "advantage") batch[3].advantage = 0.5;
        if (what == "versions") own[3].versions.assign(logprobs.size(), 7);
        if (what == "mixed_kv") own[3].mixed_kv.assign(logprobs.size(), 1);
        if (what == "ref_logprobs") batch[3].ref_logprobs = logprobs;
      }
      expect_refusal([&] { rig.trainer->step(batch); }, Code::kConflict,
                     "rank 1 trains on another batch");
    }
    EXPECT_TRUE(same_bits(rig.masters(), before));
    std::vector<TrainSample> batch = with_advantages(samples);
    Outcome out;
    out.metrics.push_back(rig.trainer->step(batch));  // the run goes on
    out.masters = rig.masters();
    return out;
  };
  const std::vector<Outcome> ranks = on_ranks(2, {}, options_of(), work);
  expect_same(ranks[1], ranks[0]);
  EXPECT_EQ(ranks[0].metrics[0].optimizer_steps, 2);
}

TEST(DataRanks, KnowOfABatchThatOneOfThemRefuses) {
  const Work work = [](TrainRig& rig) {
    std::vector<Sample> samples = samples_for(rig, Objective::kRl, 5);
    if (rig.ranks.rank() == 1) samples[7].ids[0] = 1 << 20;
    if (rig.ranks.rank() == 1) {
      expect_refusal([&] { rig.trainer->step(with_advantages(samples)); }, Code::kOutOfRange,
                     "at index 0");
    } else {
      expect_refusal([&] { rig.trainer->step(with_advantages(samples)); },
                     Code::kFailedPrecondition, "rank 1 refused the batch");
    }
    samples = samples_for(rig, Objective::kRl, 5);
    Outcome out;
    out.metrics.push_back(rig.trainer->step(with_advantages(samples)));
    out.masters = rig.masters();
    return out;
  };
  const std::vector<Outcome> ranks = on_ranks(3, {}, options_of(), work);
  for (const Outcome& rank : ranks) expect_same(rank, ranks[0]);
}

// A log-prob that only the first rank computes is found wrong there, in the middle of the step.
TEST(DataRanks, EndTogetherWithTheRankThatFails) {
  TrainerOptions o = options_of();
  o.check_logprobs = true;
  const auto thrown = try_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    TrainRig rig({.ranks = DataRanks(group, *transport)}, o);
    std::vector<Sample> samples = samples_for(rig, Objective::kRl, 5);
    samples[0].loss_mask[0] = 1;
    samples[0].logprobs[0] += 1;
    const int rank = transport->rank();
    try {
      rig.trainer->step(with_advantages(samples));
      ADD_FAILURE() << "rank " << rank;
    } catch (const RankError& e) {
      EXPECT_EQ(rank, 1);
      EXPECT_EQ(e.rank, 0);
      EXPECT_NE(e.message.find("check_logprobs"), std::string::npos) << e.message;
    } catch (const Error& e) {
      EXPECT_EQ(rank, 0);
      EXPECT_EQ(e.key, "trainer.check_logprobs");
    }
  });
  for (const auto& e : thrown) EXPECT_EQ(e, nullptr);
}

TEST(DataRanks, TrainOneCritic) {
  const CriticOutcome one = critic_on_ranks(1)[0];
  for (const int size : {2, 3}) expect_one_critic(critic_on_ranks(size), one);
}

}  // namespace
}  // namespace rl::testing

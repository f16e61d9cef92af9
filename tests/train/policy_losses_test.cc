// Every policy loss through the trainer: its value is that of the pure function over the minibatch,
// no cut into micro-batches changes it, masked samples and tokens do nothing, and the log-probs
// that were stored stand for a forward wherever the same weights drew the sample.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>

#include "algo/choice.h"
#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

constexpr PolicyLoss kLosses[] = {
    PolicyLoss::kPpoClip, PolicyLoss::kNone,    PolicyLoss::kGspo,  PolicyLoss::kCispo,
    PolicyLoss::kSapo,    PolicyLoss::kGmpo,    PolicyLoss::kGpg,   PolicyLoss::kDppoTv,
    PolicyLoss::kDppoKl,  PolicyLoss::kClipCov, PolicyLoss::kKlCov, PolicyLoss::kDro,
};

TrainerOptions options_of(PolicyLoss kind) {
  TrainerOptions o;
  o.max_tokens = 512;
  o.logprob_chunk_tokens = 64;
  o.schedule.lr = 1e-3;
  o.policy_loss.kind = kind;
  o.clip_cov = {.ratio = 0.1, .low = -100, .high = 100};  // some tokens are taken
  return o;
}

// Samples whose stored log-probs are a little off the model's, drawn by other weights.
std::vector<Sample> stale_samples(TrainRig& rig, int count = 16) {
  std::vector<Sample> samples = random_samples(count, rig.model().config().vocab, 5);
  store_logprobs(rig, samples);
  std::mt19937 rng(3);
  for (Sample& s : samples) {
    for (float& lp : s.logprobs) {
      lp -= 0.4f * (static_cast<float>(rng() % 1000) / 1000.0f - 0.5f);
    }
    std::ranges::fill(s.versions, kUnknownVersion);
  }
  return samples;
}

struct Result {
  TrainMetrics metrics;
  std::vector<float> gradients;
};

Result step(TrainRig& rig, const std::vector<TrainSample>& batch) {
  Result r;
  r.metrics = rig.trainer->train(batch);
  r.gradients = rig.gradients();
  return r;
}

Result stale_step(const TrainerOptions& options) {
  TrainRig rig({.threads = 2}, options);
  const std::vector<Sample> samples = stale_samples(rig);
  return step(rig, with_advantages(samples));
}

std::string name_of_loss(const ::testing::TestParamInfo<PolicyLoss>& info) {
  return std::string(policy_loss_name(info.param));
}
class EveryLoss : public ::testing::TestWithParam<PolicyLoss> {};
INSTANTIATE_TEST_SUITE_P(Losses, EveryLoss, ::testing::ValuesIn(kLosses), name_of_loss);

TEST_P(EveryLoss, TenRandomCutsLeaveTheLossAndTheGradientsClose) {
  const Result whole = stale_step(options_of(GetParam()));
  EXPECT_TRUE(std::isfinite(whole.metrics.loss));
  EXPECT_GT(whole.metrics.grad_norm, 0);
  std::mt19937 rng(17);
  double largest = 0;
  for (int cut = 0; cut < 10; ++cut) {
    TrainerOptions o = options_of(GetParam());
    o.max_tokens = 50 + static_cast<int64_t>(rng() % 200);
    o.logprob_chunk_tokens = static_cast<int64_t>(rng() % 40);
    const Result r = stale_step(o);
    EXPECT_GT(r.metrics.micro_batches, whole.metrics.micro_batches);
    // Sums in double, in another order.
    EXPECT_NEAR(r.metrics.loss, whole.metrics.loss, 1e-12);
    EXPECT_NEAR(r.metrics.entropy, whole.metrics.entropy, 1e-12);
    EXPECT_NEAR(r.metrics.ppo_kl, whole.metrics.ppo_kl, 1e-12);
    EXPECT_EQ(r.metrics.clip_fraction, whole.metrics.clip_fraction);
    EXPECT_EQ(r.metrics.ratio_max, whole.metrics.ratio_max);
    largest = std::max(largest, relative_l2(r.gradients, whole.gradients));
  }
  // Weight gradients sum over tokens in fp32, so another cut is another order of summation (N4).
  EXPECT_LE(largest, 1e-6);
  RecordProperty("relative_l2", std::to_string(largest));
}

TEST_P(EveryLoss, ItsValueIsThatOfThePureFunctionOverTheMinibatch) {
  TrainRig rig({}, options_of(GetParam()));
  const std::vector<Sample> samples = stale_samples(rig);
  const std::vector<TrainSample> batch = with_advantages(samples);
  PolicyLossParams params = options_of(GetParam()).policy_loss;
  std::vector<float> current, old, advantage;
  std::vector<double> weight, gradient;
  std::vector<int32_t> lengths;
  double tokens = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    std::vector<float> own(s.logprobs.size());
    const Sample* in = &s;
    const std::span<float> out = own;
    rig.trainer->logprobs(rig.model(), {&in, 1}, {&out, 1});
    for (size_t g = 0; g < own.size(); ++g) {
      current.push_back(own[g]);
      old.push_back(s.logprobs[g]);
      advantage.push_back(static_cast<float>(batch[i].advantage));
      weight.push_back(s.loss_mask[g]);
      tokens += s.loss_mask[g];
    }
    lengths.push_back(static_cast<int32_t>(own.size()));
  }
  for (double& w : weight) w /= tokens;
  gradient.resize(weight.size());
  const bool selects = needs_selection(params.kind);
  if (selects) params.kind = PolicyLoss::kPpoClip;  // an upper bound only, see below
  const PolicyLossSums sums =
      policy_loss(params, {current, old, advantage, weight, {}, lengths}, gradient);
  const Result r = step(rig, batch);
  EXPECT_EQ(r.metrics.ratio_max, sums.ratio_max);
  EXPECT_NEAR(r.metrics.ppo_kl, sums.neg_log_ratio / tokens, 1e-12);
  if (selects) {
    EXPECT_GT(std::abs(r.metrics.pg_loss - sums.loss), 1e-6) << "nothing was treated apart";
  } else {
    EXPECT_NEAR(r.metrics.pg_loss, sums.loss, 1e-12);
  }
}

TEST_P(EveryLoss, StoredLogprobsStandForAForward) {
  const auto run = [&](bool known) {
    TrainRig rig({}, options_of(GetParam()));
    std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 5);
    store_logprobs(rig, samples);
    if (!known) {
      for (Sample& s : samples) std::ranges::fill(s.versions, kUnknownVersion);
    }
    return step(rig, with_advantages(samples));
  };
  const Result stored = run(true), forwarded = run(false);
  EXPECT_TRUE(same_bits(stored.gradients, forwarded.gradients));
  EXPECT_EQ(stored.metrics.loss, forwarded.metrics.loss);
  EXPECT_EQ(stored.metrics.ratio_max, 1.0);
  EXPECT_EQ(stored.metrics.current_ns, 0);
}

TEST_P(EveryLoss, MaskedSamplesAndTokensContributeExactlyNothing) {
  TrainRig plain_rig({}, options_of(GetParam()));
  const std::vector<Sample> samples = stale_samples(plain_rig);
  const Result plain = step(plain_rig, with_advantages(samples));

  TrainRig rig({}, options_of(GetParam()));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Sample> dirty = samples;
  for (Sample& s : dirty) {
    for (size_t g = 0; g < s.loss_mask.size(); ++g) {
      if (s.loss_mask[g] == 0) s.logprobs[g] = nan;
    }
  }
  Sample dummy = dirty[3];
  dummy.ordinal = 1;
  dummy.slot = 9;
  std::ranges::fill(dummy.logprobs, nan);
  std::vector<TrainSample> batch = with_advantages(dirty);
  batch.push_back({&dummy, 1e30, {}, {}, false});
  const Result r = step(rig, batch);
  EXPECT_TRUE(same_bits(r.gradients, plain.gradients));
  EXPECT_EQ(r.metrics.loss, plain.metrics.loss);
  EXPECT_EQ(r.metrics.entropy, plain.metrics.entropy);
  EXPECT_EQ(r.metrics.loss_tokens, plain.metrics.loss_tokens);
}

// All but clip_cov, whose random choice is keyed by the ordinal of a group.
std::vector<PolicyLoss> losses_without_choice() {
  std::vector<PolicyLoss> losses(std::begin(kLosses), std::end(kLosses));
  std::erase(losses, PolicyLoss::kClipCov);
  return losses;
}
class LossWithoutChoice : public EveryLoss {};
INSTANTIATE_TEST_SUITE_P(Losses, LossWithoutChoice, ::testing::ValuesIn(losses_without_choice()),
                         name_of_loss);

TEST_P(LossWithoutChoice, PermutingGroupsLeavesIt) {
  const Result plain = stale_step(options_of(GetParam()));
  TrainRig rig({.threads = 2}, options_of(GetParam()));
  std::vector<Sample> samples = stale_samples(rig);
  std::vector<TrainSample> batch = with_advantages(samples);
  for (Sample& s : samples) s.ordinal = 3 - s.ordinal;
  const Result r = step(rig, batch);
  EXPECT_NEAR(r.metrics.loss, plain.metrics.loss, 1e-12);
  EXPECT_LE(relative_l2(r.gradients, plain.gradients), 1e-6);
}

TEST_P(EveryLoss, ASampleWithoutAFiniteLossIsNamedAndTheStepSkipped) {
  TrainRig rig({}, options_of(GetParam()));
  const std::vector<Sample> samples = stale_samples(rig, 8);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[5].advantage = std::numeric_limits<double>::quiet_NaN();
  const std::vector<float> before = rig.masters();
  const TrainMetrics m = rig.trainer->train(batch);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_TRUE(same_bits(rig.masters(), before));
  EXPECT_FALSE(m.non_finite_samples.empty());
  EXPECT_NE(std::ranges::find(m.non_finite_samples, samples[5].id), m.non_finite_samples.end());
}

TEST(PolicyLosses, ASampleOfALaterMinibatchIsNamed) {
  TrainerOptions o = options_of(PolicyLoss::kGspo);
  o.batch.num_minibatches = 2;
  TrainRig rig({}, o);
  const std::vector<Sample> samples = stale_samples(rig, 8);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[5].advantage = std::numeric_limits<double>::quiet_NaN();
  const TrainMetrics m = rig.trainer->train(batch);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.optimizer_steps, 1);
  EXPECT_EQ(m.non_finite_samples, std::vector<uint64_t>{samples[5].id});
}

TEST(PolicyLosses, ASequenceOfOneTokenHasTheRatioOfTheToken) {
  const auto run = [](PolicyLoss kind, GspoGradient gradient) {
    TrainerOptions o = options_of(kind);
    o.policy_loss.gspo_gradient = gradient;
    TrainRig rig({}, o);
    std::vector<Sample> samples = stale_samples(rig);
    for (Sample& s : samples) {
      std::ranges::fill(s.loss_mask, 0);
      s.loss_mask[s.loss_mask.size() / 2] = 1;
    }
    return step(rig, with_advantages(samples));
  };
  const Result ppo = run(PolicyLoss::kPpoClip, GspoGradient::kToken);
  for (const GspoGradient gradient : {GspoGradient::kToken, GspoGradient::kSequence}) {
    const Result gspo = run(PolicyLoss::kGspo, gradient);
    EXPECT_NEAR(gspo.metrics.loss, ppo.metrics.loss, 1e-12);
    // The gradients in the log-probs agree in double; they are rounded to fp32 once.
    EXPECT_LE(relative_l2(gspo.gradients, ppo.gradients), 1e-7);
  }
}

TEST(PolicyLosses, GspoGradientsDifferWhereTheAdvantageDoesWithinASequence) {
  const auto run = [](GspoGradient gradient, bool constant) {
    TrainerOptions o = options_of(PolicyLoss::kGspo);
    o.policy_loss.gspo_gradient = gradient;
    TrainRig rig({}, o);
    const std::vector<Sample> samples = stale_samples(rig);
    std::vector<TrainSample> batch = with_advantages(samples);
    std::vector<std::vector<float>> advantages;
    for (size_t i = 0; i < samples.size(); ++i) {
      advantages.emplace_back(samples[i].logprobs.size(), 0.5f);
      for (size_t g = 0; g < advantages[i].size() && !constant; ++g) {
        advantages[i][g] += 0.25f * static_cast<float>(g % 3);
      }
    }
    for (size_t i = 0; i < batch.size(); ++i) batch[i].token_advantages = advantages[i];
    return step(rig, batch);
  };
  for (const bool constant : {true, false}) {
    const Result token = run(GspoGradient::kToken, constant);
    const Result sequence = run(GspoGradient::kSequence, constant);
    EXPECT_EQ(token.metrics.loss, sequence.metrics.loss);
    const double gap = relative_l2(token.gradients, sequence.gradients);
    if (constant) {
      EXPECT_LE(gap, 1e-6);  // the mean over the tokens is rounded
    } else {
      EXPECT_GT(gap, 1e-3);
    }
  }
}

TEST(PolicyLosses, EveryAggregationWeighsAsItSays) {
  for (const PolicyLoss kind : {PolicyLoss::kNone, PolicyLoss::kGspo}) {
    const auto loss = [&](LossAgg agg) {
      TrainerOptions o = options_of(kind);
      o.loss_agg = agg;
      o.loss_scale_factor = agg == LossAgg::kSeqMeanTokenSumNorm ? 30 : 0;
      return stale_step(o).metrics;
    };
    const TrainMetrics mean = loss(LossAgg::kTokenMean);
    const double sum = loss(LossAgg::kTokenSum).loss;
    EXPECT_NEAR(mean.loss, sum / static_cast<double>(mean.loss_tokens), 1e-12);
    EXPECT_NEAR(loss(LossAgg::kSeqMeanTokenSum).loss, sum / 16, 1e-12);
    EXPECT_NEAR(loss(LossAgg::kSeqMeanTokenSumNorm).loss, sum / 16 / 30, 1e-12);
    const double nested = loss(LossAgg::kSeqMeanTokenMean).loss;
    EXPECT_GT(std::abs(nested - mean.loss), 1e-6);
    EXPECT_LT(std::abs(nested), 10);
  }
}

TEST(PolicyLosses, TheDrawsOfClipCovFollowFromTheSeed) {
  const auto run = [](uint64_t seed) {
    TrainerOptions o = options_of(PolicyLoss::kClipCov);
    o.seed = seed;
    return stale_step(o);
  };
  const Result one = run(1), again = run(1), other = run(2);
  EXPECT_TRUE(same_bits(one.gradients, again.gradients));
  EXPECT_NE(one.metrics.loss, other.metrics.loss);
  EXPECT_EQ(one.metrics.clip_fraction, other.metrics.clip_fraction);
}

}  // namespace
}  // namespace rl::testing

// Corrections of a mismatch: which log-probs they compare, what they do to masks, weights and
// metrics, and when a forward of the proximal policy runs.
#include "train/losses/minibatch_tokens.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions with_correction(const CorrectionOptions& correction,
                               PolicyLoss kind = PolicyLoss::kPpoClip) {
  TrainerOptions o;
  o.max_tokens = 256;
  o.schedule.lr = 1e-3;
  o.policy_loss.kind = kind;
  o.correction = correction;
  return o;
}

CorrectionOptions decoupled(CorrectionLevel level = CorrectionLevel::kNone) {
  CorrectionOptions c;
  c.decoupled = true;
  c.weights.level = level;
  return c;
}

// Stored log-probs are `gap` below the model's own, from weights that are not known.
std::vector<Sample> shifted_samples(TrainRig& rig, float gap) {
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 23);
  store_logprobs(rig, samples);
  for (Sample& s : samples) {
    for (float& lp : s.logprobs) lp -= gap;
    std::ranges::fill(s.versions, kUnknownVersion);
  }
  return samples;
}

std::map<std::string, double> metrics_of(const TrainMetrics& m) {
  std::map<std::string, double> out;
  for_each_metric(m, [&](const char* name, double value) { out[name] = value; });
  return out;
}

TrainMetrics shifted_step(const TrainerOptions& options, float gap) {
  TrainRig rig({}, options);
  const std::vector<Sample> samples = shifted_samples(rig, gap);
  return rig.trainer->train(with_advantages(samples));
}

TEST(Corrections, OnlySamplesOfOtherWeightsAreForwardedForTheProximalPolicy) {
  TrainRig rig({}, with_correction(decoupled()));
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 23);
  store_logprobs(rig, samples);
  samples[2].versions.back() = kUnknownVersion;
  samples[2].loss_mask.back() = 1;
  samples[4].mixed_kv.assign(samples[4].versions.size(), 0);
  samples[4].mixed_kv.back() = samples[4].loss_mask.back() = 1;
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.proximal_samples, 2);
  EXPECT_GT(m.proximal_ns, 0);
  EXPECT_EQ(m.ratio_max, 1.0);
  EXPECT_EQ(m.ppo_kl, 0.0);
  EXPECT_GT(metrics_of(m).at("timing_s/old_log_prob_saved"), 0);
  // The weights have moved now: nothing stored is of the proximal policy any more.
  const TrainMetrics later = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(later.proximal_samples, 8);
  EXPECT_EQ(later.rows_not_scored, 0);
  EXPECT_EQ(later.ratio_max, 1.0);
  EXPECT_NE(later.corrections.mismatch.neg_log_ratio, 0);
}

TEST(Corrections, WithoutDecouplingNothingIsForwardedAndTheRatioIsAgainstTheSampler) {
  const TrainMetrics m = shifted_step(with_correction({}), 0.125f);
  EXPECT_EQ(m.proximal_samples, 0);
  EXPECT_EQ(m.proximal_ns, 0);
  EXPECT_EQ(m.current_ns, 0);
  EXPECT_NEAR(m.ratio_max, std::exp(0.125), 1e-6);
  EXPECT_FALSE(m.has_corrections);
  EXPECT_EQ(metrics_of(m).count("rollout_corr/kl"), 0u);
}

TEST(Corrections, TruncatedWeightsScaleTheLoss) {
  const double plain = shifted_step(with_correction(decoupled()), 0.5f).pg_loss;
  CorrectionOptions c = decoupled(CorrectionLevel::kToken);
  // Stored log-probs are rounded after the shift, so weights agree to a few 1e-7.
  const double scale = std::abs(plain);
  TrainMetrics m = shifted_step(with_correction(c), 0.5f);
  EXPECT_NEAR(m.pg_loss, plain * std::exp(0.5), 1e-5 * scale);
  EXPECT_NEAR(metrics_of(m).at("rollout_corr/rollout_is_mean"), std::exp(0.5), 1e-5);
  EXPECT_NEAR(metrics_of(m).at("rollout_corr/kl"), -0.5, 1e-6);
  c.weights.high = 1.25;
  m = shifted_step(with_correction(c), 0.5f);
  EXPECT_NEAR(m.pg_loss, plain * 1.25, 1e-5 * scale);
  EXPECT_EQ(metrics_of(m).at("rollout_corr/rollout_is_ratio_fraction_high"), 1.0);
  c.weights.mode = CorrectionMode::kIcepop;
  m = shifted_step(with_correction(c), 0.5f);
  EXPECT_EQ(m.pg_loss, 0.0);
  EXPECT_GT(m.loss_tokens, 0);
  c = decoupled(CorrectionLevel::kToken);
  c.batch_normalize = true;
  EXPECT_NEAR(shifted_step(with_correction(c), 0.5f).pg_loss, plain, 1e-5 * scale);
}

TEST(Corrections, SequenceWeightsAreProductsOverTheSample) {
  CorrectionOptions c = decoupled(CorrectionLevel::kSequence);
  c.weights.high = 1e30;
  TrainRig rig({}, with_correction(c));
  std::vector<Sample> samples = shifted_samples(rig, 0.0625f);
  samples.resize(1);
  double tokens = 0;
  for (const uint8_t mask : samples[0].loss_mask) tokens += mask;
  const TrainMetrics m = rig.trainer->train(with_advantages(samples));
  EXPECT_NEAR(std::log(metrics_of(m).at("rollout_corr/rollout_is_mean")), 0.0625 * tokens, 1e-4);
}

TEST(Corrections, ARejectedTokenLeavesTheDenominators) {
  CorrectionOptions c = decoupled();
  c.rejections = {{RejectLevel::kToken, RejectStatistic::kK2, 0, 0.5}};
  const TrainerOptions rejecting = with_correction(c), plain = with_correction(decoupled());
  TrainRig a({}, rejecting), b({}, plain);
  std::vector<Sample> samples = shifted_samples(a, 0.0f);
  std::vector<Sample> masked = samples;
  int64_t rejected = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t g = i % 3; g < samples[i].logprobs.size(); g += 3) {
      rejected += samples[i].loss_mask[g];
      samples[i].logprobs[g] -= 2;  // l = 2, l^2 / 2 = 2
      masked[i].loss_mask[g] = 0;
    }
  }
  const TrainMetrics m = a.trainer->train(with_advantages(samples));
  const TrainMetrics expected = b.trainer->train(with_advantages(masked));
  EXPECT_EQ(m.corrections.rejections.num_rejected, static_cast<double>(rejected));
  EXPECT_NEAR(m.loss, expected.loss, 1e-12);
  EXPECT_NEAR(m.entropy, expected.entropy, 1e-12);
  // Rows that a rejection leaves in the head stand between others there: another order of sums.
  EXPECT_LE(relative_l2(a.gradients(), b.gradients()), 1e-6);
}

TEST(Corrections, ABatchOfRejectedSamplesTeachesNothing) {
  CorrectionOptions c = decoupled();
  c.rejections = {{RejectLevel::kSeqMean, RejectStatistic::kK1, 0.9, 1.1}};
  TrainRig rig({}, with_correction(c));
  const std::vector<Sample> samples = shifted_samples(rig, 1.0f);
  const std::vector<float> before = rig.masters();
  const TrainMetrics m = rig.trainer->train(with_advantages(samples));
  EXPECT_EQ(m.optimizer_steps, 0);
  EXPECT_EQ(m.minibatches, 0);
  EXPECT_EQ(m.skipped_steps, 0);
  EXPECT_EQ(metrics_of(m).at("rollout_corr/rollout_rs_masked_fraction"), 1.0);
  EXPECT_TRUE(same_bits(rig.masters(), before));
}

TEST(Corrections, WithoutDecouplingTheyCompareTheCurrentPolicyWithTheSampler) {
  CorrectionOptions c;
  c.weights.level = CorrectionLevel::kToken;
  const double plain = shifted_step(with_correction({}, PolicyLoss::kNone), 0.5f).pg_loss;
  const TrainMetrics m = shifted_step(with_correction(c, PolicyLoss::kNone), 0.5f);
  EXPECT_GT(m.current_ns, 0);
  EXPECT_NEAR(m.pg_loss, plain * std::exp(0.5), 1e-5 * std::abs(plain));
  for (const PolicyLoss kind : {PolicyLoss::kPpoClip, PolicyLoss::kGspo, PolicyLoss::kSapo}) {
    const Error e = expect_error(Code::kConflict, [&] { validate(with_correction(c, kind)); });
    EXPECT_EQ(e.key, "algo.correction.is");
    EXPECT_EQ(e.other_key, "algo.correction.decoupled");
  }
  c = {};
  c.rejections = {{RejectLevel::kSeqMean, RejectStatistic::kK1, 0.9, 1.1}};
  EXPECT_EQ(shifted_step(with_correction(c), 1.0f).minibatches, 0);
  EXPECT_EQ(shifted_step(with_correction(c), 0.0f).minibatches, 1);
}

TEST(Corrections, OffPolicyMaskingTakesBadSamplesThatThePolicyLeft) {
  CorrectionOptions c;
  c.opsm_delta = 0.25;
  // Old less current log-prob is -0.5: the policy moved towards the samples, which all stay.
  EXPECT_EQ(shifted_step(with_correction(c), 0.5f).corrections.opsm.num_touched, 0.0);
  const TrainMetrics m = shifted_step(with_correction(c), -0.5f);
  EXPECT_EQ(m.corrections.opsm.num_sequences, 8.0);
  EXPECT_EQ(m.corrections.opsm.num_touched, 4.0);  // those of negative advantage
  EXPECT_EQ(metrics_of(m).at("rollout_corr/opsm_seq_masked_fraction"), 0.5);
  c.opsm_delta = 0.75;
  EXPECT_EQ(shifted_step(with_correction(c), -0.5f).corrections.opsm.num_touched, 0.0);
}

// The advantage of a sample is the mean over the tokens that carry loss, whatever stands at the
// others.
TEST(Corrections, OffPolicyMaskingReadsNoAdvantageOfAMaskedToken) {
  CorrectionOptions c;
  c.opsm_delta = 0.25;
  for (const float masked : {9.0f, -9.0f}) {
    for (const float carried : {1.0f, -1.0f}) {
      Sample s = make_sample({1, 2, 3}, 1, 0, 0);
      s.loss_mask = {1, 0};
      const std::vector<float> advantages = {carried, masked};
      MinibatchTokens tokens;
      tokens.begin(0);
      tokens.add({&s, 0, advantages, s.logprobs, true});
      std::ranges::fill(tokens.current(0), -2.0f);  // far from the stored -1
      EXPECT_EQ(tokens.correct(c).opsm.num_touched, carried < 0 ? 1 : 0);
    }
  }
}

// Half of the samples go; a mean over all of them is half the mean over those that stay.
TEST(Corrections, RejectedTokensMayStayInTheDenominators) {
  CorrectionOptions c;
  c.opsm_delta = 0.25;
  const TrainMetrics kept = shifted_step(with_correction(c), -0.5f);
  c.counts_rejected = true;
  const TrainMetrics all = shifted_step(with_correction(c), -0.5f);
  ASSERT_EQ(kept.corrections.opsm.num_rejected, all.corrections.opsm.num_rejected);
  const double stay = 1 - kept.corrections.opsm.num_rejected / kept.corrections.opsm.num_tokens;
  EXPECT_GT(stay, 0);
  EXPECT_LT(stay, 1);
  EXPECT_NEAR(all.pg_loss, kept.pg_loss * stay, 1e-9 * std::abs(kept.pg_loss));
  EXPECT_NEAR(all.ppo_kl, kept.ppo_kl, 1e-12) << "metrics are of the tokens that carry loss";
}

TEST(Corrections, BatchMomentsAreOfTheOptimizerStep) {
  CorrectionOptions c = decoupled(CorrectionLevel::kToken);
  c.batch_normalize = true;
  c.weights.high = 100;
  const auto run = [&](int64_t max_tokens) {
    TrainerOptions o = with_correction(c);
    o.max_tokens = max_tokens;
    TrainRig rig({}, o);
    std::vector<Sample> samples = shifted_samples(rig, 0.0f);
    for (size_t i = 0; i < samples.size(); ++i) {
      for (float& lp : samples[i].logprobs) lp -= 0.3f * static_cast<float>(i);
    }
    return rig.trainer->train(with_advantages(samples));
  };
  const TrainMetrics whole = run(256), cut = run(50);
  EXPECT_GT(cut.micro_batches, whole.micro_batches);
  EXPECT_NEAR(cut.loss, whole.loss, 1e-12);
  EXPECT_EQ(cut.corrections.weights.token_sum, whole.corrections.weights.token_sum);
}

// Items with a gradient that is not finite are to blame; where there is none, all of them are.
TEST(HostLoss, WeightsAreThoseOfTheCorrectionToo) {
  TrainRig rig({}, with_correction(decoupled(CorrectionLevel::kToken), PolicyLoss::kCustom));
  double sum = 0;
  rig.trainer->set_custom_loss(
      [&](const AlgoArrays&, std::span<const double> weights, std::span<double>) {
        for (const double w : weights) sum += w;
        return 0.0;
      });
  const std::vector<Sample> samples = shifted_samples(rig, 0.5f);
  rig.trainer->train(with_advantages(samples));
  EXPECT_NEAR(sum, std::exp(0.5), 1e-5);  // a mean over tokens, each with this weight
}

TEST(HostLoss, OnlyTheSamplesOfBadGradientsAreNamed) {
  TrainerOptions o;
  o.policy_loss.kind = PolicyLoss::kCustom;
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 3; ++i) samples.push_back(make_sample({1, 2, 3}, 1, i, 0));
  const auto blamed = [&](double loss, size_t bad_token) {
    MinibatchTokens tokens;
    tokens.begin(10);
    for (const Sample& s : samples) tokens.add({&s, 1, {}, s.logprobs, true});
    tokens.set_weights(LossAgg::kTokenMean, 0);
    const PolicyLossSums sums =
        tokens.compute([&](const AlgoArrays&, std::span<const double>, std::span<double> gradient) {
          if (bad_token < gradient.size()) gradient[bad_token] = NAN;
          return loss;
        });
    EXPECT_FALSE(std::isfinite(sums.loss));
    std::vector<int32_t> items;
    tokens.find_non_finite(o, items);
    return items;
  };
  EXPECT_EQ(blamed(1, 3), std::vector<int32_t>{11});
  EXPECT_EQ(blamed(NAN, 99), (std::vector<int32_t>{10, 11, 12}));
}

// A token that became 0.5 nats more probable, and one that became 0.25 less.
TEST(HostLoss, RatiosAreOfTheCurrentLogProbsToTheOldOnes) {
  const Sample s = make_sample({1, 2, 3}, 1, 0, 0);
  const std::vector<float> old{-1.0f, -1.0f};
  const auto sums = [&](bool custom) {
    MinibatchTokens tokens;
    tokens.begin(0);
    tokens.add({&s, 1.0, {}, old, true});
    tokens.current(0)[0] = -0.5f;
    tokens.current(0)[1] = -1.25f;
    tokens.set_weights(LossAgg::kTokenMean, 0);
    if (!custom) return tokens.compute(TrainerOptions{}, 0);
    return tokens.compute(
        [](const AlgoArrays&, std::span<const double>, std::span<double>) { return 0.0; });
  };
  const PolicyLossSums own = sums(false), hosts = sums(true);
  EXPECT_EQ(own.neg_log_ratio, -0.25);
  EXPECT_EQ(hosts.neg_log_ratio, own.neg_log_ratio);
  EXPECT_EQ(hosts.ratio_max, own.ratio_max);
  EXPECT_EQ(hosts.k3, own.k3);
}

// The draw of a token follows from (seed, step, ordinal, slot, position) alone: the same tokens are
// chosen where the samples stand in another order.
TEST(ClipCov, RandomNumbersFollowTheIdentityOfTheSample) {
  TrainerOptions o;
  o.policy_loss.kind = PolicyLoss::kClipCov;
  o.clip_cov = {.ratio = 0.25, .low = -1e9, .high = 1e9};
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 12; ++i) {
    samples.push_back(make_sample(std::vector<int32_t>(6 + i % 4, 1), 2, 3 + i / 3, 5 + i % 3));
  }
  const auto chosen = [&](const std::vector<size_t>& order) {
    MinibatchTokens tokens;
    tokens.begin(0);
    for (const size_t i : order) tokens.add({&samples[i], 1.0, {}, samples[i].logprobs, true});
    for (size_t at = 0; at < order.size(); ++at)
      std::ranges::fill(tokens.current(static_cast<int32_t>(at)), -1.0f);
    tokens.set_weights(LossAgg::kTokenSum, 0);
    tokens.compute(o, 4);
    std::map<std::pair<size_t, int32_t>, bool> out;
    for (size_t at = 0; at < order.size(); ++at) {
      for (int32_t g = 0; g < samples[order[at]].generated(); ++g)
        out[{order[at], g}] = tokens.gradient(tokens.index(static_cast<int32_t>(at), g)) == 0;
    }
    return out;
  };
  const auto in_order = chosen({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(std::ranges::count_if(in_order, [](const auto& t) { return t.second; }), 16);  // of 66
  EXPECT_EQ(chosen({7, 3, 11, 0, 5, 9, 2, 10, 1, 4, 8, 6}), in_order);
}

// Two tokens, advantages 1 and -1. Where the log-probs differ by 1, both covariances are 0.5; where
// they are equal, 0: then no token is a candidate.
TEST(ClipCov, CovariancesAreOfTheCurrentLogProbs) {
  TrainerOptions o;
  o.policy_loss.kind = PolicyLoss::kClipCov;
  o.policy_loss.clip_low = o.policy_loss.clip_high = 0.9;
  o.clip_cov = {.ratio = 1, .low = 0.25, .high = 1};
  const auto chosen = [&](float gap, float old_gap) {
    const Sample a = make_sample({1, 2}, 1, 0, 0), b = make_sample({1, 2}, 1, 1, 0);
    const std::vector<float> old_a{-1 + old_gap / 2}, old_b{-1 - old_gap / 2};
    MinibatchTokens tokens;
    tokens.begin(0);
    tokens.add({&a, 1.0, {}, old_a, true});
    tokens.add({&b, -1.0, {}, old_b, true});
    std::ranges::fill(tokens.current(0), -1 + gap / 2);
    std::ranges::fill(tokens.current(1), -1 - gap / 2);
    tokens.set_weights(LossAgg::kTokenSum, 0);
    tokens.compute(o, 1);
    return (tokens.gradient(0) == 0) + (tokens.gradient(1) == 0);
  };
  EXPECT_EQ(chosen(1, 0), 2);
  EXPECT_EQ(chosen(0, 1), 0);
}

TEST(ProbabilityPairs, MomentsAreThoseOfTheProbabilities) {
  ProbabilityPairs p;
  EXPECT_EQ(p.difference_std(), 0.0);
  EXPECT_EQ(p.pearson(), 1.0);
  for (const auto& [a, b] : {std::pair(0.5, 0.25), {0.25, 0.5}, {0.125, 0.125}}) {
    p.add(static_cast<float>(std::log(a)), static_cast<float>(std::log(b)));
  }
  p.add(NAN, -1.0f);
  EXPECT_EQ(p.count, 3);
  // Log-probs are fp32: the probabilities are exact to 1e-7.
  EXPECT_NEAR(p.difference_max, 0.25, 1e-7);
  EXPECT_NEAR(p.difference_std(), std::sqrt(1.0 / 48), 1e-7);
  EXPECT_NEAR(p.pearson(), 1.0 / 7, 1e-6);
}

}  // namespace
}  // namespace rl::testing

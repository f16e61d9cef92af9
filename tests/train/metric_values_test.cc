// Which number stands under which public name, and in which order.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "train/critic.h"
#include "train/losses/train_metrics.h"

namespace rl {
namespace {

using Named = std::vector<std::pair<std::string, double>>;

template <typename Metrics>
Named shown(const Metrics& m) {
  Named out;
  for_each_metric(m, [&](const char* name, double value) { out.emplace_back(name, value); });
  return out;
}

// Expects these metrics somewhere, next to each other.
void expect_run(const Named& all, const Named& run) {
  size_t at = 0;
  while (at < all.size() && all[at].first != run.front().first) ++at;
  ASSERT_LE(at + run.size(), all.size()) << run.front().first;
  for (size_t i = 0; i < run.size(); ++i) {
    EXPECT_EQ(all[at + i].first, run[i].first);
    EXPECT_DOUBLE_EQ(all[at + i].second, run[i].second) << run[i].first;
  }
}

constexpr int64_t kSecond = 1'000'000'000;

TrainMetrics losses() {
  TrainMetrics m;
  m.loss = 1.5;
  m.pg_loss = 2.5;
  m.clip_fraction = 0.25;
  m.dual_clip_fraction = 0.125;
  m.ppo_kl = 3.5;
  m.ppo_kl_k3 = 4.5;
  m.ratio_max = 5.5;
  m.kl = 6.5;
  m.kl_loss = 7.5;
  m.distill_kl = 8.5;
  m.distill_loss = 9.5;
  m.entropy = 10.5;
  m.grad_norm = 11.5;
  m.lr = 12.5;
  m.preference = {.pairs = 4,
                  .right = 3,
                  .loss = 100,
                  .reward_chosen = 8,
                  .reward_rejected = 2,
                  .logprob_chosen = -12,
                  .logprob_rejected = -20,
                  .nll = 6};
  return m;
}

TEST(MetricValues, LossesOfAPolicyHaveTheirNames) {
  TrainMetrics m = losses();
  const Named policy = {{"actor/loss", 1.5},         {"actor/pg_loss", 2.5},
                        {"actor/pg_clipfrac", 0.25}, {"actor/pg_clipfrac_lower", 0.125},
                        {"actor/ppo_kl", 3.5},       {"actor/ppo_kl_k3", 4.5},
                        {"actor/ratio_max", 5.5},    {"actor/kl", 6.5},
                        {"actor/kl_loss", 7.5}};
  const Named rest = {{"actor/entropy", 10.5}, {"actor/grad_norm", 11.5}, {"actor/lr", 12.5}};
  Named all = policy;
  all.insert(all.end(), rest.begin(), rest.end());
  for (const Objective objective : {Objective::kRl, Objective::kDistill}) {
    m.objective = objective;
    m.has_row_teacher = false;
    expect_run(shown(m), all);
    m.has_row_teacher = true;
    Named taught = policy;
    taught.insert(taught.end(), {{"actor/distill_kl", 8.5}, {"actor/distill_loss", 9.5}});
    taught.insert(taught.end(), rest.begin(), rest.end());
    expect_run(shown(m), taught);
  }
}

TEST(MetricValues, LossesOfOtherObjectivesHaveTheirNames) {
  TrainMetrics m = losses();
  m.objective = Objective::kSft;
  expect_run(shown(m), {{"actor/loss", 1.5},
                        {"actor/entropy", 10.5},
                        {"actor/grad_norm", 11.5},
                        {"actor/lr", 12.5}});
  m.objective = Objective::kDpo;
  expect_run(shown(m), {{"actor/loss", 1.5},
                        {"rewards/chosen", 2},
                        {"rewards/rejected", 0.5},
                        {"rewards/margins", 1.5},
                        {"rewards/accuracies", 0.75},
                        {"logps/chosen", -3},
                        {"logps/rejected", -5},
                        {"nll_loss", 1.5},
                        {"actor/entropy", 10.5},
                        {"actor/grad_norm", 11.5},
                        {"actor/lr", 12.5}});
  m.objective = Objective::kRewardModel;
  expect_run(shown(m), {{"actor/loss", 1.5},
                        {"rewards/chosen", 2},
                        {"rewards/rejected", 0.5},
                        {"rewards/margins", 1.5},
                        {"rewards/accuracies", 0.75},
                        {"actor/grad_norm", 11.5},
                        {"actor/lr", 12.5}});
}

TEST(MetricValues, CountsHaveTheirNames) {
  TrainMetrics m;
  m.logprob_max_abs_diff = 0.5;
  m.logprob_compared_tokens = 11;
  m.probabilities = {.count = 4,
                     .stored = 2,
                     .found = 1,
                     .stored_squares = 2,
                     .found_squares = 1,
                     .products = 0.75,
                     .difference = 2,
                     .difference_squares = 1.1875,
                     .difference_max = 0.75};
  m.samples = 12;
  m.tokens = 13;
  m.loss_tokens = 14;
  m.computed_rows = 15;
  m.minibatches = 16;
  m.micro_batches = 17;
  m.optimizer_steps = 18;
  m.skipped_steps = 19;
  m.proximal_samples = 20;
  m.samples_without_logprobs = 21;
  m.non_finite_samples = {7, 7, 9};
  expect_run(shown(m), {{"training/logprob_max_abs_diff", 0.5},
                        {"training/logprob_compared_tokens", 11},
                        {"training/rollout_probs_diff_valid", 1},
                        {"training/rollout_probs_diff_max", 0.75},
                        {"training/rollout_probs_diff_mean", 0.5},
                        {"training/rollout_probs_diff_std", 0.25},
                        {"training/rollout_actor_probs_pearson_corr", 1 / std::sqrt(12.0)},
                        {"training/samples", 12},
                        {"training/tokens", 13},
                        {"training/loss_tokens", 14},
                        {"training/computed_rows", 15},
                        {"training/minibatches", 16},
                        {"training/micro_batches", 17},
                        {"training/optimizer_steps", 18},
                        {"training/skipped_steps", 19},
                        {"training/old_log_prob_samples", 20},
                        {"training/samples_without_logprobs", 21},
                        {"training/non_finite_samples", 3}});
}

TEST(MetricValues, TimesAreInSecondsUnderTheirNames) {
  TrainMetrics m;
  m.reference_ns = 1 * kSecond;
  m.teacher_ns = 2 * kSecond;
  m.proximal_ns = 3 * kSecond;
  m.current_ns = 4 * kSecond;
  m.prepare_ns = 5 * kSecond;
  m.forward_ns = 6 * kSecond;
  m.head_ns = 7 * kSecond;
  m.backward_ns = 8 * kSecond;
  m.optimizer_ns = 9 * kSecond;
  m.publish_ns = 10 * kSecond;
  m.total_ns = 11 * kSecond;
  m.rows_not_scored = 30;  // at 10 rows a second
  m.tokens = 60;
  m.computed_rows = 600;
  Named expected = {{"timing_s/ref", 1},
                    {"timing_s/old_log_prob", 3},
                    {"timing_s/old_log_prob_saved", 3},
                    {"timing_s/current_log_prob", 4},
                    {"timing_s/train_prepare", 5},
                    {"timing_s/train_forward", 6},
                    {"timing_s/train_head", 7},
                    {"timing_s/train_backward", 8},
                    {"timing_s/train_optimizer", 9},
                    {"timing_s/update_weights", 10},
                    {"timing_s/update_actor", 11}};
  expect_run(shown(m), expected);
  m.has_row_teacher = true;
  expected.insert(expected.begin() + 1, {"timing_s/teacher", 2});
  expect_run(shown(m), expected);
  EXPECT_EQ(shown(m).back().first, "timing_s/update_actor");
}

TrainMetrics corrected() {
  TrainMetrics m;
  m.has_corrections = true;
  m.corrections.mismatch = {.num_tokens = 8,
                            .num_sequences = 4,
                            .neg_log_ratio = 2,
                            .k3 = 4,
                            .ratio_squares = 16,
                            .seq_ratio_squares = 12,
                            .log_ppl_old = 6,
                            .log_ppl_rollout = 5,
                            .ppl_old = 28,
                            .ppl_rollout = 36,
                            .log_ppl_abs_diff = 3,
                            .ppl_ratio = 44};
  m.corrections.weights = {.num_tokens = 10,
                           .num_sequences = 100,
                           .token_sum = 20,
                           .token_squares = 50,
                           .sequence_sum = 1000,
                           .num_below = 4,
                           .num_above = 3,
                           .weight_min = 0.125,
                           .weight_max = 9};
  m.corrections.rejections = {16, 4, 5, 1};
  m.corrections.veto = {32, 4, 8, 5};
  m.corrections.opsm = {64, 4, 16, 3};
  return m;
}

TEST(MetricValues, CorrectionsHaveTheirNames) {
  expect_run(shown(corrected()), {{"rollout_corr/kl", 0.25},
                                  {"rollout_corr/k3_kl", 0.5},
                                  {"rollout_corr/chi2_token", 1},
                                  {"rollout_corr/chi2_seq", 2},
                                  {"rollout_corr/training_log_ppl", 1.5},
                                  {"rollout_corr/rollout_log_ppl", 1.25},
                                  {"rollout_corr/training_ppl", 7},
                                  {"rollout_corr/rollout_ppl", 9},
                                  {"rollout_corr/log_ppl_diff", 0.25},
                                  {"rollout_corr/log_ppl_abs_diff", 0.75},
                                  {"rollout_corr/ppl_ratio", 11},
                                  {"rollout_corr/rollout_is_mean", 2},
                                  {"rollout_corr/rollout_is_max", 9},
                                  {"rollout_corr/rollout_is_min", 0.125},
                                  {"rollout_corr/rollout_is_std", 1},
                                  {"rollout_corr/rollout_is_eff_sample_size", 0.8},
                                  {"rollout_corr/rollout_is_ratio_fraction_high", 0.3},
                                  {"rollout_corr/rollout_is_ratio_fraction_low", 0.4},
                                  {"rollout_corr/rollout_rs_masked_fraction", 0.25},
                                  {"rollout_corr/rollout_rs_seq_masked_fraction", 0.2},
                                  {"rollout_corr/veto_masked_fraction", 0.125},
                                  {"rollout_corr/veto_seq_masked_fraction", 0.625},
                                  {"rollout_corr/opsm_masked_fraction", 0.0625},
                                  {"rollout_corr/opsm_seq_masked_fraction", 0.1875}});
}

// Nothing was trained on: no share has a denominator.
TEST(MetricValues, AnEmptyStepHasZeros) {
  TrainMetrics m;
  m.has_corrections = m.has_row_teacher = true;
  for (const Objective objective : {Objective::kRl, Objective::kDpo}) {
    m.objective = objective;
    for (const auto& [name, value] : shown(m)) {
      const bool correlation = name == "training/rollout_actor_probs_pearson_corr";
      EXPECT_EQ(value, correlation ? 1 : 0) << name;
    }
  }
}

TEST(MetricValues, ThoseOfACriticHaveTheirNames) {
  CriticMetrics m;
  m.loss = 1.5;
  m.clip_fraction = 0.25;
  m.value = 2.5;
  m.grad_norm = 3.5;
  m.lr = 4.5;
  m.loss_tokens = 100;
  m.minibatches = 101;
  m.micro_batches = 5;
  m.optimizer_steps = 6;
  m.skipped_steps = 7;
  m.non_finite_samples = {3, 3};
  m.forward_ns = 102 * kSecond;
  m.total_ns = 8 * kSecond;
  const Named all = shown(m);
  EXPECT_EQ(all.size(), 10u);
  expect_run(all, {{"critic/vf_loss", 1.5},
                   {"critic/vf_clipfrac", 0.25},
                   {"critic/vpred_mean", 2.5},
                   {"critic/grad_norm", 3.5},
                   {"critic/lr", 4.5},
                   {"critic/micro_batches", 5},
                   {"critic/optimizer_steps", 6},
                   {"critic/skipped_steps", 7},
                   {"critic/non_finite_samples", 2},
                   {"timing_s/update_critic", 8}});
}

}  // namespace
}  // namespace rl

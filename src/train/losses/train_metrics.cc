// The table of public metric names, most of them verl's.
#include "train/losses/train_metrics.h"

#include <algorithm>
#include <cmath>

namespace rl {

void CorrectionReport::add(const CorrectionReport& o) {
  mismatch.add(o.mismatch);
  weights.add(o.weights);
  rejections.add(o.rejections);
  veto.add(o.veto);
  opsm.add(o.opsm);
}

void ProbabilityPairs::add(float stored_logprob, float found_logprob) {
  if (!std::isfinite(stored_logprob) || !std::isfinite(found_logprob)) return;
  const double p = std::exp(static_cast<double>(stored_logprob));
  const double q = std::exp(static_cast<double>(found_logprob));
  const double gap = std::abs(p - q);
  ++count;
  stored += p;
  found += q;
  stored_squares += p * p;
  found_squares += q * q;
  products += p * q;
  difference += gap;
  difference_squares += gap * gap;
  difference_max = std::max(difference_max, gap);
}

void ProbabilityPairs::add(const ProbabilityPairs& o) {
  count += o.count;
  stored += o.stored;
  found += o.found;
  stored_squares += o.stored_squares;
  found_squares += o.found_squares;
  products += o.products;
  difference += o.difference;
  difference_squares += o.difference_squares;
  difference_max = std::max(difference_max, o.difference_max);
}

double ProbabilityPairs::difference_std() const {
  if (count < 2) return 0;
  const auto n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, (difference_squares - difference * difference / n) / (n - 1)));
}

double ProbabilityPairs::pearson() const {
  const auto n = static_cast<double>(count);
  const double a = n * stored_squares - stored * stored;
  const double b = n * found_squares - found * found;
  if (difference_max == 0 || !(a > 0) || !(b > 0)) return 1;
  return (n * products - stored * found) / std::sqrt(a * b);
}

namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

using Visit = FunctionRef<void(const char* name, double value)>;

void visit_policy(const TrainMetrics& m, Visit visit) {
  visit("actor/pg_loss", m.pg_loss);
  visit("actor/pg_clipfrac", m.clip_fraction);
  visit("actor/pg_clipfrac_lower", m.dual_clip_fraction);
  visit("actor/ppo_kl", m.ppo_kl);
  visit("actor/ppo_kl_k3", m.ppo_kl_k3);
  visit("actor/ratio_max", m.ratio_max);
  visit("actor/kl", m.kl);
  visit("actor/kl_loss", m.kl_loss);
  if (!m.has_row_teacher) return;
  visit("actor/distill_kl", m.distill_kl);
  visit("actor/distill_loss", m.distill_loss);
}

// TRL's names, except those of whole responses.
void visit_rewards(const PreferenceSums& p, Visit visit) {
  visit("rewards/chosen", p.mean(p.reward_chosen));
  visit("rewards/rejected", p.mean(p.reward_rejected));
  visit("rewards/margins", p.mean(p.reward_chosen - p.reward_rejected));
  visit("rewards/accuracies", p.mean(static_cast<double>(p.right)));
}

void visit_preferences(const PreferenceSums& p, Visit visit) {
  visit("logps/chosen", p.mean(p.logprob_chosen));
  visit("logps/rejected", p.mean(p.logprob_rejected));
  visit("nll_loss", p.mean(p.nll));
}

void visit_losses(const TrainMetrics& m, Visit visit) {
  visit("actor/loss", m.loss);
  if (is_rl(m.objective)) visit_policy(m, visit);
  if (is_pairs(m.objective)) visit_rewards(m.preference, visit);
  if (m.objective == Objective::kDpo) visit_preferences(m.preference, visit);
  if (m.objective != Objective::kRewardModel) visit("actor/entropy", m.entropy);
  visit("actor/grad_norm", m.grad_norm);
  visit("actor/lr", m.lr);
}

void visit_counts(const TrainMetrics& m, Visit visit) {
  const auto count = [&](const char* name, int64_t value) {
    visit(name, static_cast<double>(value));
  };
  visit("training/logprob_max_abs_diff", m.logprob_max_abs_diff);
  count("training/logprob_compared_tokens", m.logprob_compared_tokens);
  const auto compared = static_cast<double>(m.probabilities.count);
  visit("training/rollout_probs_diff_valid", compared > 0 ? 1 : 0);
  visit("training/rollout_probs_diff_max", m.probabilities.difference_max);
  visit("training/rollout_probs_diff_mean", share(m.probabilities.difference, compared));
  visit("training/rollout_probs_diff_std", m.probabilities.difference_std());
  visit("training/rollout_actor_probs_pearson_corr", m.probabilities.pearson());
  count("training/samples", m.samples);
  count("training/tokens", m.tokens);
  count("training/loss_tokens", m.loss_tokens);
  count("training/computed_rows", m.computed_rows);
  count("training/minibatches", m.minibatches);
  count("training/micro_batches", m.micro_batches);
  count("training/optimizer_steps", m.optimizer_steps);
  count("training/skipped_steps", m.skipped_steps);
  count("training/old_log_prob_samples", m.proximal_samples);
  count("training/samples_without_logprobs", m.samples_without_logprobs);
  count("training/non_finite_samples", static_cast<int64_t>(m.non_finite_samples.size()));
}

void visit_mismatch(const MismatchSums& s, Visit visit) {
  const auto per_token = [&](double sum) { return share(sum, s.num_tokens); };
  const auto per_sample = [&](double sum) { return share(sum, s.num_sequences); };
  visit("rollout_corr/kl", per_token(s.neg_log_ratio));
  visit("rollout_corr/k3_kl", per_token(s.k3));
  visit("rollout_corr/chi2_token", s.num_tokens > 0 ? per_token(s.ratio_squares) - 1 : 0);
  visit("rollout_corr/chi2_seq", s.num_sequences > 0 ? per_sample(s.seq_ratio_squares) - 1 : 0);
  visit("rollout_corr/training_log_ppl", per_sample(s.log_ppl_old));
  visit("rollout_corr/rollout_log_ppl", per_sample(s.log_ppl_rollout));
  visit("rollout_corr/training_ppl", per_sample(s.ppl_old));
  visit("rollout_corr/rollout_ppl", per_sample(s.ppl_rollout));
  visit("rollout_corr/log_ppl_diff", per_sample(s.log_ppl_old - s.log_ppl_rollout));
  visit("rollout_corr/log_ppl_abs_diff", per_sample(s.log_ppl_abs_diff));
  visit("rollout_corr/ppl_ratio", per_sample(s.ppl_ratio));
}

void visit_weights(const CorrectionSums& s, Visit visit) {
  const double mean = share(s.token_sum, s.num_tokens);
  const double squares = share(s.token_squares, s.num_tokens);
  visit("rollout_corr/rollout_is_mean", mean);
  visit("rollout_corr/rollout_is_max", s.weight_max);
  visit("rollout_corr/rollout_is_min", s.num_tokens > 0 ? s.weight_min : 0);
  visit("rollout_corr/rollout_is_std", std::sqrt(std::max(0.0, squares - mean * mean)));
  visit("rollout_corr/rollout_is_eff_sample_size", share(mean * mean, squares));
  visit("rollout_corr/rollout_is_ratio_fraction_high", share(s.num_above, s.num_tokens));
  visit("rollout_corr/rollout_is_ratio_fraction_low", share(s.num_below, s.num_tokens));
}

void visit_corrections(const CorrectionReport& c, Visit visit) {
  visit_mismatch(c.mismatch, visit);
  visit_weights(c.weights, visit);
  const auto rejected = [&](const char* tokens, const char* samples, const RejectionSums& s) {
    visit(tokens, share(s.num_rejected, s.num_tokens));
    visit(samples, share(s.num_touched, s.num_sequences));
  };
  rejected("rollout_corr/rollout_rs_masked_fraction", "rollout_corr/rollout_rs_seq_masked_fraction",
           c.rejections);
  rejected("rollout_corr/veto_masked_fraction", "rollout_corr/veto_seq_masked_fraction", c.veto);
  rejected("rollout_corr/opsm_masked_fraction", "rollout_corr/opsm_seq_masked_fraction", c.opsm);
}

// Time that a forward of the rows with stored log-probs would have taken, at the speed of this
// step's forwards and without the head.
double saved_ns(const TrainMetrics& m) {
  return share(static_cast<double>(m.rows_not_scored) * static_cast<double>(m.forward_ns),
               static_cast<double>(m.tokens));
}

void visit_times(const TrainMetrics& m, Visit visit) {
  const auto seconds = [&](const char* name, int64_t ns) {
    visit(name, static_cast<double>(ns) * 1e-9);
  };
  seconds("timing_s/ref", m.reference_ns);
  if (m.has_row_teacher) seconds("timing_s/teacher", m.teacher_ns);
  seconds("timing_s/old_log_prob", m.proximal_ns);
  visit("timing_s/old_log_prob_saved", saved_ns(m) * 1e-9);
  seconds("timing_s/current_log_prob", m.current_ns);
  seconds("timing_s/train_prepare", m.prepare_ns);
  seconds("timing_s/train_forward", m.forward_ns);
  seconds("timing_s/train_head", m.head_ns);
  seconds("timing_s/train_backward", m.backward_ns);
  seconds("timing_s/train_optimizer", m.optimizer_ns);
  seconds("timing_s/update_weights", m.publish_ns);
  seconds("timing_s/update_actor", m.total_ns);
}

}  // namespace

void for_each_metric(const TrainMetrics& metrics, Visit visit) {
  visit_losses(metrics, visit);
  visit_counts(metrics, visit);
  if (metrics.has_corrections) visit_corrections(metrics.corrections, visit);
  visit_times(metrics, visit);
}

}  // namespace rl

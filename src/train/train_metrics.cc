// The table of public names, most of them those of verl.
#include "train/train_metrics.h"

namespace rl {
namespace {

using Visit = FunctionRef<void(const char* name, double value)>;

void visit_losses(const TrainMetrics& m, Visit visit) {
  visit("actor/loss", m.loss);
  visit("actor/pg_loss", m.pg_loss);
  visit("actor/pg_clipfrac", m.clip_fraction);
  visit("actor/pg_clipfrac_lower", m.dual_clip_fraction);
  visit("actor/ppo_kl", m.ppo_kl);
  visit("actor/ppo_kl_k3", m.ppo_kl_k3);
  visit("actor/ratio_max", m.ratio_max);
  visit("actor/entropy", m.entropy);
  visit("actor/kl", m.kl);
  visit("actor/kl_loss", m.kl_loss);
  visit("actor/grad_norm", m.grad_norm);
  visit("actor/lr", m.lr);
}

void visit_counts(const TrainMetrics& m, Visit visit) {
  const auto count = [&](const char* name, int64_t value) {
    visit(name, static_cast<double>(value));
  };
  visit("training/logprob_max_abs_diff", m.logprob_max_abs_diff);
  count("training/logprob_compared_tokens", m.logprob_compared_tokens);
  count("training/samples", m.samples);
  count("training/tokens", m.tokens);
  count("training/loss_tokens", m.loss_tokens);
  count("training/minibatches", m.minibatches);
  count("training/micro_batches", m.micro_batches);
  count("training/optimizer_steps", m.optimizer_steps);
  count("training/skipped_steps", m.skipped_steps);
  count("training/non_finite_samples", static_cast<int64_t>(m.non_finite_samples.size()));
}

void visit_times(const TrainMetrics& m, Visit visit) {
  const auto seconds = [&](const char* name, int64_t ns) {
    visit(name, static_cast<double>(ns) * 1e-9);
  };
  seconds("timing_s/ref", m.reference_ns);
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
  visit_times(metrics, visit);
}

}  // namespace rl

// One training step: order, reference log-probs, minibatches, micro-batches, optimizer. It runs one
// micro-batch per call of next(). Minibatches of a reward model are in reward_step.cc.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algo/moments.h"
#include "core/error.h"
#include "train/trainer_impl.h"

namespace rl {
namespace {

// |a - b| for a metric that must be 0: a NaN on one side only is an infinite difference.
double logprob_difference(float a, float b) {
  if (a == b) return 0;
  const double difference = std::abs(static_cast<double>(a) - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

}  // namespace

void StepSums::finish(TrainMetrics& m) const {
  m.loss = mean_of(tokens.loss, finite_losses);
  m.pg_loss = mean_of(tokens.pg_loss, finite_losses);
  m.kl_loss = mean_of(tokens.kl_loss, finite_losses);
  m.grad_norm = mean_of(grad_norm, finite_norms);
  m.entropy = mean_of(tokens.entropy, tokens.tokens);
  m.clip_fraction = mean_of(static_cast<double>(tokens.clipped), tokens.tokens);
  m.dual_clip_fraction = mean_of(static_cast<double>(tokens.dual_clipped), tokens.tokens);
  m.ppo_kl = mean_of(tokens.neg_log_ratio, tokens.tokens);
  m.ppo_kl_k3 = mean_of(tokens.k3, tokens.tokens);
  m.kl = mean_of(tokens.kl, tokens.tokens);
  m.distill_kl = mean_of(tokens.distill, tokens.tokens);
  m.distill_loss = mean_of(tokens.distill_loss, finite_losses);
  m.ratio_max = tokens.ratio_max;
  m.preference = preference;
  m.corrections = corrections;
  m.probabilities = probabilities;
}

TrainMetrics Trainer::Impl::train(std::span<const TrainSample> samples) {
  begin(samples);
  while (next()) {
  }
  return finish();
}

void Trainer::Impl::begin(std::span<const TrainSample> samples) {
  planned_steps = 0;
  progress = {};
  ranks.agree([&] { check_step(samples); }, [&] { return digest_of(samples); });
  run_together(ranks, [&] { prepare_step(samples); });
}

void Trainer::Impl::prepare_step(std::span<const TrainSample> samples) {
  TrainMetrics& metrics = progress.metrics;
  metrics.objective = options.objective;
  metrics.samples = static_cast<int64_t>(samples.size());
  progress.start_ns = context.clock->now_ns();
  order_items(samples, scores() ? WantedTokens::kLast : WantedTokens::kLoss, ordered, items);
  if (options.needs_reference()) score_reference(metrics);
  score_proximal(metrics);
  sums = {};
  plan_steps();
}

void Trainer::Impl::plan_steps() {
  const auto wants = [](const PackItem& item) { return item.wanted > 0; };
  for_each_minibatch(
      options, items,
      [&](std::span<const PackItem> some) {
        planned_steps += std::ranges::any_of(some, wants);
        progress.minibatches.push_back(some);
      },
      samples_together(options.objective));
}

bool Trainer::Impl::next() {
  return run_together(ranks, [&] { return run_next(); });
}

bool Trainer::Impl::run_next() {
  StepProgress& p = progress;
  while (!p.open) {
    if (p.next_minibatch == p.minibatches.size()) {
      if (p.holds && p.metrics.minibatches == 0) prepare(p.metrics);  // gradients of 0
      return false;
    }
    const std::span<const PackItem> some = p.minibatches[p.next_minibatch++];
    p.next_micro_batch = 0;
    p.open = scores() ? reward_minibatch(some, p.metrics) : minibatch(some, p.metrics);
  }
  if (!stages.alone()) {
    train_on_stage();
  } else if (p.next_micro_batch < p.micro_batches.size()) {
    const std::vector<PackItem>& part = p.micro_batches[p.next_micro_batch++];
    micro.fill(part, training_rules(options, model),
               scores() ? WantedTokens::kLast : WantedTokens::kLoss);
    micro.divide(options.context, context_ranks);
    count(micro, part, p.metrics);
    scores() ? reward_micro_batch(p.metrics) : micro_batch(p.fresh, p.metrics);
  }
  if (p.next_micro_batch < p.micro_batches.size()) return true;
  p.open = false;
  join_minibatch();
  learner.state().share_copies(stages);
  if (scores()) reward_minibatch_loss();
  p.holds ? hold_gradients() : optimize(p.metrics);
  return true;
}

TrainMetrics Trainer::Impl::finish() {
  return run_together(ranks, [&] { return finish_step(); });
}

TrainMetrics Trainer::Impl::finish_step() {
  TrainMetrics& metrics = progress.metrics;
  RL_CHECK(!progress.open && progress.next_minibatch == progress.minibatches.size());
  if (!progress.holds || progress.applied) learner.state().free_gradients();
  share_metrics(metrics);
  join_metrics(metrics);
  sums.finish(metrics);
  metrics.has_row_teacher = options.distill.on_rows;
  metrics.has_corrections = is_rl(options.objective) && options.correction.active();
  metrics.total_ns = context.clock->now_ns() - progress.start_ns;
  return std::move(metrics);
}

// A minibatch may turn out to carry no loss, so this may be true although no step comes.
bool Trainer::Impl::has_steps_left() const {
  return progress.metrics.optimizer_steps + progress.metrics.skipped_steps < planned_steps;
}

bool Trainer::Impl::abandon() {
  ranks.fail("its training step was given up");
  const bool unchanged = progress.metrics.optimizer_steps == 0;
  if (unchanged) learner.forget_skipped(progress.metrics.skipped_steps);
  learner.state().free_gradients();
  progress = {};
  return unchanged;
}

void Trainer::Impl::score_reference(TrainMetrics& metrics) {
  const PhaseTimer phase(context, "train.reference", metrics.reference_ns);
  own_reference.assign(ordered.size(), {});
  reference_logprobs.assign(ordered.size(), {});
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> out;
  for (size_t i = 0; i < ordered.size(); ++i) {
    const Sample& s = *ordered[i]->sample;
    if (reference == &model && sampled_by_these_weights(items[i])) {  // N2
      reference_logprobs[i] = s.logprobs;
      continue;
    }
    reference_logprobs[i] = ordered[i]->ref_logprobs;
    if (!ordered[i]->ref_logprobs.empty() || items[i].rows == 0) continue;
    own_reference[i].resize(static_cast<size_t>(s.generated()));
    reference_logprobs[i] = own_reference[i];
    inputs.push_back(&s);
    out.emplace_back(own_reference[i]);
  }
  if (!inputs.empty()) batch_logprobs(*reference, inputs, out);
}

void Trainer::Impl::logprobs(const Model& which, std::span<const Sample* const> samples,
                             std::span<const std::span<float>> out) {
  if (&which == &model) learner.stage();
  which.bring_weights();
  std::vector<PackItem> all;
  for (const Sample* s : samples) {
    const auto index = static_cast<int32_t>(all.size());
    all.push_back(make_pack_item(*s, index, WantedTokens::kGenerated));
  }
  const PackRules rules = forward_rules(options, which, forward_of(which));
  MicroBatch batch;
  for (const auto& some : plan_micro_batches(all, rules)) {
    batch.fill(some, rules, WantedTokens::kGenerated);
    pass.score(which, batch, [&](const HeadChunk& chunk) {
      for (size_t i = 0; i < chunk.wanted.size(); ++i)
        out[chunk.wanted[i].item][chunk.wanted[i].generated] = chunk.logprobs[i];
    });
  }
  share_logprobs(out);
}

void Trainer::Impl::prepare(TrainMetrics& metrics) {
  const PhaseTimer phase(context, "train.prepare", metrics.prepare_ns);
  learner.prepare();
}

bool Trainer::Impl::sampled_by_these_weights(const PackItem& item) const {
  const Sample& s = *item.sample;
  if (learner.unpublished() || lacks_logprobs(s)) return false;
  for (size_t g = 0; g < s.versions.size(); ++g) {
    const bool same = s.versions[g] == model.version() && !s.has_mixed_kv(static_cast<int64_t>(g));
    if (s.loss_mask[g] != 0 && !same) return false;
  }
  return true;
}

// The weights have not changed since the step began, so the stored log-probs of samples they
// generated are what a forward would compute (N2).
void Trainer::Impl::score_proximal(TrainMetrics& metrics) {
  proximal_logprobs.assign(ordered.size(), {});
  if (!is_rl(options.objective)) return;
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> out;
  for (const PackItem& item : items) {
    if (!options.correction.decoupled || item.rows == 0 || sampled_by_these_weights(item)) {
      metrics.rows_not_scored += item.rows;
      continue;
    }
    std::vector<float>& own = proximal_logprobs[static_cast<size_t>(item.index)];
    own.resize(static_cast<size_t>(item.sample->generated()));
    inputs.push_back(item.sample);
    out.emplace_back(own);
  }
  metrics.proximal_samples = static_cast<int64_t>(inputs.size());
  if (inputs.empty()) return;
  const PhaseTimer phase(context, "train.old_log_prob", metrics.proximal_ns);
  batch_logprobs(model, inputs, out);
}

void Trainer::Impl::score_current(std::span<const PackItem> some, TrainMetrics& metrics) {
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> out;
  for (const PackItem& item : some) {
    const std::span<float> current = minibatch_tokens.current(item.index);
    if (item.rows == 0 || sampled_by_these_weights(item)) {
      std::ranges::copy(item.sample->logprobs, current.begin());
      continue;
    }
    inputs.push_back(item.sample);
    out.push_back(current);
  }
  if (inputs.empty()) return;
  const PhaseTimer phase(context, "train.current_log_prob", metrics.current_ns);
  batch_logprobs(model, inputs, out);
}

MinibatchTokens::Source Trainer::Impl::source_of(const PackItem& item) const {
  const auto index = static_cast<size_t>(item.index);
  const TrainSample& s = *ordered[index];
  MinibatchTokens::Source source{item.sample, 1, {}, {}, s.carries_loss};
  if (is_rl(options.objective)) {
    const std::vector<float>& proximal = proximal_logprobs[index];
    source.advantage = s.advantage;
    source.token_advantages = s.token_advantages;
    source.old_logprobs = proximal.empty() ? item.sample->logprobs : proximal;
  }
  if (options.objective == Objective::kDpo) source.ref_logprobs = reference_logprobs[index];
  return source;
}

// Masks, corrections and weights of a minibatch; returns the number of tokens that carry loss.
int64_t Trainer::Impl::gather(std::span<const PackItem> some, TrainMetrics& metrics) {
  minibatch_tokens.begin(some.empty() ? 0 : some.front().index);
  for (const PackItem& item : some) {
    minibatch_tokens.add(source_of(item));
  }
  if (needs_current_logprobs(options)) score_current(some, metrics);
  if (!is_rl(options.objective)) {
    const bool by_option = options.objective == Objective::kSft;
    return minibatch_tokens.set_weights(by_option ? options.loss_agg : LossAgg::kTokenMean,
                                        options.loss_scale_factor, progress.whole);
  }
  sums.corrections.add(minibatch_tokens.correct(options.correction));
  return minibatch_tokens.set_weights(options.loss_agg, options.loss_scale_factor, progress.whole);
}

// Prepares a minibatch and plans its micro-batches; false if nothing in it carries loss.
bool Trainer::Impl::minibatch(std::span<const PackItem> some, TrainMetrics& metrics) {
  const bool fresh = !learner.unpublished() && metrics.minibatches == 0;
  int64_t wanted = 0;
  for (const PackItem& item : some) wanted += item.wanted;
  if (wanted == 0 || gather(some, metrics) == 0) return false;
  ++metrics.minibatches;
  prepare(metrics);
  minibatch_sums = {};
  non_finite.clear();
  if (is_minibatch_loss(options)) minibatch_loss();
  progress.fresh = fresh;
  progress.micro_batches = plan_micro_batches(own_part(some), training_rules(options, model));
  return true;
}

void Trainer::Impl::minibatch_loss() {
  TokenSums loss;
  loss.set_policy(options.policy_loss.kind == PolicyLoss::kCustom
                      ? minibatch_tokens.compute(custom_loss)
                      : minibatch_tokens.compute(options, learner.optimizer_steps()));
  loss.loss = loss.pg_loss;
  minibatch_preference = minibatch_tokens.preference();
  if (ranks.rank() != 0) return;  // it is the same on all of them, and counts once
  minibatch_sums.add(loss);
  if (!std::isfinite(loss.loss)) minibatch_tokens.find_non_finite(options, non_finite);
}

// Counts a micro-batch, made of these items.
void Trainer::Impl::count(const MicroBatch& batch, std::span<const PackItem> some,
                          TrainMetrics& metrics) const {
  if (ranks.counts_part()) {
    ++metrics.micro_batches;
    for (const PackItem& item : some) metrics.tokens += item.rows;
  }
  metrics.computed_rows += batch.rows();
  metrics.loss_tokens += static_cast<int64_t>(batch.wanted().size());
}

void Trainer::Impl::micro_batch(bool fresh, TrainMetrics& metrics) {
  if (options.distill.on_rows) teacher->forward(micro, metrics.teacher_ns);
  pass.train(learner.training(is_last_micro_batch()), micro,
             [&](const HeadChunk& chunk) {
               if (fresh) compare_logprobs(chunk, metrics);
               return chunk_loss(chunk);
             },
             {metrics.forward_ns, metrics.head_ns, metrics.backward_ns});
}

const float* Trainer::Impl::compare_rows(const HeadChunk& chunk) {
  distill_value.assign(chunk.wanted.size(), 0.0);
  if (!options.distill.on_rows) return nullptr;
  distill_weight.clear();
  for (const WantedRow& w : chunk.wanted) {
    const size_t t = minibatch_tokens.index(w.item, w.generated);
    distill_weight.push_back(minibatch_tokens.weight(t));
  }
  return teacher->compare(chunk, options.distill, distill_weight, distill_value);
}

HeadGradient Trainer::Impl::chunk_loss(const HeadChunk& chunk) {
  terms.clear();
  const float* const d_tempered = compare_rows(chunk);
  const bool given = is_minibatch_loss(options), has_ratio = is_rl(options.objective);
  for (size_t i = 0; i < chunk.wanted.size(); ++i) {
    const WantedRow& w = chunk.wanted[i];
    const size_t t = minibatch_tokens.index(w.item, w.generated);
    const float reference_logprob =
        options.kl_in_loss ? reference_logprobs[w.item][w.generated] : 0.0f;
    const float old_logprob = has_ratio ? minibatch_tokens.old_logprob(t) : chunk.logprobs[i];
    terms.push({w.item, chunk.logprobs[i], old_logprob, reference_logprob, chunk.entropies[i],
                minibatch_tokens.advantage(t), minibatch_tokens.weight(t),
                has_ratio ? minibatch_tokens.correction(t) : 1,
                given ? minibatch_tokens.gradient(t) : 0, distill_value[i]});
  }
  const TokenSums chunk_sums = terms.compute(options);
  if (!std::isfinite(chunk_sums.loss)) terms.find_non_finite(options, non_finite);
  minibatch_sums.add(chunk_sums);
  return {terms.d_logprob(), terms.d_entropy(), d_tempered};
}

void Trainer::Impl::compare_logprobs(const HeadChunk& chunk, TrainMetrics& metrics) {
  const double allowed = logprob_bound(options.context, model.compute_dtype());
  for (size_t i = 0; i < chunk.wanted.size(); ++i) {
    const WantedRow& w = chunk.wanted[i];
    const Sample& s = *ordered[w.item]->sample;
    if (s.logprobs.empty()) continue;
    sums.probabilities.add(s.logprobs[w.generated], chunk.logprobs[i]);
    if (s.versions[w.generated] != model.version() || s.has_mixed_kv(w.generated)) continue;
    ++metrics.logprob_compared_tokens;
    const double difference = logprob_difference(chunk.logprobs[i], s.logprobs[w.generated]);
    if (options.check_logprobs && difference > allowed)
      refuse_logprob(s, w.generated, chunk.logprobs[i]);
    metrics.logprob_max_abs_diff = std::max(metrics.logprob_max_abs_diff, difference);
  }
}

bool Trainer::Impl::count_loss() {
  if (!std::isfinite(minibatch_sums.loss)) return false;
  sums.tokens.add(minibatch_sums);
  if (is_pairs(options.objective)) sums.preference.add(minibatch_preference);
  ++sums.finite_losses;
  return true;
}

void Trainer::Impl::optimize(TrainMetrics& metrics) {
  const PhaseTimer phase(context, "train.optimizer", metrics.optimizer_ns);
  update_weights(count_loss(), metrics);
}

void Trainer::Impl::update_weights(bool finite_loss, TrainMetrics& metrics) {
  const Learner::Outcome outcome = learner.update(options, finite_loss);
  if (!outcome.applied) {
    ++metrics.skipped_steps;
    name_non_finite(metrics);
    return;
  }
  sums.grad_norm += outcome.grad_norm;
  ++sums.finite_norms;
  metrics.lr = outcome.lr;
  ++metrics.optimizer_steps;
}

void Trainer::Impl::name_non_finite(TrainMetrics& metrics) {
  for (const int32_t item : non_finite) {
    const uint64_t id = ordered[item]->sample->id;
    if (std::ranges::find(metrics.non_finite_samples, id) == metrics.non_finite_samples.end())
      metrics.non_finite_samples.push_back(id);
  }
}

uint64_t Trainer::Impl::publish(int64_t& ns) {
  if (!learner.unpublished()) return model.version();
  const PhaseTimer phase(context, "train.publish", ns);
  return learner.publish();
}

}  // namespace rl

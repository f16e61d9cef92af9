// One step of the critic, minibatch by minibatch. Sums run in the order of samples and tokens.
#include "train/critic.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"
#include "algo/moments.h"
#include "core/error.h"
#include "train/passes/pass_rules.h"

namespace rl {
namespace {

CriticOptions validated(const CriticOptions& options) {
  validate(options);
  return options;
}

}  // namespace

void validate(const CriticOptions& o) {
  validate(static_cast<const StepOptions&>(o));
  require_value(o.value_clip >= 0 && std::isfinite(o.value_clip), "algo.value_clip", o.value_clip,
                "a finite value of at least 0");
}

void for_each_metric(const CriticMetrics& m,
                     FunctionRef<void(const char* name, double value)> visit) {
  visit("critic/vf_loss", m.loss);
  visit("critic/vf_clipfrac", m.clip_fraction);
  visit("critic/vpred_mean", m.value);
  visit("critic/grad_norm", m.grad_norm);
  visit("critic/lr", m.lr);
  visit("critic/micro_batches", static_cast<double>(m.micro_batches));
  visit("critic/optimizer_steps", static_cast<double>(m.optimizer_steps));
  visit("critic/skipped_steps", static_cast<double>(m.skipped_steps));
  visit("critic/non_finite_samples", static_cast<double>(m.non_finite_samples.size()));
  visit("timing_s/update_critic", static_cast<double>(m.total_ns) * 1e-9);
}

TrainerSizes Critic::plan(const ModelConfig& config, const KvShape& kv,
                          const CriticOptions& options, int num_threads, const Device& device) {
  validate(options);
  return plan_learner({config, kv, num_threads, device}, options);
}

Critic::Critic(Model& model, const CriticOptions& options, std::byte* workspace,
               const TrainerTools& tools)
    : options_(validated(options)),
      context_{tools.tracer, tools.lane, tools.clock, tools.yield_point},
      ranks_(tools.ranks.divided_by(tools.context.size())),
      context_ranks_(tools.context),
      learner_(model, options_.trainable, options_.backward_packing, options_.optimizer,
               {tools.gradients, tools.ranks}),
      workspace_(shape_of(model), options, workspace, tools.host_workspace),
      pass_(workspace_, context_) {
  RL_CHECK(model.config().scalar_head);
  RL_CHECK(options_.context.ranks == context_ranks_.size());
  RL_CHECK(reinterpret_cast<uintptr_t>(workspace) % ArenaPlan::kAlignment == 0);
}

void Critic::set_options(const CriticOptions& options) {
  validate(options);
  require_same_sizes(options_, options);
  options_ = options;
}

void Critic::values(std::span<const Sample* const> samples, std::span<const std::span<float>> out) {
  learner_.publish();  // publishes what a step that failed between optimizer steps left behind
  const Model& model = learner_.model();
  RL_CHECK(out.size() == samples.size());
  std::vector<PackItem> all;
  for (size_t i = 0; i < samples.size(); ++i) {
    check_sequence(*samples[i], forward_limits(options_, model, ForwardOf::kOwn));
    check_token_array(*samples[i], "values", out[i].size());
    all.push_back(make_pack_item(*samples[i], static_cast<int32_t>(i), WantedTokens::kGenerated));
  }
  run_together(ranks_, [&] { values_of(all, out); });
}

void Critic::values_of(std::span<const PackItem> items, std::span<const std::span<float>> out) {
  const Model& model = learner_.model();
  const PackRules rules = forward_rules(options_, model, ForwardOf::kOwn);
  for (const auto& values : out) std::ranges::fill(values, 0.0f);
  const std::vector<PackItem> own =
      items_of_part(items, rank_cut(), {ranks_.rank(), ranks_.size()});
  for (const auto& some : plan_micro_batches(own, rules)) {
    micro_.fill(some, rules, WantedTokens::kGenerated);
    pass_.score_values(model, micro_, [&](const ValueChunk& chunk) {
      for (size_t i = 0; i < chunk.wanted.size(); ++i)
        out[chunk.wanted[i].item][chunk.wanted[i].generated] = chunk.values[i];
    });
  }
  for (const auto& values : out) ranks_.fill(values);
}

RankCut Critic::rank_cut() const {
  const BatchRules& rules = options_.batch;
  return {.cost = rules.balance,
          .hidden_size = learner_.model().config().hidden,
          .whole_groups = rules.whole_groups,
          .shared_prefix = rules.shared_prefix && rules.packed};
}

void Critic::check(std::span<const CriticSample> samples) const {
  for (size_t i = 0; i < samples.size(); ++i) {
    const CriticSample& s = samples[i];
    if (s.sample == nullptr)
      throw Error(Code::kInvalidArgument, str("sample ", i, " of the critic's step is null"));
    check_trainable(*s.sample, training_limits(options_, learner_.model()));
    check_token_array(*s.sample, "old_values", s.old_values.size());
    check_token_array(*s.sample, "returns", s.returns.size());
  }
}

CriticMetrics Critic::step(std::span<const CriticSample> samples) {
  learner_.require_whole();
  check(samples);
  return run_together(ranks_, [&] { return run_step(samples); });
}

CriticMetrics Critic::run_step(std::span<const CriticSample> samples) {
  CriticMetrics metrics;
  const PhaseTimer phase(context_, "train.critic", metrics.total_ns);
  order_items(samples, WantedTokens::kLoss, ordered_, items_);
  step_sums_ = {};
  for_each_minibatch(options_, items_,
                     [&](std::span<const PackItem> some) { minibatch(some, metrics); });
  learner_.publish();
  learner_.state().free_gradients();
  finish(metrics);
  return metrics;
}

void Critic::minibatch(std::span<const PackItem> some, CriticMetrics& metrics) {
  LossDenominators denominators{.scale_factor = options_.loss_scale_factor};
  for (const PackItem& item : some) {
    denominators.num_tokens += item.wanted;
    denominators.num_sequences += item.wanted > 0;
  }
  if (denominators.num_tokens == 0) return;
  ++metrics.minibatches;
  learner_.prepare();
  minibatch_sums_ = {};
  non_finite_.clear();
  Model& model = learner_.model();
  const PackRules rules = training_rules(options_, model);
  const std::vector<PackItem> own =
      items_of_part(some, rank_cut(), {ranks_.part(), ranks_.parts()});
  const MicroBatchPlan parts = plan_micro_batches(own, rules);
  for (const auto& part : parts) {
    micro_.fill(part, rules, WantedTokens::kLoss);
    micro_.divide(options_.context, context_ranks_);
    metrics.micro_batches += ranks_.counts_part();
    pass_.train_values(learner_.training(&part == &parts.back()), micro_,
                       [&](const ValueChunk& chunk) { return chunk_loss(chunk, denominators); },
                       {metrics.forward_ns, metrics.head_ns, metrics.backward_ns});
  }
  join_minibatch();
  optimize(metrics);
}

void Critic::join_minibatch() {
  if (ranks_.alone()) return;
  learner_.state().start_sums();
  Sums all;
  for (const Sums& part : ranks_.gather(minibatch_sums_)) {
    all.loss += part.loss;
    all.values += part.values;
    all.tokens += part.tokens;
    all.clipped += part.clipped;
  }
  minibatch_sums_ = all;
  non_finite_ = ranks_.gather_lists<int32_t>(non_finite_);
  learner_.state().sum_over_ranks();
}

std::span<const float> Critic::chunk_loss(const ValueChunk& chunk,
                                          const LossDenominators& denominators) {
  old_values_.clear();
  returns_.clear();
  weights_.clear();
  for (const WantedRow& w : chunk.wanted) {
    const CriticSample& s = *ordered_[static_cast<size_t>(w.item)];
    const int64_t length = items_[static_cast<size_t>(w.item)].wanted;
    old_values_.push_back(s.old_values[static_cast<size_t>(w.generated)]);
    returns_.push_back(s.returns[static_cast<size_t>(w.generated)]);
    weights_.push_back(token_weight(options_.loss_agg, denominators, length));
  }
  gradient_.assign(chunk.wanted.size(), 0.0);
  const ValueLossSums sums =
      value_loss(options_.value_clip, {chunk.values, old_values_, returns_, weights_}, gradient_);
  minibatch_sums_.loss += sums.loss;
  minibatch_sums_.tokens += sums.num_tokens;
  minibatch_sums_.clipped += sums.num_clipped;
  for (const float v : chunk.values) minibatch_sums_.values += v;
  if (!std::isfinite(sums.loss)) find_non_finite(chunk);
  d_value_.assign(gradient_.begin(), gradient_.end());
  return d_value_;
}

void Critic::find_non_finite(const ValueChunk& chunk) {
  for (size_t i = 0; i < chunk.wanted.size(); ++i) {
    const double error = double{chunk.values[i]} - returns_[i];
    if (std::isfinite(error * error) && std::isfinite(old_values_[i])) continue;
    const int32_t item = chunk.wanted[i].item;
    if (std::ranges::find(non_finite_, item) == non_finite_.end()) non_finite_.push_back(item);
  }
}

void Critic::optimize(CriticMetrics& metrics) {
  const PhaseTimer phase(context_, "train.optimizer", metrics.optimizer_ns);
  const bool finite = std::isfinite(minibatch_sums_.loss);
  if (finite) {
    step_sums_.values += minibatch_sums_.values;
    step_sums_.tokens += minibatch_sums_.tokens;
    step_sums_.clipped += minibatch_sums_.clipped;
  }
  const Learner::Outcome outcome = learner_.update(options_, finite);
  if (!outcome.applied) {
    ++metrics.skipped_steps;
    for (const int32_t item : non_finite_)
      metrics.non_finite_samples.push_back(ordered_[static_cast<size_t>(item)]->sample->id);
    return;
  }
  step_sums_.loss += minibatch_sums_.loss;
  metrics.grad_norm += outcome.grad_norm;
  metrics.lr = outcome.lr;
  ++metrics.optimizer_steps;
}

void Critic::finish(CriticMetrics& metrics) const {
  int64_t micro_batches = 0;
  for (const int64_t count : ranks_.gather(metrics.micro_batches)) micro_batches += count;
  metrics.micro_batches = micro_batches;
  metrics.loss = mean_of(step_sums_.loss, metrics.optimizer_steps);
  metrics.grad_norm = mean_of(metrics.grad_norm, metrics.optimizer_steps);
  metrics.loss_tokens = step_sums_.tokens;
  metrics.value = mean_of(step_sums_.values, step_sums_.tokens);
  metrics.clip_fraction = mean_of(static_cast<double>(step_sums_.clipped), step_sums_.tokens);
}

}  // namespace rl

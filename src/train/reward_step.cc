// A minibatch of a reward model: the values of all responses, the loss of their pairs, backward.
// If every micro-batch has both responses of its pairs, the training pass itself provides the
// values; else a forward without gradients comes first, as it does if ranks divide the rows of a
// micro-batch.
#include <cmath>

#include "train/trainer_impl.h"

namespace rl {

void Trainer::Impl::score_values(std::span<const PackItem> some,
                                 FunctionRef<void(int32_t item, float value)> visit) {
  learner.stage();
  const PackRules rules = forward_rules(options, model, ForwardOf::kOwn);
  MicroBatch batch;
  for (const auto& part : plan_micro_batches(some, rules)) {
    batch.fill(part, rules, WantedTokens::kLast);
    pass.score_values(model, batch, [&](const ValueChunk& chunk) {
      for (size_t i = 0; i < chunk.wanted.size(); ++i) visit(chunk.wanted[i].item, chunk.values[i]);
    });
  }
}

bool Trainer::Impl::reward_minibatch(std::span<const PackItem> some, TrainMetrics& metrics) {
  if (some.empty()) return false;
  ++metrics.minibatches;
  prepare(metrics);
  minibatch_sums = {};
  non_finite.clear();
  pairs.begin(some.front().index, some.size());
  const std::vector<PackItem> own = own_part(some);
  progress.micro_batches = plan_micro_batches(own, training_rules(options, model));
  const bool divides = options.context.divides();
  if (!divides && keeps_pairs(progress.micro_batches)) return true;
  const PhaseTimer phase(context, "train.current_values", metrics.current_ns);
  score_values(divides ? own_forwards(some) : own,
               [&](int32_t item, float value) { pairs.set(item, value); });
  if (divides) ranks.fill(pairs.values());
  return true;
}

void Trainer::Impl::reward_minibatch_loss() {
  minibatch_preference = pairs.sums();
  minibatch_sums.pg_loss = minibatch_preference.mean(minibatch_preference.loss);
  minibatch_sums.loss = minibatch_sums.pg_loss;
  if (!std::isfinite(minibatch_sums.loss)) pairs.find_non_finite(non_finite);
}

void Trainer::Impl::reward_micro_batch(TrainMetrics& metrics) {
  // Ranks that divide rows have all values already, the same on each, from whole samples; those of
  // a ring may differ.
  const bool has_values = options.context.divides();
  const auto loss = [&](const ValueChunk& chunk) -> std::span<const float> {
    for (size_t i = 0; i < chunk.wanted.size() && !has_values; ++i)
      pairs.set(chunk.wanted[i].item, chunk.values[i]);
    d_value.clear();
    for (const WantedRow& w : chunk.wanted)
      d_value.push_back(static_cast<float>(pairs.gradient(w.item)));
    return d_value;
  };
  pass.train_values(learner.training(is_last_micro_batch()), micro, loss,
                    {metrics.forward_ns, metrics.head_ns, metrics.backward_ns});
}

}  // namespace rl

// A training step on one stage of a model: a minibatch at a time, and what the last stage finds is
// told to all, so that each takes the same decisions.
#include <algorithm>

#include "train/passes/stage_pass.h"
#include "train/trainer_impl.h"

namespace rl {

void Trainer::Impl::train_on_stage() {
  StepProgress& p = progress;
  std::vector<MicroBatch> micros(p.micro_batches.size());
  for (size_t i = 0; i < micros.size(); ++i) {
    micros[i].fill(p.micro_batches[i], training_rules(options, model), WantedTokens::kLoss);
    micros[i].divide(options.context, context_ranks);
    count(micros[i], p.micro_batches[i], p.metrics);
  }
  p.next_micro_batch = micros.size();
  const auto loss = [&](const HeadChunk& chunk) {
    if (p.fresh) compare_logprobs(chunk, p.metrics);
    return chunk_loss(chunk);
  };
  StagePass(pass, learner.training(false), micros, loss,
            {p.metrics.forward_ns, p.metrics.head_ns, p.metrics.backward_ns})
      .run();
  stages.share(minibatch_sums);
  stages.share(non_finite);
}

void Trainer::Impl::share_logprobs(std::span<const std::span<float>> out) const {
  if (stages.alone()) return;
  std::vector<float> all;
  for (const std::span<float> values : out) all.insert(all.end(), values.begin(), values.end());
  stages.share(std::span(all));
  auto next = all.begin();
  for (const std::span<float> values : out) {
    std::copy_n(next, values.size(), values.begin());
    next += static_cast<ptrdiff_t>(values.size());
  }
}

// What only the last stage has found.
void Trainer::Impl::share_metrics(TrainMetrics& m) {
  if (stages.alone()) return;
  stages.share(m.logprob_compared_tokens);
  stages.share(m.logprob_max_abs_diff);
  stages.share(sums.probabilities);
}

}  // namespace rl

// A training step of several data-parallel ranks: which samples are this rank's, and what the ranks
// tell each other at the end of a minibatch and of the step.
#include <algorithm>
#include <cmath>

#include "core/hash.h"
#include "train/trainer_impl.h"

namespace rl {
namespace {

// What a rank's part of the batch adds to the metrics of a step.
struct PartMetrics {
  int64_t tokens, loss_tokens, computed_rows, micro_batches, compared;
  double max_abs_diff;
  ProbabilityPairs probabilities;
};

template <typename T>
void hash_values(Digest64& digest, std::span<const T> values) {
  digest.update_u64(values.size());
  digest.update(std::as_bytes(values));
}

}  // namespace

uint64_t Trainer::Impl::digest_of(std::span<const TrainSample> samples) const {
  Digest64 digest;
  for (const TrainSample& s : samples) {
    digest.update_u64(s.sample->ordinal);
    digest.update_u64(s.sample->slot);
    digest.update_u64(static_cast<uint64_t>(s.sample->prompt_tokens));
    digest.update_u64(s.carries_loss ? 1 : 0);
    hash_values<int32_t>(digest, s.sample->ids);
    hash_values<float>(digest, s.sample->logprobs);
    hash_values<uint8_t>(digest, s.sample->loss_mask);
    // What decides which forwards are made.
    hash_values<uint64_t>(digest, s.sample->versions);
    hash_values<uint8_t>(digest, s.sample->mixed_kv);
    hash_values<float>(digest, s.ref_logprobs);
    hash_values<float>(digest, s.token_advantages);
    hash_values<double>(digest, std::span(&s.advantage, 1));
  }
  return digest.value();
}

RankCut Trainer::Impl::rank_cut() const {
  const BatchRules& rules = options.batch;
  return {.cost = rules.balance,
          .hidden_size = model.config().hidden,
          .whole_groups = rules.whole_groups,
          .shared_prefix = rules.shared_prefix && rules.packed,
          .together = samples_together(options.objective)};
}

std::vector<PackItem> Trainer::Impl::own_part(std::span<const PackItem> some) const {
  return items_of_part(some, rank_cut(), {ranks.part(), ranks.parts()});
}

std::vector<PackItem> Trainer::Impl::own_forwards(std::span<const PackItem> some) const {
  return items_of_part(some, rank_cut(), {ranks.rank(), ranks.size()});
}

void Trainer::Impl::batch_logprobs(const Model& which, std::span<const Sample* const> samples,
                                   std::span<const std::span<float>> out) {
  if (ranks.alone()) return logprobs(which, samples, out);
  std::vector<PackItem> items;
  std::vector<size_t> offsets = {0};
  for (size_t i = 0; i < samples.size(); ++i) {
    items.push_back(make_pack_item(*samples[i], static_cast<int32_t>(i), WantedTokens::kGenerated));
    offsets.push_back(offsets.back() + out[i].size());
  }
  std::vector<float> all(offsets.back(), 0.0f);
  const auto values_of = [&](size_t i) {
    return std::span(all).subspan(offsets[i], out[i].size());
  };
  std::vector<const Sample*> own;
  std::vector<std::span<float>> own_out;
  for (const PackItem& item : own_forwards(items)) {
    own.push_back(item.sample);
    own_out.push_back(values_of(static_cast<size_t>(item.index)));
  }
  if (!own.empty()) logprobs(which, own, own_out);
  ranks.fill(all);
  for (size_t i = 0; i < out.size(); ++i) std::ranges::copy(values_of(i), out[i].begin());
}

// After the last micro-batch: from here on all ranks have the sums of all of them.
void Trainer::Impl::join_minibatch() {
  if (ranks.alone()) return;
  const PhaseTimer phase(context, "train.reduce", progress.metrics.optimizer_ns);
  learner.state().start_sums();
  if (scores()) {
    if (!options.context.divides()) ranks.fill(pairs.values());
  } else {
    TokenSums all;
    for (const TokenSums& part : ranks.gather(minibatch_sums)) all.add(part);
    minibatch_sums = all;
    non_finite = ranks.gather_lists<int32_t>(non_finite);
  }
  learner.state().sum_over_ranks();
}

void Trainer::Impl::join_metrics(TrainMetrics& m) {
  if (ranks.alone()) return;
  const PartMetrics own{m.tokens,
                        m.loss_tokens,
                        m.computed_rows,
                        m.micro_batches,
                        m.logprob_compared_tokens,
                        m.logprob_max_abs_diff,
                        sums.probabilities};
  m.tokens = m.loss_tokens = m.computed_rows = m.micro_batches = m.logprob_compared_tokens = 0;
  sums.probabilities = {};
  for (const PartMetrics& part : ranks.gather(own)) {
    m.tokens += part.tokens;
    m.loss_tokens += part.loss_tokens;
    m.computed_rows += part.computed_rows;
    m.micro_batches += part.micro_batches;
    m.logprob_compared_tokens += part.compared;
    m.logprob_max_abs_diff = std::max(m.logprob_max_abs_diff, part.max_abs_diff);
    sums.probabilities.add(part.probabilities);
  }
}

}  // namespace rl

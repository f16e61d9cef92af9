// Filters groups and takes replacement prompts. A dropped group is reported to the host like any
// other.
#include <algorithm>

#include "algo/batching/filters.h"
#include "core/error.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {
namespace {

// Why a group's scores are filtered out; empty if they pass.
std::string why_filtered(const PipelineSettings& o, std::span<const double> scores) {
  if (o.filter == PipelineFilter::kMean) {
    const DynamicFilter range{o.filter_low, o.filter_high};
    if (passes(range, scores)) return {};
    return str("its mean reward is ", moments_of(scores, {}).mean,
               ", not within pipeline.filter_low = ", range.low,
               " and pipeline.filter_high = ", range.high);
  }
  if (o.filter == PipelineFilter::kNone || !has_no_spread(scores, o.filter_spread)) return {};
  return str("its rewards spread no more than pipeline.filter_spread = ", o.filter_spread);
}

// Calls f(ordinal, first, count) for each group of the batch.
template <typename F>
void for_each_group(std::span<const ScoreBoard::Scored> batch, const F& f) {
  for (size_t first = 0; first < batch.size();) {
    size_t end = first;
    while (end < batch.size() && batch[end].sample->ordinal == batch[first].sample->ordinal) ++end;
    f(batch[first].sample->ordinal, first, end - first);
    first = end;
  }
}

}  // namespace

// The greedy response of remax does not count as a member of its group here.
int64_t Pipeline::Impl::drop_filtered() {
  const auto size = static_cast<size_t>(settings.pipeline.samples_per_prompt);
  return scoring.drop_filtered([&](std::span<const ScoreBoard::Scored> batch) {
    std::vector<Scoring::Rejected> out;
    for_each_group(batch, [&](uint64_t ordinal, size_t first, size_t count) {
      std::vector<double> scores;
      for (size_t i = first; i < first + std::min(count, size); ++i)
        scores.push_back(batch[i].reward);
      std::string why = why_filtered(settings.pipeline, scores);
      if (!why.empty()) out.push_back({ordinal, std::move(why)});
    });
    return out;
  });
}

int64_t Pipeline::Impl::drop_zero_advantages() {
  if (!settings.pipeline.discard_zero_advantage) return 0;
  return scoring.drop_filtered([&](std::span<const ScoreBoard::Scored> batch) {
    const ScoredLists lists(batch);
    ScoredBatch scored{lists.samples, lists.scores};
    scored.parts = lists.parts;
    const std::vector<double> advantages =
        outcome_advantages(phases.update().advantage_options(), scored);
    std::vector<Scoring::Rejected> out;
    for_each_group(batch, [&](uint64_t ordinal, size_t first, size_t count) {
      if (!is_zero_advantage(std::span(advantages).subspan(first, count))) return;
      out.push_back({ordinal, "all its advantages are 0"});
    });
    return out;
  });
}

// Called when every open group is scored. Training follows unless filtered groups are to be
// replaced.
PipelineState Pipeline::Impl::filter_groups() {
  const int64_t dropped = drop_filtered();
  this_step.filtered.score += dropped;
  this_step.filtered.missing += dropped;
  scoring.push_dropped();
  const int64_t rounds = settings.pipeline.filter_max_rounds;
  if (this_step.filtered.missing > 0 && (rounds == 0 || this_step.filtered.rounds < rounds)) {
    const PipelineState next = refill();
    if (next != PipelineState::kTraining) return next;
  }
  this_step.filtered.zero_advantage += drop_zero_advantages();
  scoring.push_dropped();
  return PipelineState::kTraining;
}

// Takes prompts for the missing groups, as many as there are. Training follows if there will be no
// more; waits if a feed is only empty for now.
PipelineState Pipeline::Impl::refill() {
  const PromptSupply::Drawn more =
      prompts.draw_some(progress.boundary.cursor + this_step.drawn, this_step.filtered.missing);
  if (more.prompts.empty()) return more.ended ? PipelineState::kTraining : PipelineState::kScoring;
  ++this_step.filtered.rounds;
  this_step.filtered.missing -= static_cast<int64_t>(more.prompts.size());
  submit_groups(more.prompts);
  return PipelineState::kGenerating;
}

}  // namespace rl

// Advantages are computed from the batch as it would be trained on.
#include "pipeline/loop/group_filter.h"

#include <algorithm>

#include "algo/batching/filters.h"
#include "core/error.h"
#include "pipeline/update/batch_advantages.h"

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
void for_each_group(std::span<const SamplePtr> batch, const F& f) {
  for (size_t first = 0; first < batch.size();) {
    size_t end = first;
    while (end < batch.size() && batch[end]->ordinal == batch[first]->ordinal) ++end;
    f(batch[first]->ordinal, first, end - first);
    first = end;
  }
}

}  // namespace

// The greedy response of remax does not count as a member of its group here.
FlowJudged GroupFilter::commit_by_score() {
  const auto size = static_cast<size_t>(settings_.pipeline.samples_per_prompt);
  const FlowJudged judged = scoring_.commit_groups([&](std::span<const double> rewards) {
    return why_filtered(settings_.pipeline, rewards.first(std::min(rewards.size(), size)));
  });
  scoring_.push_dropped();
  return judged;
}

int64_t GroupFilter::drop_zero_advantages(int64_t step_groups) {
  if (!settings_.pipeline.discard_zero_advantage) return 0;
  const int64_t dropped =
      scoring_.drop_filtered(step_groups, [&](std::span<const SamplePtr> batch) {
        const ScoredLists lists(batch);
        ScoredBatch scored{lists.samples, lists.scores};
        scored.parts = lists.parts;
        const std::vector<double> advantages =
            outcome_advantages(phases_.update().advantage_options(), scored);
        std::vector<GroupStore::Rejected> out;
        for_each_group(batch, [&](uint64_t ordinal, size_t first, size_t count) {
          if (!is_zero_advantage(std::span(advantages).subspan(first, count))) return;
          out.push_back({ordinal, "all its advantages are 0"});
        });
        return out;
      });
  scoring_.push_dropped();
  return dropped;
}

}  // namespace rl

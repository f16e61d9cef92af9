#include "pipeline/groups/group_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

// Tokens before the last change of weights.
void mask_older_tokens(Sample& sample) {
  if (sample.versions.empty()) return;
  const uint64_t last = sample.versions.back();
  for (size_t t = 0; t < sample.versions.size(); ++t) {
    if (sample.versions[t] != last) sample.loss_mask[t] = 0;
  }
}

}  // namespace

void GroupStore::commit(uint64_t ordinal, bool mask) {
  std::vector<SamplePtr> group = board_.hand_over(ordinal);
  if (mask) std::ranges::for_each(group, [](const SamplePtr& s) { mask_older_tokens(*s); });
  buffer_.put_all(std::move(group));
}

FlowJudged GroupStore::commit_all(FunctionRef<std::string(std::span<const double>)> why_dropped,
                                  bool mask) {
  FlowJudged judged;
  for (const uint64_t ordinal : board_.complete()) {
    std::string why = why_dropped(board_.rewards(ordinal));
    if (why.empty()) {
      commit(ordinal, mask);
      ++judged.kept;
    } else {
      board_.drop(ordinal, DropReason::kFiltered, std::move(why));
      ++judged.filtered;
    }
  }
  return judged;
}

int64_t GroupStore::drop_filtered(int64_t max_groups, Filter filter) {
  std::vector<SamplePtr> batch;
  buffer_.visit([&](const Group& group) {
    if (max_groups-- > 0) batch.insert(batch.end(), group.samples.begin(), group.samples.end());
  });
  std::vector<Rejected> rejected = filter(batch);
  for (Rejected& group : rejected) {
    buffer_.erase(group.ordinal);
    board_.drop(group.ordinal, DropReason::kFiltered, std::move(group.why));
  }
  return static_cast<int64_t>(rejected.size());
}

int64_t GroupStore::drop_older_than(uint64_t version) {
  std::map<uint64_t, uint64_t> stale;  // oldest versions by ordinal
  buffer_.visit([&](const Group& group) {
    uint64_t oldest = kUnknownVersion;
    for (const SamplePtr& s : group.samples) oldest = std::min(oldest, oldest_version(*s));
    if (oldest < version) stale[group.ordinal] = oldest;
  });
  for (const auto& [ordinal, oldest] : stale) {
    buffer_.erase(ordinal);
    board_.drop(ordinal, DropReason::kStale,
                str("it has tokens of version ", oldest, ", and pipeline.max_staleness allows ",
                    version, " or later"));
  }
  return static_cast<int64_t>(stale.size());
}

std::vector<SamplePtr> GroupStore::take(int64_t max_groups) {
  std::vector<SamplePtr> batch = buffer_.take(max_groups);
  board_.reserve(batch);
  return batch;
}

void GroupStore::give_back(std::vector<SamplePtr> batch) {
  buffer_.put_all(std::move(batch));
  board_.unreserve();
}

void GroupStore::abandon(DropReason reason, const std::vector<SamplePtr>& aborted) {
  board_.abandon(reason, aborted);
  buffer_.clear();
}

}  // namespace rl

#include "pipeline/roles/store_claims.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

void require_known_weights(const Sample& s, uint64_t version) {
  for (const uint64_t of_token : s.versions) {
    if (of_token == kUnknownVersion || of_token <= version) continue;
    throw Error(Code::kFailedPrecondition,
                str(sample_name(s), " of the store has a token of version ", of_token,
                    ", but the weights are version ", version,
                    ": they are of another run, or training went back behind a checkpoint that "
                    "others have generated with"))
        .with_key("checkpoint.resume");
  }
}

}  // namespace

StoreClaims::StoreClaims(std::shared_ptr<ExperienceStore> store, const Rules& rules, Logger& logger)
    : group_size_(rules.group_size),
      logger_(logger),
      consumer_(std::move(store), rules.group_size, rules.group_size * rules.max_groups, true,
                rules.lease_ns) {}

void StoreClaims::resume(uint64_t step) {
  consumer_.resume(step);
  taken_.clear();
  collected_.clear();
  acknowledged_ = step;
}

// The oldest first: whoever generates relies on it (num_to_draw_ahead), and groups may come again
// in another order after a kill.
std::vector<SamplePtr> StoreClaims::take_samples(int64_t groups, uint64_t step) {
  const StoreCounts before = consumer_.counts();
  try {
    return consumer_.take({.max_groups = groups, .oldest_first = true}, step, 0);
  } catch (const Error& e) {
    const StoreCounts now = consumer_.counts();
    if (now.damaged == before.damaged || now.nameless != before.nameless) throw;
    if (e.key == "pipeline.samples_per_prompt") throw;
    logger_.log_error(LogLevel::kError, "pipeline", e);
    return {};
  }
}

void StoreClaims::collect(const Wanted& wanted) {
  const int64_t missing = wanted.groups - static_cast<int64_t>(collected_.size());
  if (missing <= 0) return;
  const std::vector<SamplePtr> samples = take_samples(missing, wanted.step);
  const auto size = static_cast<size_t>(group_size_);
  for (size_t i = 0; i < samples.size(); i += size) {
    const std::span<const SamplePtr> group = std::span(samples).subspan(i, size);
    for (const SamplePtr& s : group) require_known_weights(*s, wanted.version);
    collected_[key_of(group)] = {group.begin(), group.end()};
  }
}

std::vector<StoreClaims::Group> StoreClaims::numbered(std::vector<Group> groups,
                                                      uint64_t first_ordinal) {
  for (const Group& group : groups) {
    taken_[first_ordinal] = key_of(group);
    for (const SamplePtr& s : group) s->ordinal = first_ordinal;
    ++first_ordinal;
  }
  return groups;
}

std::vector<std::vector<SamplePtr>> StoreClaims::take(const Wanted& wanted) {
  collect(wanted);
  const bool complete = static_cast<int64_t>(collected_.size()) >= wanted.groups;
  const auto is_too_old = [&](const SamplePtr& s) { return oldest_version(*s) < wanted.oldest; };
  std::vector<Group> groups;
  for (auto it = collected_.begin(); it != collected_.end();) {
    if (!complete && std::ranges::none_of(it->second, is_too_old)) {
      ++it;
      continue;
    }
    groups.push_back(std::move(it->second));
    it = collected_.erase(it);
  }
  return numbered(std::move(groups), wanted.first_ordinal);
}

void StoreClaims::settle(FunctionRef<bool(uint64_t ordinal)> is_open) {
  std::vector<GroupKey> dropped;
  for (const auto& [ordinal, key] : taken_) {
    if (!is_open(ordinal)) dropped.push_back(key);
  }
  if (dropped.empty()) return;
  consumer_.finish(dropped);
  std::erase_if(taken_, [&](const auto& item) { return !is_open(item.first); });
}

void StoreClaims::end_step(std::span<const SamplePtr> batch) {
  for (const SamplePtr& s : batch) taken_.erase(s->ordinal);
}

void StoreClaims::acknowledge(uint64_t step) {
  if (step <= acknowledged_) return;
  consumer_.acknowledge(step);
  acknowledged_ = step;
}

}  // namespace rl

#include "pipeline/loop/flow_metrics.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "buffer/experience_buffer.h"
#include "core/clock.h"
#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/update/step_metrics.h"

namespace rl {

// A sample is as old as its oldest token that is trained on.
MetricList staleness_metrics(std::span<const SamplePtr> batch, uint64_t version) {
  constexpr std::array<const char*, 5> kAges = {"0", "1", "2", "3", "4_or_more"};
  std::array<double, kAges.size()> counts{};
  std::vector<double> ages;
  for (const SamplePtr& s : batch) {
    const uint64_t oldest = oldest_version(*s);
    if (oldest == kUnknownVersion) continue;
    RL_CHECK(oldest <= version);
    ages.push_back(static_cast<double>(version - oldest));
    ++counts[std::min<uint64_t>(version - oldest, kAges.size() - 1)];
  }
  MetricList m;
  set_spread(m, "pipeline/staleness", ages);
  for (size_t i = 0; i < kAges.size(); ++i) {
    m.set(str("pipeline/samples_by_staleness/", kAges[i]), counts[i]);
  }
  return m;
}

MetricList flow_metrics(const FlowGroups& groups, const StepRecord::Times& times) {
  MetricList m;
  m.set("pipeline/groups_in_flight", static_cast<double>(groups.unfinished.size()));
  m.set("pipeline/groups_queued", static_cast<double>(groups.complete.size()));
  m.set("timing_s/wait_for_batch", to_seconds(times.no_batch_ns));
  m.set("timing_s/wait_for_rollout", to_seconds(times.unpublished_ns));
  return m;
}

namespace {

// A trace keeps names as pointers.
const char* drop_counter(size_t reason) {
  static const auto& names = *new std::array<std::string, kNumDropReasons>([] {
    std::array<std::string, kNumDropReasons> out;
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = str("pipeline.dropped.", drop_reason_name(static_cast<DropReason>(i)));
    }
    return out;
  }());
  return names[reason].c_str();
}

}  // namespace

void trace_flow(const Tracer& tracer, const FlowGroups& groups, const LedgerCounts& ledger) {
  const auto count = [&](const char* name, size_t value) {
    tracer.counter(name, TraceLane::kPipeline, static_cast<double>(value));
  };
  count("pipeline.groups_in_flight", groups.unfinished.size());
  count("pipeline.groups_queued", groups.complete.size());
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    if (ledger.prompts_dropped[i] == 0) continue;
    count(drop_counter(i), static_cast<size_t>(ledger.prompts_dropped[i]));
  }
}

}  // namespace rl

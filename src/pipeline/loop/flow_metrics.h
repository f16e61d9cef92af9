// Metrics of a step of a pipeline that generates ahead: how old the samples are, what waits, and
// who waited.
#pragma once
#include <cstdint>
#include <span>

#include "buffer/ledger.h"
#include "core/trace.h"
#include "data/sample.h"
#include "pipeline/flow/flow_rules.h"
#include "pipeline/loop/step_record.h"
#include "profile/metrics.h"

namespace rl {

// version: of the weights that the step trained.
MetricList staleness_metrics(std::span<const SamplePtr> batch, uint64_t version);
MetricList flow_metrics(const FlowGroups& groups, const StepRecord::Times& times);
// Counters of a trace: groups in flight and queued, and those dropped since the run began, by
// reason.
void trace_flow(const Tracer& tracer, const FlowGroups& groups, const LedgerCounts& ledger);

}  // namespace rl

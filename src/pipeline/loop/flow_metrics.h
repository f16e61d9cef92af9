// Metrics of a step of a pipeline that generates ahead: how old the samples are, what waits, and
// who waited.
#pragma once
#include <cstdint>
#include <span>

#include "data/sample.h"
#include "pipeline/flow/flow_rules.h"
#include "pipeline/loop/step_record.h"
#include "profile/metrics.h"

namespace rl {

// version: of the weights that the step trained.
MetricList staleness_metrics(std::span<const SamplePtr> batch, uint64_t version);
MetricList flow_metrics(const FlowGroups& groups, const StepRecord::Times& times);

}  // namespace rl

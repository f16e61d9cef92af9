// Metrics of the rollout, of engines and of the requests they served. Telescope and vLLM measure
// the same quantities. All depend on the clock or on the size of the KV pool, so their names begin
// with "perf/" and "timing_s/"; times are in seconds.
#pragma once
#include <cstdint>
#include <span>

#include "data/sample.h"
#include "profile/metrics.h"
#include "rollout/engine_stats.h"

namespace rl {

// Metrics of one interval of one engine.
MetricList interval_metrics(int64_t engine, const EngineStats& interval);
// Metrics of the engines' work in a step: their counts before and after it.
MetricList rollout_metrics(const EngineStats& before, const EngineStats& after);
// How long samples waited, prefilled and decoded, and how often they were preempted.
MetricList request_metrics(std::span<const SamplePtr> samples);

}  // namespace rl

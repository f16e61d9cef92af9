// Metrics of the rollout, of engines and of the requests that went through them. Telescope and vLLM
// measure the same quantities. All hang on the clock or on the size of the KV pool, so their names
// stand under "perf/" and "timing_s/", times in seconds.
#pragma once
#include <cstdint>
#include <span>

#include "data/sample.h"
#include "profile/metrics.h"
#include "rollout/engine_stats.h"

namespace rl {

// Of an interval of one engine.
MetricList interval_metrics(int64_t engine, const EngineStats& interval);
// Of what engines did in a step: their counts before and after it.
MetricList rollout_metrics(const EngineStats& before, const EngineStats& after);
// How long samples waited, were computed and drew tokens, and how often they gave way.
MetricList request_metrics(std::span<const SamplePtr> samples);

}  // namespace rl

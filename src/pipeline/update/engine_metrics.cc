// Intervals and steps use the same names for the same quantities.
#include "pipeline/update/engine_metrics.h"

#include <vector>

#include "core/clock.h"
#include "pipeline/update/step_metrics.h"
#include "profile/metrics_writer.h"

namespace rl {
namespace {

double mean_seconds(int64_t sum_ns, int64_t count) { return ratio(sum_ns, count) * 1e-9; }

void set_count(MetricList& m, const char* name, int64_t value) {
  m.set(name, static_cast<double>(value));
}

}  // namespace

MetricList interval_metrics(int64_t engine, const EngineStats& s) {
  MetricList m;
  set_count(m, kEngineMetric, engine);
  m.set("timing_s/engine/interval", to_seconds(s.busy_ns));
  set_count(m, "perf/engine/running", s.running);
  set_count(m, "perf/engine/waiting", s.waiting);
  m.set("perf/engine/kv_use", ratio(s.blocks_in_use, s.blocks_total));
  m.set("perf/engine/kv_use_peak", ratio(s.blocks_peak, s.blocks_total));
  set_count(m, "perf/engine/preemptions", s.preemptions);
  m.set("perf/engine/prefix_hit_rate", ratio(s.cached_tokens, s.looked_up_tokens));
  set_count(m, "perf/engine/admitted", s.admitted);
  set_count(m, "perf/engine/finished", s.finished);
  set_count(m, "perf/engine/prefill_tokens", s.prefill_tokens);
  set_count(m, "perf/engine/decode_tokens", s.decode_tokens);
  set_count(m, "perf/engine/mixed_kv_tokens", s.mixed_kv_tokens);
  m.set("perf/engine/tokens_per_s", ratio(s.generated_tokens, s.busy_ns) * 1e9);
  m.set("timing_s/engine/prefill", to_seconds(s.prefill_ns));
  m.set("timing_s/engine/decode", to_seconds(s.decode_ns));
  m.set("timing_s/request/queue/mean", mean_seconds(s.queue_ns, s.admitted));
  m.set("timing_s/request/queue/max", to_seconds(s.longest_queue_ns));
  m.set("timing_s/request/first_token/mean", mean_seconds(s.first_token_ns, s.first_tokens));
  m.set("timing_s/request/first_token/max", to_seconds(s.longest_first_token_ns));
  return m;
}

MetricList rollout_metrics(const EngineStats& before, const EngineStats& after) {
  const auto more = [&](int64_t EngineStats::*field) { return after.*field - before.*field; };
  MetricList m;
  m.set("perf/engine/kv_use_peak", ratio(after.blocks_peak, after.blocks_total));
  set_count(m, "perf/engine/preemptions", more(&EngineStats::preemptions));
  m.set("perf/engine/prefix_hit_rate",
        ratio(more(&EngineStats::cached_tokens), more(&EngineStats::looked_up_tokens)));
  m.set("timing_s/engine/prefill", to_seconds(more(&EngineStats::prefill_ns)));
  m.set("timing_s/engine/decode", to_seconds(more(&EngineStats::decode_ns)));
  return m;
}

MetricList request_metrics(std::span<const SamplePtr> samples) {
  std::vector<double> queue, first_token, prefill, decode, preemptions;
  for (const SamplePtr& s : samples) {
    queue.push_back(to_seconds(s->admitted_ns - s->submitted_ns));
    first_token.push_back(to_seconds(s->first_token_ns - s->submitted_ns));
    prefill.push_back(to_seconds(s->first_token_ns - s->admitted_ns));
    decode.push_back(to_seconds(s->finished_ns - s->first_token_ns));
    preemptions.push_back(s->preemptions);
  }
  MetricList m;
  set_spread(m, "timing_s/request/queue", queue);
  set_spread(m, "timing_s/request/first_token", first_token);
  set_spread(m, "timing_s/request/prefill", prefill);
  set_spread(m, "timing_s/request/decode", decode);
  set_spread(m, "perf/request/preemptions", preemptions);
  return m;
}

}  // namespace rl

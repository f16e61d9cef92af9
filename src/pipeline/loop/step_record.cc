// Metrics of a step that follow from its times and counts.
#include "pipeline/loop/step_record.h"

#include <string_view>

#include "core/clock.h"
#include "core/error.h"
#include "pipeline/update/engine_metrics.h"

namespace rl {
namespace {

double rate(double count, int64_t ns) { return ns > 0 ? count / to_seconds(ns) : 0; }

// As in verl: generation per generated token, everything else per token of prompts and responses.
void set_times_per_token(MetricList& m, double generated, double all) {
  for (const char* phase : {"gen", "ref", "values", "adv", "update_critic", "update_actor"}) {
    const auto spent = m.get(str("timing_s/", phase));
    const double tokens = std::string_view(phase) == "gen" ? generated : all;
    if (spent && tokens > 0) m.set(str("timing_per_token_ms/", phase), *spent * 1e3 / tokens);
  }
}

}  // namespace

MetricList StepRecord::Filtered::metrics() const {
  MetricList m;
  const auto count = [&](const char* name, int64_t v) { m.set(name, static_cast<double>(v)); };
  count("pipeline/groups_filtered/score", score);
  count("pipeline/groups_filtered/zero_advantage", zero_advantage);
  count("pipeline/groups_filtered/not_replaced", missing);
  count("pipeline/filter_rounds", rounds);
  return m;
}

MetricList StepRecord::generation_metrics(const EngineStats& engine) const {
  MetricList m;
  const auto count = [&](const char* name, int64_t v) { m.set(name, static_cast<double>(v)); };
  count("rollout/prefill_tokens", engine.prefill_tokens - engine_before.prefill_tokens);
  count("rollout/decode_tokens", engine.decode_tokens - engine_before.decode_tokens);
  m.append(rollout_metrics(engine_before, engine));
  m.set("timing_s/gen", to_seconds(times.generating_ns));
  m.set("timing_s/reward", to_seconds(times.scoring_ns));
  return m;
}

void StepRecord::set_times(MetricList& m, int64_t now_ns, bool generates) const {
  const double samples = trained.get("training/samples").value_or(0);
  const double generated = trained.get("response_length/mean").value_or(0) * samples;
  const double prompts = trained.get("prompt_length/mean").value_or(0) * samples;
  const int64_t total_ns = now_ns - times.begin;
  m.set("timing_s/train", to_seconds(times.training_ns));
  m.set("timing_s/step", to_seconds(total_ns));
  set_times_per_token(m, generated, prompts + generated);
  m.set("perf/total_num_tokens", prompts + generated);
  m.set("perf/throughput", rate(prompts + generated, total_ns));
  if (generates) m.set("perf/rollout_tokens_per_s", rate(generated, times.generating_ns));
  m.set("perf/train_tokens_per_s",
        rate(trained.get("training/tokens").value_or(0), times.training_ns));
}

}  // namespace rl

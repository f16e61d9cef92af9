// Sums run in batch order, so equal batches give equal bits.
#include "pipeline/step_metrics.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace rl {

std::vector<double> batch_advantages(const AdvantageParams& params,
                                     std::span<const SamplePtr> samples,
                                     std::span<const double> rewards) {
  RL_CHECK(samples.size() == rewards.size());
  std::vector<int32_t> group(samples.size());
  for (size_t i = 1; i < samples.size(); ++i) {
    group[i] = group[i - 1] + (samples[i]->ordinal != samples[i - 1]->ordinal);
  }
  std::vector<double> advantages(samples.size());
  group_advantages(params, rewards, group, advantages);
  return advantages;
}

void set_spread(MetricList& metrics, std::string_view prefix, std::span<const double> values) {
  double sum = 0, most = 0, least = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    most = i == 0 ? values[i] : std::max(most, values[i]);
    least = i == 0 ? values[i] : std::min(least, values[i]);
  }
  const double count = static_cast<double>(std::max<size_t>(1, values.size()));
  metrics.set(str(prefix, "/mean"), sum / count);
  metrics.set(str(prefix, "/max"), most);
  metrics.set(str(prefix, "/min"), least);
}

MetricList batch_metrics(const BatchFigures& batch) {
  MetricList out;
  set_spread(out, "critic/rewards", batch.rewards);
  set_spread(out, "critic/advantages", batch.advantages);
  std::vector<double> prompts, answers;
  double cut = 0;
  for (const SamplePtr& s : batch.samples) {
    prompts.push_back(s->prompt_tokens);
    answers.push_back(static_cast<double>(s->generated()));
    cut += s->finish == FinishReason::kLength;
  }
  set_spread(out, "prompt_length", prompts);
  set_spread(out, "response_length", answers);
  const double count = static_cast<double>(std::max<size_t>(1, batch.samples.size()));
  out.set("response_length/clip_ratio", cut / count);
  return out;
}

MetricList train_metrics(const TrainMetrics& metrics) {
  MetricList out;
  for_each_metric(metrics, [&](const char* name, double value) { out.set(name, value); });
  return out;
}

}  // namespace rl

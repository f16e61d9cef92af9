// Sums run in batch order, so equal batches give equal bits.
#include "pipeline/update/step_metrics.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace rl {

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

namespace {

std::vector<double> at_loss_tokens(std::span<const uint8_t> mask, std::span<const double> values) {
  std::vector<double> out;
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) out.push_back(values[t]);
  }
  return out;
}

}  // namespace

MetricList length_metrics(std::span<const SamplePtr> samples) {
  MetricList out;
  std::vector<double> prompts, responses;
  for (const SamplePtr& s : samples) {
    prompts.push_back(s->prompt_tokens);
    responses.push_back(static_cast<double>(s->generated()));
  }
  set_spread(out, "prompt_length", prompts);
  set_spread(out, "response_length", responses);
  double tokens = 0;
  for (const SamplePtr& s : samples) tokens += static_cast<double>(s->ids.size());
  for (const char* name : {"min", "max", "mean", "balanced_min", "balanced_max"}) {
    out.set(str("global_seqlen/", name), tokens);
  }
  out.set("global_seqlen/minmax_diff", 0);
  return out;
}

namespace {

double num_turns(const Sample& s) {
  double turns = 1;
  for (size_t t = 0; t < s.loss_mask.size(); ++t) {
    turns += t == 0 || s.loss_mask[t] != s.loss_mask[t - 1];
  }
  return turns;
}

void set_turns(std::span<const SamplePtr> samples, MetricList& out) {
  std::vector<double> turns;
  double aborted = 0;
  for (const SamplePtr& s : samples) {
    turns.push_back(num_turns(*s));
    aborted += s->generated() == 0;
  }
  out.set("response/aborted_ratio",
          aborted / static_cast<double>(std::max<size_t>(1, samples.size())));
  set_spread(out, "num_turns", turns);
}

}  // namespace

MetricList batch_metrics(const BatchFigures& batch) {
  const BatchAdvantages& a = batch.advantages;
  MetricList out;
  set_spread(out, "critic/score", batch.scores);
  set_spread(out, "critic/rewards", a.rewards);
  set_spread(out, "critic/advantages", at_loss_tokens(a.mask, a.advantages));
  set_spread(out, "critic/returns", at_loss_tokens(a.mask, a.returns));
  out.append(length_metrics(batch.samples));
  set_turns(batch.samples, out);
  double cut = 0;
  for (const SamplePtr& s : batch.samples) cut += s->finish == FinishReason::kLength;
  const double count = static_cast<double>(std::max<size_t>(1, batch.samples.size()));
  out.set("response_length/clip_ratio", cut / count);
  out.set("pipeline/samples_masked/overlong", static_cast<double>(a.masked_overlong));
  out.set("pipeline/samples_masked/repetition", static_cast<double>(a.masked_repetitive));
  return out;
}

MetricList value_metrics(const BatchAdvantages& a, std::span<const std::vector<float>> values) {
  constexpr double kEps = 1e-5;
  std::vector<double> flat;
  for (const std::vector<float>& of_sample : values) {
    flat.insert(flat.end(), of_sample.begin(), of_sample.end());
  }
  const std::vector<double> value = at_loss_tokens(a.mask, flat);
  const std::vector<double> target = at_loss_tokens(a.mask, a.returns);
  std::vector<double> error;
  for (size_t t = 0; t < value.size(); ++t) error.push_back(target[t] - value[t]);
  const auto spread = [](const std::vector<double>& v) { return variance(moments_of(v, {}), 1); };
  MetricList out;
  set_spread(out, "critic/values", value);
  const bool known = value.size() > 1;
  out.set("critic/vf_explained_var", known ? 1 - spread(error) / (spread(target) + kEps) : 0);
  return out;
}

MetricList train_metrics(const TrainMetrics& metrics) {
  MetricList out;
  for_each_metric(metrics, [&](const char* name, double value) { out.set(name, value); });
  return out;
}

MetricList traffic_metrics(const Traffic& traffic) {
  MetricList out;
  const auto set = [&](const char* name, uint64_t bytes) {
    out.set(name, static_cast<double>(bytes));
  };
  set("comm/sent_bytes", traffic.total().sent);
  set("comm/received_bytes", traffic.total().received);
  set("comm/gradient_bytes", traffic.of(TrafficUse::kGradients).sent);
  set("comm/parameter_bytes", traffic.of(TrafficUse::kParameters).sent);
  set("comm/activation_bytes", traffic.of(TrafficUse::kActivations).sent);
  set("comm/context_bytes", traffic.of(TrafficUse::kContext).sent);
  set("comm/tensor_bytes", traffic.of(TrafficUse::kTensor).sent);
  set("comm/weight_bytes", traffic.of(TrafficUse::kWeights).sent);
  set("comm/between_groups_bytes", traffic.between.sent);
  set("comm/overlapped_bytes", traffic.overlapped.sent);
  return out;
}

}  // namespace rl

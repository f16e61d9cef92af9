// The metrics of a training step, named like verl's. Pure functions of the batch and of what
// trainer and engine measured.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/sample.h"
#include "pipeline/update/batch_advantages.h"
#include "profile/metrics.h"
#include "train/losses/train_metrics.h"

namespace rl {

// prefix/mean, prefix/max, prefix/min; zeros for no values.
void set_spread(MetricList& metrics, std::string_view prefix, std::span<const double> values);

// prompt_length and response_length, and global_seqlen: the tokens that each device has before and
// after balancing, which on one device is all of them.
MetricList length_metrics(std::span<const SamplePtr> samples);

struct BatchFigures {
  std::span<const SamplePtr> samples;
  std::span<const double> scores;
  const BatchAdvantages& advantages;
};
// critic/score as the host gave it and critic/rewards after shaping, of samples; critic/advantages
// and critic/returns of loss tokens; prompt_length, response_length, global_seqlen;
// response/aborted_ratio, samples without any generated token; num_turns, the prompt and every run
// of tokens that all carry loss or all do not; samples without loss.
MetricList batch_metrics(const BatchFigures& batch);
// critic/values and critic/vf_explained_var of loss tokens: 1 - var(R - V) / (var(R) + 1e-5).
MetricList value_metrics(const BatchAdvantages& advantages,
                         std::span<const std::vector<float>> values);
MetricList train_metrics(const TrainMetrics& metrics);

}  // namespace rl

// The metrics of a training step, named like verl's. Pure functions of the batch and of what
// trainer and engine measured.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "comm/traffic.h"
#include "data/sample.h"
#include "pipeline/update/batch_advantages.h"
#include "profile/metrics.h"
#include "train/losses/train_metrics.h"

namespace rl {

// prefix/mean, prefix/max, prefix/min; zeros for no values.
void set_spread(MetricList& metrics, std::string_view prefix, std::span<const double> values);

// prompt_length and response_length, and global_seqlen: the tokens of each device before and after
// balancing, which on one device is all of them.
MetricList length_metrics(std::span<const SamplePtr> samples);

struct BatchFigures {
  std::span<const SamplePtr> samples;
  std::span<const double> scores;
  const BatchAdvantages& advantages;
};
// critic/score (as the host gave it) and critic/rewards (after shaping), over samples;
// critic/advantages and critic/returns, over loss tokens; prompt_length, response_length,
// global_seqlen; response/aborted_ratio, samples without any generated token; num_turns, counting
// the prompt and each run of tokens with equal loss mask; samples without loss.
MetricList batch_metrics(const BatchFigures& batch);
// critic/values and critic/vf_explained_var over loss tokens: 1 - var(R - V) / (var(R) + 1e-5).
MetricList value_metrics(const BatchAdvantages& advantages,
                         std::span<const std::vector<float>> values);
MetricList train_metrics(const TrainMetrics& metrics);
// comm/..., of what a rank exchanged.
MetricList traffic_metrics(const Traffic& traffic);

}  // namespace rl

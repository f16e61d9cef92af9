// The metrics of a training step, named like verl's. Pure functions of the batch and of what
// trainer and engine measured.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "algo/advantage.h"
#include "data/sample.h"
#include "profile/metrics.h"
#include "train/train_metrics.h"

namespace rl {

// Advantages of a batch in (ordinal, slot) order; samples of one ordinal are a group.
std::vector<double> batch_advantages(const AdvantageParams& params,
                                     std::span<const SamplePtr> samples,
                                     std::span<const double> rewards);

// prefix/mean, prefix/max, prefix/min; zeros for no values.
void set_spread(MetricList& metrics, std::string_view prefix, std::span<const double> values);

struct BatchFigures {
  std::span<const SamplePtr> samples;
  std::span<const double> rewards, advantages;
};
// critic/rewards, critic/advantages, prompt_length, response_length.
MetricList batch_metrics(const BatchFigures& batch);
MetricList train_metrics(const TrainMetrics& metrics);

}  // namespace rl

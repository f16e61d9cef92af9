// One training step on a device, for comparisons between devices.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_pass.h"
#include "train/train_rig.h"

namespace rl::testing {

inline TrainerOptions step_options() {
  TrainerOptions o;
  o.max_tokens = 200;
  o.logprob_chunk_tokens = 64;
  o.schedule.lr = 1e-3;
  return o;
}

inline TrainRig rig_on(const Device& device, const std::string& model, Dtype dtype = Dtype::kF32,
                       const TrainableRule& trainable = {}) {
  TrainerOptions o = step_options();
  o.trainable = trainable;
  return TrainRig({.model = fixture_path(model), .compute = dtype, .device = device}, o);
}

struct Trained {
  TrainMetrics metrics;
  std::vector<float> gradients, update;  // update: of the masters
  std::vector<float> logprobs;           // of all samples, before the step
};

// One step on samples with fixed tokens and the device's own log-probs.
inline Trained train(TrainRig rig) {
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 11);
  store_logprobs(rig, samples);
  Trained out;
  for (const Sample& s : samples)
    out.logprobs.insert(out.logprobs.end(), s.logprobs.begin(), s.logprobs.end());
  const std::vector<float> before = rig.masters();
  out.metrics = rig.trainer->step(with_advantages(samples));
  out.gradients = rig.gradients();
  out.update = rig.masters();
  for (size_t i = 0; i < before.size(); ++i) out.update[i] -= before[i];
  return out;
}

// Whole rows of a teacher of another family.
inline Trained distill_on_rows(const Device& device) {
  TrainerOptions o = step_options();
  o.objective = Objective::kDistill;
  o.distill = {true, {DistillKl::kReverse, 0.5}, 1.0};
  TrainRig rig({.teacher = "qwen2", .device = device}, o);
  std::vector<Sample> samples = random_samples(4, rig.model().config().vocab, 13, 0.7f);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch;
  for (const Sample& s : samples) batch.push_back({&s, 0.0, {}, {}});
  Trained out;
  out.metrics = rig.trainer->step(batch);
  out.gradients = rig.gradients();
  return out;
}

}  // namespace rl::testing

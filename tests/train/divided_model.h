// What rigs of models that several ranks divide have in common.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "model/whole_tensors.h"
#include "support/compare_values.h"
#include "train/engine_samples.h"
#include "train/train_rig.h"

namespace rl::testing {

// Several micro-batches in a minibatch, and several head chunks in a micro-batch.
inline TrainerOptions options_of(double grad_clip = 0.5) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.grad_clip = grad_clip;
  return o;
}

// All weights in the order of files; of stages the first one has them.
inline std::vector<float> all_weights(const Model& model, const WholeTensors& whole) {
  std::vector<float> out;
  if (model.stage_ranks().rank() != 0) return out;
  for (const TensorInfo& t : expected_tensors(model.whole_config())) {
    std::vector<float> values(static_cast<size_t>(t.rows() * t.cols()));
    whole.read(t, 0, values);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// Samples of an engine: prefill in chunks, decode, and the log-probs of a training forward, which
// are the same.
inline std::vector<Sample> sampled_and_computed(TrainRig& rig) {
  std::vector<Sample> samples = sample_with_engine(rig.model(), {4, 8, 1.0f});
  const std::vector<Sample> sampled = samples;
  store_logprobs(rig, samples);
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_TRUE(same_bits(samples[i].logprobs, sampled[i].logprobs));
  return samples;
}

inline void expect_same_samples(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ids, b[i].ids);
    EXPECT_TRUE(same_bits(a[i].logprobs, b[i].logprobs));
  }
}

}  // namespace rl::testing

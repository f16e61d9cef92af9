// Forward, head and backward of whole sequences on one device, for comparisons between devices.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "model/value_head.h"
#include "reference_device.h"
#include "support/tiny_model.h"

namespace rl::testing {

// The fixture models that have a language-model head.
inline const std::vector<std::string>& device_fixtures() {
  static const std::vector<std::string> names = {"llama",
                                                 "llama_bf16",
                                                 "llama_rope_linear",
                                                 "llama_rope_llama3",
                                                 "llama_rope_yarn",
                                                 "llama_rope_yarn_sharded",
                                                 "smollm2",
                                                 "qwen2",
                                                 "qwen3",
                                                 "mistral",
                                                 "gemma3",
                                                 "tiny_llama_half.gguf",
                                                 "tiny_llama_mixed.gguf",
                                                 "tiny_qwen2_mixed.gguf"};
  return names;
}
inline std::string fixture_path(const std::string& model) {
  return model.ends_with(".gguf") ? std::string(RL_FIXTURES) + "/gguf/" + model
                                  : TinyModel::fixture(model);
}
inline std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
}

inline TinyModel on_device(const Device& device, const std::string& path, Dtype dtype,
                           ModelHead head = ModelHead::kLogits) {
  return TinyModel(path, {make_thread_executor(1), device}, dtype, ModelOptions{.block_size = 16},
                   head);
}

struct ModelPass {
  std::vector<float> logits;  // (rows, V)
  std::vector<float> entropies;
  std::vector<float> gradients;  // flat; of the mean negative log-prob of all predicted tokens
};

inline ModelPass run_pass(const TinyModel& tiny,
                          const std::vector<std::vector<int32_t>>& sequences) {
  const Model& model = *tiny.model;
  const Dtype dtype = model.compute_dtype();
  const TrainingBatch batch(tiny, sequences);
  const int64_t n = batch.rows();
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  Compute& compute = *tiny.compute;
  const Arena arena("test head", HeadBuffers::bytes(model.config(), dtype, n, true), Touch::kNow,
                    place_on(compute));
  HeadBuffers head(model.config(), dtype, n, true, arena.data());
  std::vector<int32_t> rows(static_cast<size_t>(n)), targets(rows.size(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  gather_rows(model, batch.buffers->hidden, rows, head);
  const std::vector<float> one(rows.size(), 1.0f), zero(rows.size(), 0.0f);
  head_forward(model, one, head);
  ModelPass out{values_on(compute, head.z, n * head.vocab), {}, {}};
  for (const RowStats& row : values_on(compute, head.stats, n)) {
    out.entropies.push_back(row.entropy);
  }
  const DeviceArray gradients(
      compute, std::vector<float>(static_cast<size_t>(model.layout().total()), 0.0f));
  std::vector<float> d_logprob = zero;
  const auto predicted = static_cast<float>(n - static_cast<int64_t>(sequences.size()));
  for (const SequenceRows& s : batch.slices()) {
    for (int32_t row = s.first_row; row + 1 < s.first_row + s.rows; ++row) {
      targets[static_cast<size_t>(row)] = batch.ids()[static_cast<size_t>(row) + 1];
      d_logprob[static_cast<size_t>(row)] = -1.0f / predicted;
    }
  }
  BackwardWeights packed(model, BackwardPacking::kResident);
  packed.prepare();
  head_backward(model, {packed, targets, one, d_logprob, zero, gradients.data()}, head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, gradients.data(), head.d_hidden});
  out.gradients = gradients.values();
  return out;
}

// Three sequences, one of them as long as the model's positions allow.
inline std::vector<std::vector<int32_t>> sequences_for(const ModelConfig& config) {
  std::mt19937 rng(3);
  std::vector<std::vector<int32_t>> out;
  for (const int64_t length : {5, 37, 300}) {
    out.emplace_back(static_cast<size_t>(std::min(length, config.max_position)));
    for (int32_t& id : out.back())
      id = static_cast<int32_t>(rng() % static_cast<unsigned>(config.vocab));
  }
  return out;
}

// Values of every row, and the gradients of hidden states and head for all of them.
inline std::vector<float> value_pass(const TinyModel& tiny) {
  const Model& model = *tiny.model;
  const TrainingBatch batch(tiny, sequences_for(model.config()));
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  std::vector<int32_t> rows(static_cast<size_t>(batch.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  const auto hidden = static_cast<size_t>(model.config().hidden);
  std::vector<float> values(rows.size());
  const DeviceArray d_hidden(*tiny.compute, std::vector<float>(rows.size() * hidden, 0.0f)),
      grads(*tiny.compute, std::vector<float>(static_cast<size_t>(model.layout().total()), 0.0f));
  value_forward(model, batch.buffers->hidden, rows, values);
  const std::vector<float> d_value(rows.size(), 1.0f / static_cast<float>(rows.size()));
  value_backward(model, {batch.buffers->hidden, rows, d_value, d_hidden.data(), grads.data()});
  for (const float v : d_hidden.values()) values.push_back(v);
  const std::vector<float> all = grads.values();
  const auto head = all.begin() + model.layout().head();
  values.insert(values.end(), head, head + static_cast<std::ptrdiff_t>(hidden));
  return values;
}

// The largest difference; infinite if sizes differ or a value is not finite.
inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= most)) most = std::isnan(difference) ? INFINITY : difference;
  }
  return most;
}

}  // namespace rl::testing

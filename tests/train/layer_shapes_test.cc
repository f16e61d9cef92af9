// Models whose layers differ in heads, KV heads, MLP width and window: engine and trainer agree bit
// for bit, gradients are derivatives of the loss, and memory is the sum over the layers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine_samples.h"
#include "support/layered_model.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

struct LayeredRig {
  LayeredRig(const ModelConfig& config, int threads, int64_t slice_width = 0,
             const ActivationRule& activations = {})
      : tiny(LayeredSource(config), make_thread_executor(threads), Dtype::kF32,
             ModelOptions{.block_size = 16, .slice_width = slice_width}) {
    options.max_tokens = 256;
    options.schedule.lr = 1e-3;
    options.grad_clip = 0;
    options.activations = activations;
    const TrainerSizes sizes =
        Trainer::plan(tiny.model->config(), tiny.model->kv_shape(), options, threads);
    workspace = Arena("test workspace", sizes.workspace);
    host_workspace = Arena("test host workspace", sizes.host_workspace);
    trainer = std::make_unique<Trainer>(*tiny.model, nullptr, options, workspace.data(),
                                        TrainerTools{.host_workspace = host_workspace.data()});
  }
  // The mean log-prob of the generated tokens.
  double mean_logprob(const std::vector<Sample>& samples) {
    double sum = 0, count = 0;
    for (const Sample& s : samples) {
      std::vector<float> logprobs(static_cast<size_t>(s.generated()));
      const Sample* one[] = {&s};
      const std::span<float> out[] = {logprobs};
      trainer->logprobs(one, out);
      for (const float l : logprobs) sum += l;
      count += static_cast<double>(logprobs.size());
    }
    return sum / count;
  }

  TinyModel tiny;
  TrainerOptions options;
  Arena workspace, host_workspace;
  std::unique_ptr<Trainer> trainer;
};

class LayerShapes : public ::testing::TestWithParam<int> {
 protected:
  ModelConfig config() const {
    return GetParam() == 0 ? layered_config() : layered_normed_config();
  }
};
INSTANTIATE_TEST_SUITE_P(Models, LayerShapes, ::testing::Values(0, 1),
                         [](const auto& info) { return info.param == 0 ? "biases" : "norms"; });

TEST_P(LayerShapes, SampledLogprobsEqualTheTrainers) {
  for (const auto& [threads, slice_width] : {std::pair<int, int64_t>{1, 0}, {3, 48}}) {
    LayeredRig rig(config(), threads, slice_width);
    for (const int64_t chunk : {1, 7, 64}) {
      const std::vector<Sample> samples = sample_with_engine(*rig.tiny.model, {16, chunk, 0.7f});
      const TrainMetrics m = rig.trainer->step(with_advantages(samples));
      EXPECT_EQ(m.logprob_max_abs_diff, 0.0) << threads << " threads, chunk " << chunk;
      EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
      EXPECT_GT(m.loss_tokens, 4);
      EXPECT_LT(m.computed_rows, m.tokens);  // prompts were computed once for their samples
    }
  }
}

TEST_P(LayerShapes, GradientsDoNotDependOnThreads) {
  std::vector<std::vector<float>> gradients;
  for (const int threads : {1, 3}) {
    LayeredRig rig(config(), threads);
    const std::vector<Sample> samples = sample_with_engine(*rig.tiny.model, {16, 64, 1.0f});
    rig.trainer->step(with_advantages(samples));
    const auto g = rig.trainer->gradients();
    gradients.emplace_back(g.begin(), g.end());
  }
  EXPECT_TRUE(same_bits(gradients[0], gradients[1]));
}

// Four layers: values that layers share in memory have the size of the largest.
TEST_P(LayerShapes, WhatIsComputedAgainHasTheBitsOfWhatIsKept) {
  const auto gradients_with = [&](const ActivationRule& rule) {
    LayeredRig rig(config(), 1, 0, rule);
    const std::vector<Sample> samples = sample_with_engine(*rig.tiny.model, {16, 64, 1.0f});
    rig.trainer->step(with_advantages(samples));
    const auto g = rig.trainer->gradients();
    return std::vector<float>(g.begin(), g.end());
  };
  const std::vector<float> kept = gradients_with({});
  for (const int64_t layers : {1, 2, 3, 4}) {
    for (const RecomputeMethod method : {RecomputeMethod::kUniform, RecomputeMethod::kBlock}) {
      for (const bool offload : {false, true}) {
        const ActivationRule rule = {.granularity = RecomputeGranularity::kFull,
                                     .method = method,
                                     .num_layers = layers,
                                     .offload = offload};
        EXPECT_TRUE(same_bits(gradients_with(rule), kept))
            << layers << " layers, method " << static_cast<int>(method) << ", offload " << offload;
      }
    }
  }
  const ActivationRule parts = {.granularity = RecomputeGranularity::kSelective,
                                .qkv = true,
                                .attention = true,
                                .mlp = true,
                                .offload = true};
  EXPECT_TRUE(same_bits(gradients_with(parts), kept));
}

// Central differences along the gradient of each parameter. Steps of 0.02 give differences of the
// loss of at least 2e-4, a hundred times what fp32 rounds; the curvature leaves some percent.
TEST_P(LayerShapes, GradientsAreDerivativesOfTheLoss) {
  constexpr double kStep = 0.02, kLeastNorm = 0.005, kTolerance = 0.1;
  LayeredRig rig(config(), 2);
  Model& model = *rig.tiny.model;
  const std::vector<Sample> samples = sample_with_engine(model, {16, 64, 1.0f});
  std::vector<TrainSample> batch;
  for (const Sample& s : samples) batch.push_back({&s, 1.0, {}, {}});
  const std::vector<float> start(model.master(), model.master() + model.layout().total());
  rig.trainer->step(batch);  // loss: minus the mean ratio, with the derivative of -mean_logprob
  const auto g = rig.trainer->gradients();
  const auto loss_at = [&](const Parameter& p, double scale) {
    std::ranges::copy(start, model.master());
    for (int64_t i = p.offset; i < p.offset + p.size; ++i)
      model.master()[i] += static_cast<float>(scale * g[static_cast<size_t>(i)]);
    model.publish();
    return -rig.mean_logprob(samples);
  };
  std::map<std::string, int> checked;  // by layer
  for (const Parameter& p : model.layout().parameters()) {
    double squares = 0;
    for (int64_t i = p.offset; i < p.offset + p.size; ++i)
      squares += std::pow(g[static_cast<size_t>(i)], 2);
    const double norm = std::sqrt(squares);
    if (norm < kLeastNorm) continue;
    const double scale = kStep / norm;
    const double slope = (loss_at(p, scale) - loss_at(p, -scale)) / (2 * kStep);
    EXPECT_NEAR(slope, norm, kTolerance * norm) << p.name;
    ++checked[p.name.substr(0, sizeof "model.layers.0" - 1)];
  }
  for (int64_t l = 0; l < model.config().layers; ++l)
    EXPECT_GE(checked[str("model.layers.", l)], 5) << "layer " << l;
}

TEST(LayerShape, EqualShapesGiveTheBitsOfAUniformModel) {
  ModelConfig alike = uniform_config();
  for (int64_t l = 0; l < alike.layers; ++l) alike.own_layers.push_back(uniform_config().layer(l));
  std::vector<std::vector<float>> masters;
  for (const ModelConfig& c : {uniform_config(), alike}) {
    LayeredRig rig(c, 2);
    const Model& model = *rig.tiny.model;
    rig.trainer->step(with_advantages(sample_with_engine(model, {16, 64, 1.0f})));
    masters.emplace_back(model.master(), model.master() + model.layout().total());
  }
  EXPECT_TRUE(same_bits(masters[0], masters[1]));
}

TEST(LayerShape, KeysAndPackedWeightsAreSummedOverTheLayers) {
  const ModelConfig c = layered_config();
  const KvFormat format{16, Dtype::kF32};
  uint64_t kv = 0, packed = 0;
  ModelConfig one = uniform_config();
  one.layers = 1;
  const uint64_t head = plan_forward_shapes(cpu_device(), one, Dtype::kF32).head.bytes;
  for (const LayerShape& shape : c.own_layers) {
    one.own_layers = {shape};
    kv += kv_shape(one, Dtype::kF32, format).block_bytes();
    packed += packed_bytes(plan_forward_shapes(cpu_device(), one, Dtype::kF32)) - head;
  }
  const KvShape all = kv_shape(c, Dtype::kF32, format);
  EXPECT_EQ(all.block_bytes(), kv);
  EXPECT_NE(all.layers[0].block_bytes(), all.layers[1].block_bytes());
  EXPECT_EQ(packed_bytes(plan_forward_shapes(cpu_device(), c, Dtype::kF32)), packed + head);
}

}  // namespace
}  // namespace rl::testing

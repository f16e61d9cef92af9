// What the backward computes again has the forward's bits: gradients, weights and metrics are those
// of a step that keeps everything, in less memory.
#include <gtest/gtest.h>

#include "critic_rig.h"
#include "group_rig.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "support/random_llama.h"
#include "support/seeded_model.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

ActivationRule selective(bool qkv, bool attention, bool mlp) {
  ActivationRule rule;
  rule.granularity = RecomputeGranularity::kSelective;
  rule.qkv = qkv;
  rule.attention = attention;
  rule.mlp = mlp;
  return rule;
}

ActivationRule with_residual(ActivationRule rule) {
  rule.residual = true;
  return rule;
}

ActivationRule full(RecomputeMethod method, int64_t layers) {
  ActivationRule rule;
  rule.granularity = RecomputeGranularity::kFull;
  rule.method = method;
  rule.num_layers = layers;
  return rule;
}

const std::vector<ActivationRule>& rules() {
  static const std::vector<ActivationRule> all = {selective(false, false, true),
                                                  selective(true, false, false),
                                                  selective(false, true, false),
                                                  selective(true, true, true),
                                                  with_residual(selective(false, false, false)),
                                                  with_residual(selective(true, true, true)),
                                                  full(RecomputeMethod::kUniform, 1),
                                                  full(RecomputeMethod::kUniform, 2),
                                                  full(RecomputeMethod::kUniform, 3),
                                                  full(RecomputeMethod::kUniform, 99),
                                                  full(RecomputeMethod::kBlock, 1),
                                                  full(RecomputeMethod::kBlock, 99)};
  return all;
}

std::string text_of(const ActivationRule& r) {
  return str("granularity ", static_cast<int>(r.granularity), " method ",
             static_cast<int>(r.method), " layers ", r.num_layers, " qkv ", r.qkv, " attention ",
             r.attention, " residual ", r.residual, " mlp ", r.mlp);
}

void expect_same(const Step& a, const Step& b) {
  EXPECT_TRUE(same_bits(a.gradients, b.gradients));
  EXPECT_TRUE(same_bits(a.masters, b.masters));
  EXPECT_EQ(a.metrics.loss, b.metrics.loss);
  EXPECT_EQ(a.metrics.logprob_max_abs_diff, 0.0);
}

// Plain, with biases, with head norms, and with sandwich norms and windows.
class Recompute : public ::testing::TestWithParam<std::tuple<std::string, Dtype>> {
 protected:
  void SetUp() override {
    if (std::get<1>(GetParam()) == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  RigOptions rig(int threads) const {
    return {.model = seeded_.path(), .compute = std::get<1>(GetParam()), .threads = threads};
  }
  const SeededModel seeded_{std::get<0>(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Shapes, Recompute,
                         ::testing::Combine(::testing::Values("llama_20", "qwen2_40", "qwen3_36",
                                                              "gemma3_24"),
                                            ::testing::ValuesIn(compute_dtypes())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  dtype_name(std::get<1>(info.param));
                         });

TEST_P(Recompute, EveryRuleLeavesGradientsAndWeights) {
  StepRules step_rules;
  step_rules.max_tokens = 333;
  const Step kept = step(rig(1), step_rules);
  ASSERT_GT(kept.metrics.micro_batches, 1);
  ASSERT_GT(kept.metrics.grad_norm, 0);
  for (const ActivationRule& rule : rules()) {
    SCOPED_TRACE(text_of(rule));
    step_rules.activations = rule;
    expect_same(step(rig(1), step_rules), kept);
  }
  step_rules.activations = full(RecomputeMethod::kUniform, 1);
  expect_same(step(rig(3), step_rules), kept);
}

TEST_P(Recompute, ALossWithFewLogitsAtATimeLeavesThemToo) {
  StepRules step_rules;
  for (const int64_t chunk : {50, 64, 100, 0}) {
    step_rules.chunk = chunk;
    step_rules.recompute_loss = false;
    const Step kept = step(rig(1), step_rules);
    step_rules.recompute_loss = true;
    expect_same(step(rig(1), step_rules), kept);
  }
}

// With 700 rows in one micro-batch, of which 512 go through an MLP first.
TEST_P(Recompute, ChunksOfTheMlpLeaveEveryBit) {
  StepRules step_rules;
  const Step kept = step(rig(1), step_rules);
  ASSERT_EQ(kept.metrics.micro_batches, 1);
  ASSERT_GT(kept.metrics.computed_rows, kMlpRowUnit);
  step_rules.mlp_chunk = kMlpRowUnit;
  expect_same(step(rig(3), step_rules), kept);
  for (const ActivationRule& rule : rules()) {
    SCOPED_TRACE(text_of(rule));
    step_rules.activations = rule;
    expect_same(step(rig(1), step_rules), kept);
  }
}

// Each chunk is an addition of its own, so gradients differ by their rounding.
TEST_P(Recompute, ChunksOfTheMlpLeaveLogprobsWithGradientsInBf16) {
  StepRules step_rules;
  step_rules.grad_dtype = GradDtype::kBf16;
  const Step whole = step(rig(1), step_rules);
  step_rules.mlp_chunk = kMlpRowUnit;
  const Step r = step(rig(1), step_rules);
  EXPECT_TRUE(same_bits(step(rig(3), step_rules).gradients, r.gradients));
  for (size_t i = 0; i < r.samples.size(); ++i)
    EXPECT_TRUE(same_bits(r.samples[i].logprobs, whole.samples[i].logprobs)) << i;
  EXPECT_EQ(r.metrics.loss, whole.metrics.loss);
  EXPECT_FALSE(same_bits(r.gradients, whole.gradients));
  EXPECT_LE(relative_l2(r.gradients, whole.gradients), 1e-2);
}

// Log-probs are those of any chunk; gradients are summed over chunks in another order.
TEST_P(Recompute, ChunksOfTheHeadLeaveLogprobs) {
  StepRules step_rules;
  step_rules.chunk = 0;
  const Step whole = step(rig(1), step_rules);
  for (const int64_t chunk : {1, 7, 64, 300}) {
    step_rules.chunk = chunk;
    const Step r = step(rig(1), step_rules);
    for (size_t i = 0; i < r.samples.size(); ++i)
      EXPECT_TRUE(same_bits(r.samples[i].logprobs, whole.samples[i].logprobs)) << i;
    EXPECT_EQ(r.metrics.logprob_max_abs_diff, 0.0);
    const double bound = std::get<1>(GetParam()) == Dtype::kF32 ? 1e-6 : 1e-2;
    EXPECT_LE(relative_l2(r.gradients, whole.gradients), bound) << chunk;
  }
}

TEST_P(Recompute, SequencesApartAndFrozenLayersAreLeftToo) {
  StepRules step_rules = without_sharing();
  step_rules.trainable.freeze = {"model.layers.0.*", "model.embed_tokens.weight"};
  const Step kept = step(rig(1), step_rules);
  for (const ActivationRule& rule : rules()) {
    SCOPED_TRACE(text_of(rule));
    step_rules.activations = rule;
    expect_same(step(rig(1), step_rules), kept);
  }
}

// Five layers: groups of two and three end with shorter ones.
class DeepRecompute : public ::testing::Test {
 protected:
  DeepRecompute() { write_random_llama(dir_.file("five"), {.layers = 5, .scale = 0.1f}); }
  RigOptions rig() const { return {.model = dir_.file("five")}; }
  const TempDir dir_;
};

TEST_F(DeepRecompute, GroupsOfAnySizeLeaveGradients) {
  StepRules step_rules;
  step_rules.max_tokens = 333;
  const Step kept = step(rig(), step_rules);
  for (int64_t layers = 1; layers <= 6; ++layers) {
    for (const RecomputeMethod method : {RecomputeMethod::kUniform, RecomputeMethod::kBlock}) {
      step_rules.activations = full(method, layers);
      SCOPED_TRACE(text_of(step_rules.activations));
      expect_same(step(rig(), step_rules), kept);
    }
  }
}

// The memory of the test is full of large floats, so an input that did not come back would show.
TEST_F(DeepRecompute, InputsThatWereAwayLeaveGradients) {
  StepRules step_rules;
  step_rules.max_tokens = 333;
  const Step kept = step(rig(), step_rules);
  std::vector<ActivationRule> all = rules();
  all.push_back({});
  for (ActivationRule& rule : all) {
    SCOPED_TRACE(text_of(rule));
    rule.offload = true;
    step_rules.activations = rule;
    expect_same(step(rig(), step_rules), kept);
  }
  step_rules.trainable.freeze = {"model.layers.0.*", "model.layers.1.*",
                                 "model.embed_tokens.weight"};
  step_rules.activations = {};
  const Step frozen = step(rig(), step_rules);
  for (const ActivationRule& rule : all) {
    step_rules.activations = rule;
    expect_same(step(rig(), step_rules), frozen);
  }
}

TEST_F(DeepRecompute, OffloadLeavesTwoInputsOnTheDevice) {
  TrainerOptions options;
  options.max_tokens = 64;
  struct Bytes {
    uint64_t saved, host;
  };
  const auto sizes = [&](const ActivationRule& rule) {
    options.activations = rule;
    const TrainerSizes all = TrainRig(rig(), options).sizes;
    EXPECT_EQ(all.workspace_regions.front().name, "saved activations");
    return Bytes{all.workspace_regions.front().bytes, all.host_workspace};
  };
  const uint64_t input = static_cast<uint64_t>(padded_rows(64)) * 32 * sizeof(float);
  ActivationRule rule;
  const Bytes kept = sizes(rule);
  EXPECT_EQ(kept.host, 0u);
  rule.offload = true;
  EXPECT_EQ(sizes(rule).host, 5 * input);
  EXPECT_EQ(kept.saved - sizes(rule).saved, 3 * input);
  rule = full(RecomputeMethod::kUniform, 2);
  const Bytes groups_kept = sizes(rule);
  rule.offload = true;
  EXPECT_EQ(sizes(rule).host, 3 * input);
  EXPECT_EQ(groups_kept.saved - sizes(rule).saved, input);
}

std::vector<float> critic_masters(const ActivationRule& rule) {
  CriticOptions options;
  options.max_tokens = 256;
  options.schedule.lr = 1e-3;
  options.activations = rule;
  CriticRig rig({.model = "qwen3"}, options);
  rig.fill_head(3);
  const std::vector<Sample> samples = groups(rig.model().config().vocab, 5);
  const std::vector<std::vector<float>> values = rig.values(samples);
  std::vector<std::vector<float>> returns = values;
  for (auto& of_sample : returns) {
    for (float& r : of_sample) r = 0.5f - r;
  }
  std::vector<CriticSample> batch;
  for (size_t i = 0; i < samples.size(); ++i) batch.push_back({&samples[i], values[i], returns[i]});
  EXPECT_EQ(rig.critic->step(batch).optimizer_steps, 1);
  return rig.masters();
}

TEST(RecomputeCritic, LeavesItsWeights) {
  const std::vector<float> kept = critic_masters({});
  for (ActivationRule rule : rules()) {
    EXPECT_TRUE(same_bits(critic_masters(rule), kept));
    rule.offload = true;
    EXPECT_TRUE(same_bits(critic_masters(rule), kept));
  }
}

ModelConfig four_layers() {
  ModelConfig c;
  c.vocab = 128;
  c.hidden = 64;
  c.layers = 4;
  c.heads = 2;
  c.kv_heads = 1;
  c.head_dim = 32;
  c.ffn = 192;
  return c;
}

// Bytes of one region of the workspace, for 4 layers of a plain model with fp32 activations.
uint64_t saved_bytes(const ModelConfig& config, const ActivationRule& rule) {
  return SavedActivations::bytes(config, Dtype::kF32, 64, rule);
}

TEST(RecomputeMemory, IsWhatTheRuleKeeps) {
  const ModelConfig c = four_layers();
  const auto rows = static_cast<uint64_t>(padded_rows(64));
  const uint64_t residual = rows * 64 * 4, q = rows * 64 * 4, lse = rows * 2 * 4,
                 gate_up = rows * 2 * 192 * 4;
  const uint64_t layer = 2 * residual + 2 * q + lse + gate_up;
  EXPECT_EQ(saved_bytes(c, {}), 4 * layer);
  // What is computed again exists once, as far as the forward's buffers do not have it.
  EXPECT_EQ(saved_bytes(c, selective(false, false, true)), 4 * layer - 3 * gate_up);
  EXPECT_EQ(saved_bytes(c, selective(true, false, false)), 4 * layer - 4 * q);
  EXPECT_EQ(saved_bytes(c, selective(false, true, false)), 4 * layer - 4 * q - 3 * lse);
  EXPECT_EQ(saved_bytes(c, with_residual(selective(false, false, false))),
            4 * layer - 4 * residual);
  const uint64_t last = lse + gate_up;
  EXPECT_EQ(saved_bytes(c, full(RecomputeMethod::kUniform, 1)), 4 * residual + last);
  EXPECT_EQ(saved_bytes(c, full(RecomputeMethod::kUniform, 2)),
            2 * residual + (layer - residual) + (residual + last));
  EXPECT_EQ(saved_bytes(c, full(RecomputeMethod::kUniform, 3)),
            2 * residual + (layer - residual) + layer + (residual + last));
  EXPECT_EQ(saved_bytes(c, full(RecomputeMethod::kBlock, 3)), 3 * residual + last + layer);
}

// Layers that are computed again have their keys and values where the group before had them.
TEST(RecomputeMemory, KeysAndValuesAreThoseOfTheLayersThatHaveThem) {
  const ModelConfig c = four_layers();
  const KvShape all = kv_shape(c, Dtype::kF32, {16, Dtype::kF32});
  const uint64_t layer = all.block_bytes() / 4;
  const auto held = [&](const ActivationRule& rule) {
    return training_kv(all, rule).block_bytes() / layer;
  };
  EXPECT_EQ(held({}), 4u);
  EXPECT_EQ(held(selective(false, true, true)), 4u);
  EXPECT_EQ(held(selective(true, false, false)), 1u);
  EXPECT_EQ(held(full(RecomputeMethod::kUniform, 1)), 1u);
  EXPECT_EQ(held(full(RecomputeMethod::kUniform, 2)), 2u);
  EXPECT_EQ(held(full(RecomputeMethod::kUniform, 3)), 3u);
  EXPECT_EQ(held(full(RecomputeMethod::kBlock, 3)), 2u);
  EXPECT_EQ(held(full(RecomputeMethod::kBlock, 99)), 1u);
  EXPECT_EQ(forward_kv(all).block_bytes(), layer);
}

// The largest layer decides where layers differ.
TEST(RecomputeMemory, APlaceIsAsLargeAsItsLargestLayer) {
  KvShape shape = kv_shape(four_layers(), Dtype::kF32, {16, Dtype::kF32});
  shape.layers[2].kv_heads = 2;
  const uint64_t large = shape.layers[2].block_bytes(), small = shape.layers[0].block_bytes();
  EXPECT_EQ(forward_kv(shape).block_bytes(), large);
  const KvShape pairs = training_kv(shape, full(RecomputeMethod::kUniform, 2));
  EXPECT_EQ(pairs.places, (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(pairs.block_bytes(), large + small);
}

// Gate and up exist for a chunk, unless the backward is to have them of every layer.
TEST(RecomputeMemory, ChunksOfTheMlpHoldItsWideValuesForFewRows) {
  const ModelConfig c = four_layers();
  const BatchLimits chunks(4096, 512, false), whole(4096, 4096, false);
  const uint64_t fewer = 4096 - 512, gate_up = 2 * 192 * 4;
  const auto saves = [&](const ActivationRule& rule) {
    return SavedActivations::bytes(c, Dtype::kF32, whole, rule) -
           SavedActivations::bytes(c, Dtype::kF32, chunks, rule);
  };
  EXPECT_EQ(saves({}), 0u);
  EXPECT_EQ(saves(selective(true, true, false)), 0u);
  EXPECT_EQ(saves(selective(false, false, true)), fewer * gate_up);
  EXPECT_EQ(saves(full(RecomputeMethod::kUniform, 1)), fewer * gate_up);
  const auto all = static_cast<uint64_t>(padded_rows(4096));
  EXPECT_EQ(saves(full(RecomputeMethod::kUniform, 2)), (all + fewer) * gate_up);
  const KvShape kv = kv_shape(c, Dtype::kF32, {16, Dtype::kF32});
  EXPECT_EQ(ForwardBuffers::bytes(c, kv, whole, 1) - ForwardBuffers::bytes(c, kv, chunks, 1),
            fewer * 192 * 4);
  // The gradients of queries, keys and values need more than those of a chunk, in the same bytes.
  EXPECT_EQ(BackwardBuffers::bytes(c, kv, whole, 1) - BackwardBuffers::bytes(c, kv, chunks, 1),
            all * (gate_up - 128 * 4));
}

TEST(RecomputeMemory, ALossKeepsLogitsOfAPartOfAChunk) {
  ModelConfig c;
  c.vocab = 1000;
  c.hidden = 64;
  const uint64_t all = HeadBuffers::bytes(c, Dtype::kF32, 256, true),
                 part = HeadBuffers::bytes(c, Dtype::kF32, {256, kLogitRows}, true);
  EXPECT_GE(all - part, uint64_t{256 - kLogitRows} * 1000 * sizeof(float));
  StepOptions options;
  options.max_tokens = 256;
  options.recompute_loss = true;
  EXPECT_EQ(options.head_rows().logits, kLogitRows);
  options.logprob_chunk_tokens = 10;
  EXPECT_EQ(options.head_rows().logits, 10);
}

TEST(RecomputeOptions, DoNotChangeInATrainer) {
  TrainerOptions options;
  TrainRig rig({}, options);
  const auto refused = [&](const ActivationRule& rule) {
    options.activations = rule;
    return expect_error(Code::kNotChangeable, [&] { rig.trainer->set_options(options); }).key;
  };
  EXPECT_EQ(refused(selective(false, false, true)), "trainer.recompute_granularity");
  ActivationRule other;
  other.method = RecomputeMethod::kBlock;
  EXPECT_EQ(refused(other), "trainer.recompute_method");
  other = {};
  other.num_layers = 2;
  EXPECT_EQ(refused(other), "trainer.recompute_num_layers");
  other = {};
  other.offload = true;
  EXPECT_EQ(refused(other), "trainer.activation_offload");
  other = {};
  other.mlp = true;
  EXPECT_EQ(refused(other), "trainer.recompute_modules");
  options.activations = {};
  options.mlp_chunk_tokens = 512;
  EXPECT_EQ(expect_error(Code::kNotChangeable, [&] { rig.trainer->set_options(options); }).key,
            "trainer.mlp_chunk_tokens");
  options.mlp_chunk_tokens = 0;
  options.recompute_loss = true;
  EXPECT_EQ(expect_error(Code::kNotChangeable, [&] { rig.trainer->set_options(options); }).key,
            "trainer.recompute_loss");
}

}  // namespace
}  // namespace rl::testing

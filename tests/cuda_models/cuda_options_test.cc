// Runs on the emulated GPU with the options that change what is computed, by whom and in which
// memory. Each has log-probs that its sampling and its training agree on bit for bit, samples the
// ids that the reference device samples, and changes the weights as that does.
#include <gtest/gtest.h>

#include <map>

#include "cuda_models/emulated_gpu.h"
#include "pipeline/scenarios.h"
#include "pipeline/scored_model.h"
#include "pipeline/session/conversation.h"
#include "reference/host_parts.h"
#include "reference/reference_device.h"
#include "support/expect_error.h"
#include "support/random_llama.h"
#include "train/train_rig.h"

namespace rl::testing {
namespace {

std::vector<float> masters_of(LoadedModel& model) {
  const DeviceFloats masters = model.model().masters();
  std::vector<float> values(static_cast<size_t>(masters.count()));
  masters.read(values);
  return values;
}

struct Outcome {
  std::map<uint64_t, std::vector<int32_t>> ids;
  std::vector<float> update;  // of the masters
  uint64_t digest = 0;
};

Outcome run(const OptionSet& options, const Device& device) {
  emulated::restart(0);
  Rig rig(options, seams_on(device));
  const std::vector<float> before = masters_of(rig.model());
  const RunLog log = rig.start_and_serve();
  Outcome out;
  EXPECT_EQ(log.steps.size(), 1u);
  for (const MetricList& step : log.steps) {
    EXPECT_EQ(step.get("training/logprob_max_abs_diff").value_or(0.0), 0.0);
  }
  for (const SamplePtr& s : log.samples) out.ids[s->id] = s->ids;
  out.update = masters_of(rig.model());
  for (size_t i = 0; i < before.size(); ++i) out.update[i] -= before[i];
  out.digest = rig.model().weight_digest();
  return out;
}

struct Case {
  const char* name;
  const char* objective = "rl";
  Texts assignments = {};
  bool has_reward_model = false;
};

OptionSet options_of(const Case& c, const TempDir& dir) {
  OptionSet options = options_of(
      Scenario{.name = c.name, .objective = c.objective, .assignments = c.assignments}, dir);
  if (c.has_reward_model) options.set_string("model.reward_path", scored_model(dir));
  return options;
}

class CudaOptions : public ::testing::TestWithParam<Case> {
 protected:
  ~CudaOptions() override { emulated::restart(0); }
  const TempDir dir_;
};

INSTANTIATE_TEST_SUITE_P(
    Cases, CudaOptions,
    ::testing::Values(
        Case{.name = "critic_and_reference",
             .assignments = {"algo.advantage=gae", "algo.kl.where=reward", "algo.kl.coef=0.1"}},
        Case{.name = "teacher_of_samples", .objective = "distill"},
        Case{.name = "teacher_of_rows",
             .objective = "distill",
             .assignments = {"algo.distill.kl=reverse"}},
        Case{.name = "reward_model", .has_reward_model = true},
        Case{.name = "frozen", .assignments = {"model.freeze=*norm.weight,*up_proj.weight"}},
        Case{.name = "train_only", .assignments = {"model.train_only=*k_proj.weight"}},
        Case{.name = "averages", .assignments = {"optimizer.ema=0.5"}},
        Case{.name = "muon", .assignments = {"optimizer.name=muon"}},
        Case{.name = "bf16_states", .assignments = {"optimizer.state_dtype=bf16"}},
        Case{.name = "int8_states", .assignments = {"optimizer.state_dtype=int8"}}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

// The tolerance is that of one step (tests/reference/device_training_test.cc): the first update of
// AdamW is the sign of a gradient, which is arbitrary where that cancels to rounding noise.
TEST_P(CudaOptions, AStepMatchesTheReference) {
  const OptionSet options = options_of(GetParam(), dir_);
  const Outcome got = run(options, emulated_gpu()), want = run(options, reference_device());
  EXPECT_EQ(got.ids, want.ids);
  EXPECT_LE(relative_l2(got.update, want.update), 0.05);
}

class CudaRecompute : public CudaOptions {};

// Contract N4: what is kept, where, and what is computed again changes no bit of a gradient.
INSTANTIATE_TEST_SUITE_P(
    Cases, CudaRecompute,
    ::testing::Values(
        Case{.name = "offload", .assignments = {"trainer.activation_offload=true"}},
        Case{.name = "full",
             .assignments = {"trainer.recompute_granularity=full",
                             "trainer.recompute_method=uniform", "trainer.recompute_num_layers=2"}},
        Case{.name = "full_offload",
             .assignments = {"trainer.recompute_granularity=full",
                             "trainer.recompute_method=uniform", "trainer.recompute_num_layers=1",
                             "trainer.activation_offload=true"}},
        Case{.name = "selective",
             .assignments = {"trainer.recompute_granularity=selective",
                             "trainer.recompute_modules=mlp,qkv,core_attn,o_proj"}},
        Case{.name = "by_layer", .assignments = {"trainer.backward_weights=by_layer"}}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

TEST_P(CudaRecompute, ChangesNoBit) {
  const std::string model = write_random_llama(dir_.file("layers"), {.layers = 4});
  const auto digest = [&](const Case& c) {
    OptionSet options = options_of(c, dir_);
    options.set_string("model.path", model);
    return run(options, emulated_gpu()).digest;
  };
  EXPECT_EQ(digest(GetParam()), digest(Case{.name = "kept"}));
}

class CudaReference : public ::testing::Test {
 protected:
  ~CudaReference() override { emulated::restart(0); }
  const TempDir dir_;
};

// The weights of the reference lie in the workspace while it computes, and in the host's memory
// otherwise.
TEST_F(CudaReference, OffloadChangesNoBit) {
  const auto digest = [&](const char* offload) {
    return run(options_of(Case{.name = "reference",
                               .assignments = {"algo.kl.where=reward", "algo.kl.coef=0.1",
                                               "algo.kl.estimator=k2", offload}},
                          dir_),
               emulated_gpu())
        .digest;
  };
  EXPECT_EQ(digest("reference.offload=true"), digest("reference.offload=false"));
}

class CudaParts : public ::testing::Test {
 protected:
  CudaParts() { emulated::restart(0); }
  ~CudaParts() override { emulated::restart(0); }
};

// Sampling, two halves of a step, weights from the host, forwards, checkpoints and sleep. A second
// compute copy changes only what engines may read meanwhile.
TEST_F(CudaParts, ASecondComputeCopyChangesNoBit) {
  const std::string one = story_of(emulated_gpu(), {});
  emulated::restart(0);
  EXPECT_EQ(story_of(emulated_gpu(), {"model.compute_copies=2"}), one);
}

// What a host adds is part of the prefix of the next turn, which is taken from the cache or not.
TEST_F(CudaParts, ATurnContinuesFromTheCacheWithTheBitsOfTheTrainer) {
  std::map<bool, std::vector<float>> logprobs;
  for (const bool cached : {true, false}) {
    emulated::restart(0);
    Parts parts(emulated_gpu(),
                {"engine.max_model_len=64",
                 cached ? "engine.prefix_caching=true" : "engine.prefix_caching=false"});
    const std::shared_ptr<EngineSession> engine = std::move(parts.engine);
    const auto talk = std::make_shared<Conversation>(engine, std::vector<int32_t>{1, 2, 3});
    for (int turn = 0; turn < 3; ++turn) {
      Request r = request_from(parts.options);
      r.max_new_tokens = 6;
      talk->generate(r);
      engine->run();
      if (turn < 2) talk->append(std::vector<int32_t>{40, 41});
    }
    const SamplePtr s = talk->sample();
    logprobs[cached] = s->logprobs;
    const std::vector<float> trained = parts.trainer->logprobs(s->ids, 3, s->temperature);
    for (size_t i = 0; i < trained.size(); ++i) {
      if (s->loss_mask[i] == 0) continue;
      EXPECT_EQ(trained[i], s->logprobs[i]) << i;
    }
    EXPECT_EQ(engine->stats().cached_tokens > 0, cached);
  }
  EXPECT_EQ(logprobs[true], logprobs[false]);
}

TEST_F(CudaParts, OptimizerStatesInTheHostsMemoryAreRefused) {
  const TempDir dir;
  OptionSet options = tiny_options(dir);
  options.set_text("optimizer.cpu_offload", "true");
  const Error error =
      expect_error(Code::kUnsupported, [&] { const Rig rig(options, seams_on(emulated_gpu())); });
  EXPECT_EQ(error.key, "optimizer.cpu_offload");
  EXPECT_TRUE(contains(error.message, "the device cuda")) << error.message;
}

}  // namespace
}  // namespace rl::testing

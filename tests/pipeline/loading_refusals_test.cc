// What is refused while a runtime, a model or a run's models are made, and calls that must leave
// everything as it was when they fail.
#include <gtest/gtest.h>

#include "host_batch.h"
#include "ops/compute.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/response_text.h"
#include "pipeline/session/weight_tensors.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::for_session;
using testing::tiny_options;
using testing::with_small_tokenizer;

std::shared_ptr<LoadedModel> open(const OptionSet& o, PlanUse use = PlanUse::kModel) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, use);
}

// The CPU under another name, whose products are not exact.
class InexactCompute final : public Compute {
 public:
  InexactCompute(std::unique_ptr<Compute> cpu, const ComputeTraits& traits)
      : Compute(cpu->ops(), traits), cpu_(std::move(cpu)) {}
  bool exact() const override { return false; }
  const std::string& implementation() const override { return name_; }

 private:
  const std::unique_ptr<Compute> cpu_;
  const std::string name_ = "a wobbly product";
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(bool bf16) : bf16_(bf16) {}
  const char* name() const override { return "fake"; }
  bool has_bf16() const override { return bf16_; }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override {
    return cpu_device().plan_packed(rule, compute);
  }
  uint64_t workspace_bytes(int num_threads) const override {
    return cpu_device().workspace_bytes(num_threads);
  }
  std::unique_ptr<Compute> make_compute(Executor& executor, Dtype dtype,
                                        ArenaLedger* ledger) const override {
    return std::make_unique<InexactCompute>(cpu_device().make_compute(executor, dtype, nullptr),
                                            ComputeTraits{*this, dtype, 1, ledger});
  }

 private:
  const bool bf16_;
};

TEST(LoadingRefusals, AProductThatIsNotExactIsRefused) {
  const TempDir dir;
  const OptionSet o = tiny_options(dir);
  const FakeDevice device(false);
  const Error e = expect_error(Code::kUnsupported, [&] {
    RuntimeSeams seams;
    seams.device = &device;
    Runtime(o, std::move(seams));
  });
  EXPECT_EQ(e.key, "model.dtype");
  EXPECT_TRUE(contains(e.message, "the fp32 matrix product of this machine, a wobbly product"));
}

TEST(LoadingRefusals, TheComputeTypeIsThatOfOptionAndDevice) {
  const FakeDevice with(true), without(false);
  const auto dtype = [](const char* name, const Device& device) {
    OptionSet o;
    o.set_string("model.dtype", name);
    return compute_dtype_of(o, device);
  };
  EXPECT_EQ(dtype("auto", with), Dtype::kBf16);
  EXPECT_EQ(dtype("bf16", with), Dtype::kBf16);
  EXPECT_EQ(dtype("fp32", with), Dtype::kF32);
  EXPECT_EQ(dtype("auto", without), Dtype::kF32);
  EXPECT_EQ(dtype("fp32", without), Dtype::kF32);
  EXPECT_EQ(expect_error(Code::kUnsupported, [&] { dtype("bf16", without); }).key, "model.dtype");
}

class StoppedClock final : public Clock {
 public:
  int64_t now_ns() const override { return 17; }
  int64_t unix_ns() const override { return 19; }
};

TEST(LoadingRefusals, ARuntimeUsesTheClockAndExecutorItIsGiven) {
  const TempDir dir;
  const StoppedClock clock;
  RuntimeSeams seams;
  seams.clock = &clock;
  seams.executor = make_thread_executor(3);
  Runtime runtime(tiny_options(dir), std::move(seams));
  EXPECT_EQ(&runtime.clock(), &clock);
  EXPECT_EQ(runtime.num_threads(), 3) << "whatever runtime.threads says";
  EXPECT_EQ(runtime.seed(), 7u);
  EXPECT_EQ(Runtime(tiny_options(dir)).num_threads(), 1);
}

TEST(LoadingRefusals, AModelHasAPath) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.unset("model.path");
  const Error e = expect_error(Code::kFailedPrecondition, [&] { open(o); });
  EXPECT_EQ(e.key, "model.path");
  EXPECT_TRUE(contains(e.message, "no model to open"));
}

// The model has 256 ids.
TEST(LoadingRefusals, ATokenizerHasNoIdsBeyondTheModels) {
  const auto path_with = [](const TempDir& dir, int id) {
    const std::string path = with_small_tokenizer(dir);
    nlohmann::json tokenizer = test::small_tokenizer();
    tokenizer["added_tokens"].push_back(test::added_token(id, "<last>", true));
    write_file_atomically(real_fs(), path + "/tokenizer.json", tokenizer.dump());
    return path;
  };
  const TempDir fits, beyond;
  OptionSet o = tiny_options(fits);
  o.set_string("model.path", path_with(fits, 255));
  EXPECT_EQ(open(o)->tokenizer().vocab_size(), 256);
  o.set_string("model.path", path_with(beyond, 256));
  const Error e = expect_error(Code::kIncompatible, [&] { open(o); });
  EXPECT_EQ(e.location, beyond.file("model"));
  EXPECT_TRUE(contains(e.message, "has ids up to 256 but the model's vocabulary ends at 255"));
}

TEST(LoadingRefusals, ATextNeedsAnEndToBeTrainedOn) {
  const TempDir dir;
  const std::string path = with_small_tokenizer(dir);
  nlohmann::json config =
      nlohmann::json::parse(read_text_file(real_fs(), path + "/config.json", 1 << 20));
  config["eos_token_id"] = nullptr;
  write_file_atomically(real_fs(), path + "/config.json", config.dump());
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", path);
  const auto model = open(o);
  ASSERT_TRUE(model->config().eos_ids.empty());
  const Error e = expect_error(Code::kFailedPrecondition, [&] { encode_ended(*model, "a"); });
  EXPECT_EQ(e.message, "the model has no end-of-text token");
}

Request request_of(const OptionSet& o) {
  Request r = request_from(o);
  r.prompt = {1, 2, 3};
  r.max_new_tokens = 4;
  return r;
}

TEST(LoadingRefusals, StopStringsNeedATokenizer) {
  const TempDir dir;
  OptionSet o = for_session(tiny_options(dir));
  EngineSession bare(open(o), o);
  Request r = request_of(o);
  r.stop_strings = {"never this text"};
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { bare.submit(r); }).key, "sampling.stop");
  o.set_string("model.path", with_small_tokenizer(dir));
  EngineSession engine(open(o), o);
  engine.submit(r);
  EXPECT_EQ(engine.run(), EngineStep::kIdle);
  EXPECT_EQ(engine.take_finished().at(0)->generated(), 4);
}

// The request behind a drain needs weights that are being trained.
TEST(LoadingRefusals, AResumeThatIsBusyLeavesTheDrain) {
  const TempDir dir;
  const OptionSet o = for_session(tiny_options(dir));
  const auto model = open(o);
  EngineSession engine(model, o);
  EXPECT_EQ(engine.drain(-1), EngineStep::kIdle);
  engine.submit(request_of(o));
  {
    const LoadedModel::WriteLease write(*model, 0);
    expect_error(Code::kBusy, [&] { engine.unpause(); });
    EXPECT_EQ(engine.step(), EngineStep::kIdle) << "it still admits nothing";
    EXPECT_EQ(engine.stats().forwards, 0);
    engine.submit(request_of(o));
    EXPECT_EQ(engine.stats().waiting, 2);
  }
  engine.unpause();
  EXPECT_EQ(engine.run(), EngineStep::kIdle);
  EXPECT_EQ(engine.take_finished().size(), 2u);
}

TEST(LoadingRefusals, WeightsAreNotSetBesideUnpublishedOnes) {
  const TempDir dir;
  OptionSet o = for_session(tiny_options(dir));
  o.set_text("model.compute_copies", "2");
  const auto model = open(o, PlanUse::kTrain);
  TrainerSession trainer(model, o);
  const std::string name = "model.norm.weight";
  trainer.step(testing::host_batch(trainer));
  const std::vector<NamedTensor> weights = {{name, copy_weight(*model, name)}};
  const uint64_t trained = model->weight_digest();
  const Error e = expect_error(Code::kFailedPrecondition, [&] { set_weights(*model, weights); });
  EXPECT_TRUE(contains(e.message, "call rl_trainer_publish first"));
  EXPECT_EQ(trainer.publish(), 1u);
  EXPECT_EQ(set_weights(*model, weights), 2u);
  EXPECT_EQ(model->weight_digest(), trained) << "they are the same ones";
}

TEST(LoadingRefusals, ARunReadsTheHeadersOfTheModelsThatItHas) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("model.reward_path", dir.file("none"));
  o.set_string("model.teacher_path", dir.file("none"));
  const ModelConfig policy = open_weight_source(real_fs(), fixture_model("llama"))->config();
  const auto models = [&](PlanUse use) { return plan_models(o, policy, real_fs(), use); };
  for (const PlanUse use : {PlanUse::kModel, PlanUse::kGenerate, PlanUse::kTrain}) {
    EXPECT_FALSE(models(use).reward) << "the host scores";
    EXPECT_FALSE(models(use).teacher) << "the objective has none";
  }
  expect_error(Code::kNotFound, [&] { models(PlanUse::kPipeline); });
  o.unset("model.reward_path");
  EXPECT_FALSE(models(PlanUse::kPipeline).reward);
  o.set_string("model.teacher_path", fixture_model("qwen2"));
  o.set_text("algo.objective", "distill");
  for (const PlanUse use : {PlanUse::kTrain, PlanUse::kPipeline}) {
    ASSERT_TRUE(models(use).teacher);
    EXPECT_EQ(models(use).teacher->family, Family::kQwen2);
    EXPECT_EQ(models(use).policy.family, Family::kLlama);
  }
  o.unset("model.teacher_path");
  EXPECT_FALSE(models(PlanUse::kTrain).teacher);
}

}  // namespace
}  // namespace rl

// Whole runs on the real model: one seed gives one result, at any thread count and across a resume.
// Two small steps; with RL_LONG six steps of the demo's size.
#include <cstdlib>
#include <filesystem>

#include "pipeline/replay_rig.h"
#include "pipeline/run_rig.h"

namespace rl::testing {
namespace {

class SmolLm2Run : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RL_SMOLLM2_GGUF");
    if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
    std::vector<std::string> rows;
    for (int a = 0; a < 20; ++a) {
      rows.push_back(str("{\"messages\": [{\"role\": \"user\", \"content\": \"What is ", a, " + ",
                         20 - a, "? Answer with the number only.\"}], \"tag\": \"20\"}"));
    }
    write_lines(dir_.file("data.jsonl"), rows);
    for (const char* text : {"runtime.seed=3", "sampling.max_new_tokens=32",
                             "engine.max_model_len=96", "optimizer.lr=1e-5"})
      options_.set_assignment(text);
    options_.set_u64("runtime.memory_budget_bytes",
                     uint64_t{cpu_has_bf16_dot() ? 3000u : 4000u} << 20);
    options_.set_string("model.path", path);
    options_.set_string("data.path", dir_.file("data.jsonl"));
    options_.set_i64("pipeline.prompts_per_step", long_ ? 8 : 3);
    options_.set_i64("pipeline.samples_per_prompt", long_ ? 8 : 4);
  }

  struct Result {
    std::string metrics;
    uint64_t digest;
    bool operator==(const Result&) const = default;
  };
  Result run(int64_t total_steps, int threads = 2, const char* checkpoints = nullptr,
             const char* resume = "never") {
    OptionSet o = options_;
    o.set_i64("pipeline.total_steps", total_steps);
    o.set_i64("runtime.threads", threads);
    if (checkpoints != nullptr) {
      o.set_string("checkpoint.dir", dir_.file(checkpoints));
      o.set_string("checkpoint.resume", resume);
      o.set_i64("checkpoint.every_steps", steps_ / 2);
    }
    Rig rig(o);
    // The right response is 20; a shorter one is better, so that groups carry signal from the first
    // step.
    rig.on_score = [](Pipeline& p, const SamplePtr& s) {
      p.score(s->id, 1.0 / static_cast<double>(s->generated()));
    };
    const RunLog log = rig.start_and_serve();
    for (const double d : log.series("training/logprob_max_abs_diff")) EXPECT_EQ(d, 0.0);
    return {log.fingerprint(), rig.model().weight_digest()};
  }

  const bool long_ = std::getenv("RL_LONG") != nullptr;
  const int64_t steps_ = long_ ? 6 : 2;
  TempDir dir_;
  OptionSet options_;
};

TEST_F(SmolLm2Run, OneSeedGivesOneResultTwiceAndOnOneThread) {
  const Result first = run(steps_);
  EXPECT_FALSE(first.metrics.empty());
  EXPECT_EQ(run(steps_), first);
  EXPECT_EQ(run(steps_, 1), first);
}

TEST_F(SmolLm2Run, AResumedRunEndsWithTheDigestOfTheWholeOne) {
  const uint64_t whole = run(steps_).digest;
  run(steps_ / 2, 2, "checkpoints");
  EXPECT_EQ(run(steps_, 2, "checkpoints", "auto").digest, whole);
}

// On a machine without the memory budget that chose the micro-batch.
TEST_F(SmolLm2Run, ReplayingTheRecordedStepsGivesTheDigest) {
  if (!long_) GTEST_SKIP() << "RL_LONG is not set";
  const std::string first = dir_.file("record/step_000001.rlbuf"),
                    second = dir_.file("record/step_000002.rlbuf");
  options_.set_i64("pipeline.prompts_per_step", 3);
  options_.set_i64("pipeline.samples_per_prompt", 4);
  options_.set_string("buffer.record_dir", dir_.file("record"));
  const uint64_t digest = run(2).digest;
  options_.set_i64("trainer.max_tokens_per_device", BufferSession::file_info(first).max_tokens);
  options_.unset("runtime.memory_budget_bytes");
  Replay replay(options_);
  EXPECT_EQ(replay.step(first), 12u);
  EXPECT_EQ(replay.step(second), 12u);
  EXPECT_EQ(replay.digest(), digest);
}

}  // namespace
}  // namespace rl::testing

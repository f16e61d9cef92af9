// A sleeping engine holds no memory that it can make anew, and its samples do not notice.
#include <bit>
#include <functional>
#include <map>

#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/resident_memory.h"

namespace rl {
namespace {

using testing::resident_bytes;
using testing::resident_bytes_of_process;
using testing::tiny_options;

struct Parts {
  explicit Parts(std::vector<const char*> assignments = {}) : options(tiny_options(dir)) {
    for (const char* text : assignments) options.set_assignment(text);
    runtime = std::make_shared<Runtime>(options);
    model = LoadedModel::open(runtime, options, PlanUse::kModel);
  }
  std::unique_ptr<EngineSession> engine() {
    return std::make_unique<EngineSession>(model, testing::for_session(options));
  }
  Request request(int32_t first) const {
    Request r = request_from(options);
    for (int32_t i = 0; i < 20; ++i) r.prompt.push_back((first + 5 * i) % 256);
    r.num_samples = 3;
    return r;
  }
  uint64_t resident_packed() const {
    return resident_bytes(model->model().published().packed().memory());
  }

  TempDir dir;
  OptionSet options;
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<LoadedModel> model;
};

std::map<uint64_t, std::string> bits_of(EngineSession& engine) {
  std::map<uint64_t, std::string> bits;
  for (const SamplePtr& s : engine.take_finished()) {
    std::string& text = bits[s->id];
    for (const int32_t id : s->ids) text += str(" ", id);
    for (const float p : s->logprobs) text += str(" ", std::bit_cast<uint32_t>(p));
  }
  return bits;
}

TEST(EngineSleep, ChangesNoSample) {
  std::map<uint64_t, std::string> expected;
  for (const int level : {0, 1, 2}) {
    Parts parts;
    const auto engine = parts.engine();
    engine->submit(parts.request(1));
    engine->run();
    engine->submit(parts.request(1));
    engine->submit(parts.request(2));
    for (int i = 0; i < 3; ++i) engine->step();
    if (level > 0) {
      engine->sleep(level);
      EXPECT_EQ(engine->stats().blocks_in_use, 0);
      EXPECT_EQ(engine->stats().running, 0);
      EXPECT_EQ(engine->stats().waiting, 6);
    }
    engine->submit(parts.request(3));
    if (level > 0) {
      for (const auto& call :
           std::vector<std::function<void()>>{[&] { engine->step(); }, [&] { engine->run(); }}) {
        const Error e = expect_error(Code::kFailedPrecondition, call);
        EXPECT_TRUE(contains(e.message, str("level ", level))) << e.message;
      }
      engine->wake();
    }
    engine->run();
    const auto bits = bits_of(*engine);
    EXPECT_EQ(bits.size(), 12u);
    if (level == 0) expected = bits;
    EXPECT_TRUE(bits == expected) << "level " << level;
    EXPECT_TRUE(engine->idle());
  }
}

TEST(EngineSleep, GivesMemoryBackUntilTheWake) {
  if (!testing::kProcessIsMeasurable) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  Parts parts({"engine.max_num_seqs=2048", "engine.max_num_batched_tokens=2048",
               "engine.max_model_len=128", "sampling.max_new_tokens=64"});
  const auto engine = parts.engine();
  const MemoryPlan plan = plan_memory(parts.options, parts.model->config(), PlanUse::kGenerate);
  const uint64_t bytes = plan.bytes_of("engine workspace");
  ASSERT_GT(bytes, uint64_t{64} << 20);
  const uint64_t awake = resident_bytes_of_process(), packed = parts.resident_packed();
  EXPECT_GT(packed, 0u);
  engine->sleep(1);
  const uint64_t asleep = resident_bytes_of_process();
  EXPECT_LT(asleep + bytes / 100 * 98, awake);
  EXPECT_EQ(parts.resident_packed(), packed);
  engine->sleep(2);
  EXPECT_EQ(parts.resident_packed(), 0u);
  engine->sleep(1);  // not deeper than it sleeps
  EXPECT_EQ(parts.resident_packed(), 0u);
  EXPECT_EQ(parts.runtime->ledger().bytes(), plan.arena_bytes);
  engine->wake();
  EXPECT_GE(parts.resident_packed(), packed);
  EXPECT_GT(resident_bytes_of_process() + bytes / 100 * 2, awake);
  engine->wake();
}

TEST(EngineSleep, AThousandCyclesLeaveNothingBehind) {
  if (!testing::kProcessIsMeasurable) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  Parts parts;
  const auto engine = parts.engine();
  const auto cycle = [&](int i) {
    engine->sleep(1 + i % 2);
    engine->wake();
    engine->submit(parts.request(i % 7));
    engine->step();
    engine->abort_all();
    engine->take_finished();
  };
  for (int i = 0; i < 50; ++i) cycle(i);
  const uint64_t before = resident_bytes_of_process();
  for (int i = 0; i < 1000; ++i) cycle(i);
  // Pages of the allocator, whichever way the threads took them; a leak of one arena page a cycle
  // would be 4 MiB.
  EXPECT_LT(resident_bytes_of_process(), before + (uint64_t{2} << 20));
  EXPECT_EQ(parts.runtime->ledger().entries().size(), 4u);
}

TEST(EngineSleep, WhoeverComputesWakesTheWeightsItself) {
  Parts parts;
  const auto engine = parts.engine(), other = parts.engine();
  TrainerSession trainer(parts.model, testing::for_session(parts.options));
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  const std::vector<float> expected = trainer.logprobs(ids, 2, 1.0f);
  engine->sleep(2);
  EXPECT_EQ(trainer.logprobs(ids, 2, 1.0f), expected);
  EXPECT_GT(parts.resident_packed(), 0u);
  expect_error(Code::kFailedPrecondition, [&] { engine->step(); });
  engine->wake();

  engine->submit(parts.request(1));
  engine->run();
  const std::vector<SamplePtr> samples = engine->take_finished();
  for (const SamplePtr& s : samples) {
    s->reward = s->slot;
    s->scored = true;
  }
  engine->sleep(2);
  const MetricList metrics = trainer.step(samples);
  EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
  engine->sleep(1);
  engine->wake();
  engine->sleep(2);
  other->submit(parts.request(1));
  other->run();
  EXPECT_EQ(other->take_finished().front()->versions.front(), 1u);
}

TEST(EngineSleep, WeightsThatOthersNeedStayAwake) {
  Parts parts;
  const auto engine = parts.engine(), other = parts.engine();
  other->submit(parts.request(1));
  const Error e = expect_error(Code::kBusy, [&] { engine->sleep(2); });
  EXPECT_TRUE(contains(e.message, "1 other engines")) << e.message;
  engine->step();  // it is awake
  engine->sleep(1);
  other->run();
  engine->sleep(2);
  EXPECT_EQ(parts.resident_packed(), 0u);
  for (const int level : {0, 3, -1}) {
    const Error range = expect_error(Code::kOutOfRange, [&] { engine->sleep(level); });
    EXPECT_EQ(range.key, "level");
  }
}

TEST(EngineSleep, APipelineMayRunMeanwhile) {
  const TempDir dir;
  Parts parts;
  testing::Rig plain(parts.options);
  const std::string expected = plain.start_and_serve().fingerprint();
  testing::Rig rig(parts.options);
  EngineSession engine(rig.shared_model(), testing::for_session(parts.options));
  engine.sleep(2);
  EXPECT_EQ(rig.start_and_serve().fingerprint(), expected);
  engine.wake();
}

}  // namespace
}  // namespace rl

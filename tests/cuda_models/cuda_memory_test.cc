// Memory of the emulated GPU as plans, ledgers and errors tell it, and an engine that sleeps: its
// memory is free for others, and comes back with the same samples or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "cuda_models/emulated_gpu.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan_arenas.h"
#include "pipeline/run_rig.h"
#include "pipeline/session/engine_session.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl::testing {
namespace {

class CudaMemory : public ::testing::Test {
 protected:
  CudaMemory() { begin(); }
  ~CudaMemory() override { begin(); }
  static void begin() {
    emulated::set_device({});
    emulated::restart(0);
  }
  MemoryPlan plan(const OptionSet& options, PlanUse use = PlanUse::kPipeline) const {
    const Settings settings(options);
    return plan_memory(settings, plan_models(settings, real_fs(), use), use, 1, emulated_gpu());
  }
  std::shared_ptr<LoadedModel> open(PlanUse use) const {
    return LoadedModel::open(std::make_shared<Runtime>(session_, seams_on(emulated_gpu())),
                             session_, use);
  }

  const TempDir dir_;
  const OptionSet options_ = tiny_options(dir_), session_ = for_session(options_);
};

TEST_F(CudaMemory, PlanAndLedgerNameTheMemoryOfEachArena) {
  OptionSet options = options_;
  options.set_string("model.path", write_random_llama(dir_.file("layers"), {.layers = 4}));
  options.set_text("trainer.activation_offload", "true");
  options.set_text("engine.preemption", "swap");
  options.set_text("engine.swap_space_bytes", "65536");
  const Rig rig(options, seams_on(emulated_gpu()));
  const MemoryPlan& plan = const_cast<Rig&>(rig).pipeline().plan();
  EXPECT_EQ(live(const_cast<Rig&>(rig).runtime()), planned(plan));
  EXPECT_EQ(plan.home(), (DeviceId{DeviceId::kCuda, 0}));
  EXPECT_EQ(plan.bytes_of(kCopyStaging), emulated_gpu().host_workspace_bytes(1));
  for (const PlanEntry& e : plan.arenas) {
    const bool host = e.name == kCopyStaging || e.name == kHostWorkspace || e.name == "swap space";
    EXPECT_EQ(e.space(), host ? MemorySpace::kHost : MemorySpace::kDevice) << e.name;
  }
  EXPECT_EQ(emulated::live().pinned_bytes, plan.bytes_of(kCopyStaging));
}

TEST_F(CudaMemory, ThePlansTableMarksWhatIsInHostMemory) {
  const std::string text = render_plan(plan(options_));
  size_t marked = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const bool host = line.starts_with(kCopyStaging) || line.starts_with("outside arenas");
    const bool outside = marked >= 2 && line.starts_with("  ");
    EXPECT_EQ(line.ends_with("  in host memory"), host || outside) << line;
    marked += host ? 1 : 0;
  }
  EXPECT_EQ(marked, 2u);
}

// What the device has less is what the plan says, up to whole pages of each arena.
TEST_F(CudaMemory, TheDeviceHoldsWhatThePlanSays) {
  const Rig rig(options_, seams_on(emulated_gpu()));
  const MemoryPlan& plan = const_cast<Rig&>(rig).pipeline().plan();
  const uint64_t planned = plan.arena_bytes_in(MemorySpace::kDevice);
  const uint64_t held = emulated::live().device_bytes;
  EXPECT_GE(held, planned);
  EXPECT_LE(held, planned + 4096 * plan.arenas.size());
}

TEST_F(CudaMemory, ABudgetBoundsTheDeviceAndAnotherTheHost) {
  const MemoryPlan free = plan(options_);
  EXPECT_EQ(free.total_bytes, free.arena_bytes_in(MemorySpace::kDevice));
  const uint64_t host = free.arena_bytes_in(MemorySpace::kHost) + free.baseline_bytes;
  OptionSet bounded = options_;
  bounded.set_u64("runtime.memory_budget_bytes", free.least_bytes);
  bounded.set_u64("runtime.host_memory_budget_bytes", host);
  bounded.set_text("engine.memory_fraction", "1");
  const MemoryPlan small = plan(bounded);
  EXPECT_LE(small.total_bytes, free.least_bytes);
  for (const PlanEntry& phase : plan_phases(small)) {
    EXPECT_LE(phase.bytes, small.total_bytes) << phase.name;
    EXPECT_EQ(phase.space(), MemorySpace::kDevice) << phase.name;
  }
  bounded.set_u64("runtime.host_memory_budget_bytes", host - 1);
  const Error of_host = expect_error(Code::kResourceExhausted, [&] { plan(bounded); });
  EXPECT_EQ(of_host.key, "runtime.host_memory_budget_bytes");
  EXPECT_EQ(of_host.expected, str("at least ", host));
  bounded.unset("runtime.host_memory_budget_bytes");
  bounded.set_u64("runtime.memory_budget_bytes", free.least_bytes - 1);
  const Error of_device = expect_error(Code::kResourceExhausted, [&] { plan(bounded); });
  EXPECT_EQ(of_device.key, "runtime.memory_budget_bytes");
  EXPECT_EQ(of_device.expected, str("at least ", free.least_bytes));
}

// The workspace has room for them behind the buffers of forwards, which are smaller than those of
// training. It is a knob where a host says how much memory it has.
TEST_F(CudaMemory, AnOffloadedReferenceTakesNoMemoryOfItsOwn) {
  OptionSet options = options_;
  options.set_string("model.path", write_random_llama(dir_.file("layers"), {.layers = 4}));
  options.set_text("algo.kl.where", "loss");
  const auto offered = [&] {
    const std::vector<Knob> knobs = plan(options).knobs();
    return std::ranges::find(knobs, "reference.offload", &Knob::key) != knobs.end();
  };
  const MemoryPlan kept = plan(options);
  EXPECT_FALSE(offered());
  options.set_text("runtime.host_memory_budget_bytes", "1GiB");
  EXPECT_TRUE(offered());
  options.set_text("reference.offload", "true");
  const MemoryPlan moved = plan(options);
  EXPECT_FALSE(offered());
  const uint64_t weights = moved.bytes_of("weights, host");
  EXPECT_GT(weights, 0u);
  EXPECT_EQ(moved.arena_bytes_in(MemorySpace::kHost),
            kept.arena_bytes_in(MemorySpace::kHost) + weights);
  EXPECT_EQ(moved.total_bytes + weights, kept.total_bytes);
  const Rig rig(options, seams_on(emulated_gpu()));
  EXPECT_EQ(live(const_cast<Rig&>(rig).runtime()), planned(moved));
}

// A run within its budget holds no more, with the rows and blocks that fit.
TEST_F(CudaMemory, ARunFitsIntoItsBudget) {
  OptionSet bounded = options_;
  bounded.set_u64("runtime.memory_budget_bytes", plan(options_).least_bytes);
  bounded.set_text("engine.memory_fraction", "1");
  bounded.set_i64("pipeline.total_steps", 1);
  Rig rig(bounded, seams_on(emulated_gpu()));
  EXPECT_EQ(live(rig.runtime()), planned(rig.pipeline().plan()));
  EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
}

// The error of what the device refuses has the arena, its bytes, what is free, and what to turn.
void expect_short_memory(const MemoryError& error, const std::string& arena, uint64_t bytes) {
  EXPECT_EQ(error.code, Code::kOutOfMemory);
  EXPECT_EQ(error.key, arena);
  for (const std::string& part :
       {str("arena ", arena, ": cannot "), str(bytes, " bytes in addition to "),
        std::string("bytes of the device are free")}) {
    EXPECT_TRUE(contains(error.message, part)) << error.message;
  }
  EXPECT_FALSE(error.knobs.empty());
}

template <typename F>
MemoryError memory_error(F&& f) {
  try {
    f();
  } catch (const MemoryError& error) {
    return error;
  }
  ADD_FAILURE() << "no MemoryError";
  return {Error(Code::kInternal, ""), {}};
}

TEST_F(CudaMemory, AnArenaThatTheDeviceRefusesIsNamedWithKnobs) {
  const uint64_t scratch = emulated_gpu().workspace_bytes(1);
  for (const char* arena : {"master weights", "packed weights, forward", "phase workspace"}) {
    SCOPED_TRACE(arena);
    begin();
    const MemoryPlan wanted = plan(options_);
    uint64_t before = scratch;
    for (const PlanEntry& e : wanted.arenas) {
      if (e.name == arena) break;
      if (e.space() == MemorySpace::kDevice && e.name != "matmul workspace") before += e.bytes;
    }
    emulated::set_device({.memory_bytes = before + wanted.bytes_of(arena) / 2});
    const MemoryError error =
        memory_error([&] { const Rig rig(options_, seams_on(emulated_gpu())); });
    expect_short_memory(error, arena, wanted.bytes_of(arena));
    EXPECT_EQ(emulated::live().device_allocations, 0);
  }
}

std::map<uint64_t, std::string> bits_of(EngineSession& engine) {
  std::map<uint64_t, std::string> bits;
  engine.run();
  for (const SamplePtr& s : engine.take_finished()) {
    std::string& text = bits[s->id];
    for (const int32_t id : s->ids) text += str(" ", id);
    for (const float p : s->logprobs) text += str(" ", std::bit_cast<uint32_t>(p));
  }
  return bits;
}

class CudaSleep : public CudaMemory {
 protected:
  CudaSleep() { start(); }
  ~CudaSleep() override { stop(); }
  void start() {
    model_ = open(PlanUse::kGenerate);
    engine_ = std::make_unique<EngineSession>(model_, session_);
  }
  void stop() {
    engine_.reset();
    model_.reset();
  }
  // Before a sleep, and after it with requests that began before.
  void submit() {
    Request r = request_from(session_);
    for (int32_t i = 0; i < 12; ++i) r.prompt.push_back((3 + 5 * i) % 256);
    r.num_samples = 3;
    engine_->submit(r);
  }
  std::map<uint64_t, std::string> sampled(int level) {
    submit();
    for (int i = 0; i < 3; ++i) engine_->step();
    if (level > 0) {
      engine_->sleep(level);
      engine_->wake();
    }
    submit();
    return bits_of(*engine_);
  }
  uint64_t pages_of(const char* arena) const {
    return (model_->plan().bytes_of(arena) + 4095) / 4096 * 4096;
  }

  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<EngineSession> engine_;
};

TEST_F(CudaSleep, ChangesNoSample) {
  const auto want = sampled(0);
  EXPECT_EQ(want.size(), 6u);
  for (const int level : {1, 2}) {
    stop();
    begin();
    start();
    EXPECT_TRUE(sampled(level) == want) << "level " << level;
  }
}

TEST_F(CudaSleep, MemoryOfTheDeviceIsFreeUntilTheWake) {
  submit();
  engine_->step();
  const emulated::Live awake = emulated::live();
  engine_->sleep(1);
  const uint64_t engine = pages_of("engine workspace"),
                 packed = pages_of("packed weights, forward");
  EXPECT_EQ(emulated::live().device_bytes, awake.device_bytes - engine);
  engine_->sleep(2);
  EXPECT_EQ(emulated::live().device_bytes, awake.device_bytes - engine - packed);
  EXPECT_EQ(live(model_->runtime()), planned(model_->plan()));
  engine_->wake();
  EXPECT_EQ(emulated::live().device_bytes, awake.device_bytes);
  EXPECT_EQ(emulated::live().device_allocations, awake.device_allocations);
}

// Others took the memory meanwhile. The engine sleeps on, and wakes when there is room.
TEST_F(CudaSleep, AWakeWithoutMemoryNamesTheArenaAndTheEngineSleepsOn) {
  const auto want = sampled(0);
  for (const auto& [level, arena] :
       {std::pair{1, "engine workspace"}, std::pair{2, "packed weights, forward"}}) {
    SCOPED_TRACE(level);
    stop();
    begin();
    start();
    submit();
    for (int i = 0; i < 3; ++i) engine_->step();
    engine_->sleep(level);
    emulated::set_device({.memory_bytes = emulated::live().device_bytes + 4096});
    const uint64_t held = emulated::live().device_bytes;
    for (int i = 0; i < 2; ++i) {
      expect_short_memory(memory_error([&] { engine_->wake(); }), arena,
                          model_->plan().bytes_of(arena));
      EXPECT_EQ(emulated::live().device_bytes, held);
      expect_error(Code::kFailedPrecondition, [&] { engine_->step(); });
    }
    emulated::set_device({});
    engine_->wake();
    submit();
    EXPECT_TRUE(bits_of(*engine_) == want);
  }
}

// The packed weights are back, and KV and workspace are not: the engine sleeps at level 1.
TEST_F(CudaSleep, AWakeThatFailsHalfWayGoesOnFromThere) {
  const auto want = sampled(0);
  stop();
  begin();
  start();
  submit();
  for (int i = 0; i < 3; ++i) engine_->step();
  engine_->sleep(2);
  emulated::inject({.call = 1, .error = cudaErrorMemoryAllocation, .only = "cuMemCreate"});
  expect_short_memory(memory_error([&] { engine_->wake(); }), "engine workspace",
                      model_->plan().bytes_of("engine workspace"));
  const Error asleep = expect_error(Code::kFailedPrecondition, [&] { engine_->step(); });
  EXPECT_TRUE(contains(asleep.message, "level 1")) << asleep.message;
  engine_->wake();
  submit();
  EXPECT_TRUE(bits_of(*engine_) == want);
}

}  // namespace
}  // namespace rl::testing

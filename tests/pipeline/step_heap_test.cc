// The estimate of a step's arrays outside arenas (MemoryPlan::outside) against the heap: the
// samples of a step, and the most that preparation and training hold at once beside them. The test
// program counts what goes through operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <new>

#include "pipeline/update/trainer_session.h"
#include "rollout/sample_edit.h"
#include "run_rig.h"
#include "session_options.h"

#ifndef RL_SANITIZED
namespace {
std::atomic<size_t> live_bytes{0}, peak_bytes{0};
constexpr size_t kPrefix = 16;  // holds the size, keeps the alignment of malloc
}  // namespace

void* operator new(size_t n) {
  auto* p = n > SIZE_MAX - kPrefix ? nullptr : static_cast<std::byte*>(std::malloc(n + kPrefix));
  if (p == nullptr) throw std::bad_alloc();
  *reinterpret_cast<size_t*>(p) = n;
  const size_t now = live_bytes += n;
  size_t seen = peak_bytes.load();
  while (seen < now && !peak_bytes.compare_exchange_weak(seen, now)) {
  }
  return p + kPrefix;
}
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  std::byte* start = static_cast<std::byte*>(p) - kPrefix;
  live_bytes -= *reinterpret_cast<size_t*>(start);
  std::free(start);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }
#endif

namespace rl {
namespace {

using testing::tiny_options;

#ifdef RL_SANITIZED
TEST(StepHeap, IsNotMeasured) { GTEST_SKIP() << "a sanitizer replaces operator new"; }
#else

class Meter {
 public:
  Meter() : start_(live_bytes) { peak_bytes = start_; }
  uint64_t peak() const { return peak_bytes - start_; }

 private:
  size_t start_;
};

// 33,600 tokens: vectors that grow by doubling have most to spare just above a power of two.
constexpr int64_t kPrompts = 35, kEach = 8, kResponse = 120;

OptionSet long_options(const TempDir& dir, const std::vector<std::string>& texts) {
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"engine.max_model_len=128", "sampling.max_new_tokens=120",
        "engine.max_num_batched_tokens=128", "trainer.max_tokens_per_device=128"}) {
    o.set_assignment(text);
  }
  o.set_i64("pipeline.prompts_per_step", kPrompts);
  o.set_i64("pipeline.samples_per_prompt", kEach);
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

// Groups as an engine gives them, with room for the longest response.
std::vector<SamplePtr> generated_samples(int64_t prompts) {
  std::vector<SamplePtr> all;
  for (int64_t i = 0; i < prompts * kEach; ++i) {
    auto s = std::make_shared<Sample>();
    s->id = static_cast<uint64_t>(i) + 1;
    s->ordinal = static_cast<uint64_t>(i / kEach);
    s->slot = static_cast<uint32_t>(i % kEach);
    s->ids = {1, 2, 3};
    s->prompt_tokens = 3;
    reserve_tokens(*s, 3 + kResponse);
    TokenChoice choice;
    for (int64_t t = 0; t < kResponse; ++t) {
      choice.id = static_cast<int32_t>((7 * i + 3 * t) % 200 + 4);
      choice.logprob = choice.logprob_sampled = -5.5f;
      append_sampled(*s, choice, 77, false);
    }
    s->reward = static_cast<double>(i % 3);
    s->scored = true;
    all.push_back(std::move(s));
  }
  return all;
}

uint64_t outside(const MemoryPlan& plan, const std::string& name) {
  for (const PlanEntry& e : plan.outside) {
    if (e.name == name) return e.bytes;
  }
  return 0;
}

// The estimate holds, and is at most so many times too large.
void expect_bound(uint64_t measured, uint64_t planned, double slack, const char* what) {
  std::cout << what << ": " << measured << " bytes of " << planned << " planned\n";
  EXPECT_LE(measured, planned) << what;
  EXPECT_LE(static_cast<double>(planned), slack * static_cast<double>(measured)) << what;
}

TEST(StepHeap, SamplesTakeWhatThePlanSays) {
  const TempDir dir;
  const MemoryPlan plan = plan_memory(long_options(dir, {}), real_fs(), PlanUse::kTrain);
  const Meter meter;
  const std::vector<SamplePtr> samples = generated_samples(kPrompts);
  expect_bound(meter.peak(), outside(plan, "samples"), 1.25, "samples");
}

TEST(StepHeap, TrainingArraysTakeWhatThePlanSays) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{}, std::vector<std::string>{"algo.kl.where=loss"},
        std::vector<std::string>{"algo.kl.where=reward", "algo.advantage=reinforce_pp"},
        std::vector<std::string>{"algo.kl.where=reward", "algo.advantage=gae"},
        std::vector<std::string>{"algo.policy_loss=gspo"}}) {
    const TempDir dir;
    const OptionSet o = long_options(dir, texts);
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.back());
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kTrain);
    const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
    TrainerSession trainer(model, testing::for_session(o));
    trainer.step(generated_samples(1));  // makes the kernels of a micro-batch
    const std::vector<SamplePtr> samples = generated_samples(kPrompts);
    const Meter meter;
    trainer.step(samples);
    expect_bound(meter.peak(), outside(plan, "arrays of a training step"), 2.0,
                 texts.empty() ? "defaults" : texts.back().c_str());
  }
}

#endif

}  // namespace
}  // namespace rl

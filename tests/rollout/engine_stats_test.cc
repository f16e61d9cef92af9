// The engine's figures are exact: time passes only where a test lets it, so every count, wait and
// interval has one right value.
#include <gtest/gtest.h>

#include <vector>

#include "core/trace.h"
#include "rollout/engine_fixture.h"
#include "support/fake_clock.h"

namespace rl::testing {
namespace {

// Each parallel section takes 1 us.
class TimedExecutor final : public Executor {
 public:
  explicit TimedExecutor(FakeClock& clock) : clock_(clock), base_(make_thread_executor(1)) {}
  int num_threads() const override { return base_->num_threads(); }
  void parallel_for(int64_t count, FunctionRef<void(int64_t, int)> task) override {
    base_->parallel_for(count, task);
    clock_.advance(1000);
  }

 private:
  FakeClock& clock_;
  std::unique_ptr<Executor> base_;
};

class EngineFigures : public ::testing::Test {
 protected:
  TestEngine make(const EngineOptions& options, int64_t num_blocks = 1024) {
    return TestEngine(tiny_, options, num_blocks, nullptr, &tracer_);
  }
  // A step, after which ns pass.
  void step(TestEngine& test, int64_t ns = 10) {
    ASSERT_TRUE(test.engine.step());
    clock_.advance(ns);
  }

  FakeClock clock_;
  Tracer tracer_{clock_};
  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 1};
};

Request prompt_of(int32_t id, size_t length, int64_t tokens, uint64_t ordinal) {
  return make_request(std::vector<int32_t>(length, id), tokens, 1.0f, ordinal);
}

TEST_F(EngineFigures, ASampleKnowsWhenItWaitedRanAndGotATokenFirst) {
  TestEngine test = make({.max_num_seqs = 1, .max_num_batched_tokens = 4});
  clock_.advance(100);
  test.engine.submit(prompt_of(5, 8, 3, 0));  // two steps of prompt, then two of decode
  clock_.advance(50);
  test.engine.submit(prompt_of(6, 4, 2, 1));
  clock_.advance(7);
  while (!test.engine.idle()) step(test);
  const SampleMap samples = test.take();
  const Sample &a = *samples.at({0, 0}), &b = *samples.at({1, 0});
  EXPECT_EQ(a.submitted_ns, 100);
  EXPECT_EQ(a.admitted_ns, 157);
  EXPECT_EQ(a.first_token_ns, 167);
  EXPECT_EQ(a.finished_ns, 187);
  EXPECT_EQ(b.submitted_ns, 150);
  EXPECT_EQ(b.admitted_ns, 197);
  EXPECT_EQ(b.first_token_ns, 197);
  EXPECT_EQ(b.finished_ns, 207);
  const EngineStats s = test.engine.stats();
  EXPECT_EQ(s.admitted, 2);
  EXPECT_EQ(s.queue_ns, 57 + 47);
  EXPECT_EQ(s.longest_queue_ns, 57);
  EXPECT_EQ(s.first_tokens, 2);
  EXPECT_EQ(s.first_token_ns, 67 + 47);
  EXPECT_EQ(s.longest_first_token_ns, 67);
  EXPECT_EQ(s.generated_tokens, 5);
  EXPECT_EQ(s.finished, 2);
  EXPECT_EQ(s.aborted, 0);
  EXPECT_EQ(s.busy_ns, 107);
  EXPECT_EQ(s.prefill_ns + s.decode_ns, 0);  // no time passed inside a step
}

TEST_F(EngineFigures, TimeInsideStepsIsThatOfPrefillOrOfDecode) {
  const TinyModel timed(TinyModel::fixture("llama"), std::make_unique<TimedExecutor>(clock_));
  TestEngine test(timed, {}, 64, nullptr, &tracer_);
  const int64_t begin = clock_.now_ns();
  test.engine.submit(prompt_of(5, 8, 3, 0));
  test.engine.step();
  const int64_t prefilled = clock_.now_ns();
  while (test.engine.step()) {
  }
  const EngineStats s = test.engine.stats();
  EXPECT_GT(prefilled, begin);
  EXPECT_EQ(s.prefill_ns, prefilled - begin);
  EXPECT_EQ(s.decode_ns, clock_.now_ns() - prefilled);
  EXPECT_EQ(s.busy_ns, clock_.now_ns() - begin);
  // One section of a step samples; the others are the forward's and the head's.
  EXPECT_EQ(s.prefill_ns + s.decode_ns - s.model_ns, 3 * 1000);
}

TEST_F(EngineFigures, AResumedSampleHasTheTimesOfItsLastRequestAndAllItsPreemptions) {
  TestEngine test = make({});
  clock_.advance(5);
  test.engine.submit(prompt_of(5, 8, 2, 0));
  while (!test.engine.idle()) step(test);
  auto before = std::make_shared<Sample>(*test.take().at({0, 0}));
  before->preemptions = 3;
  Request r = make_request({}, 2, 1.0f, 0);
  r.resume = before;
  clock_.advance(100);
  const int64_t submitted = clock_.now_ns();
  test.engine.submit(r);
  clock_.advance(1);
  while (!test.engine.idle()) step(test);
  const Sample after = *test.take().at({0, 0});
  EXPECT_EQ(after.generated(), 4);
  EXPECT_EQ(after.submitted_ns, submitted);
  EXPECT_EQ(after.admitted_ns, submitted + 1);
  EXPECT_EQ(after.first_token_ns, submitted + 1);
  EXPECT_EQ(after.finished_ns, submitted + 11);
  EXPECT_EQ(after.preemptions, 3u);
}

TEST_F(EngineFigures, FewerPlacesMeanLongerQueues) {
  std::vector<int64_t> waits;
  for (const int64_t places : {8, 2, 1}) {
    TestEngine test = make({.max_num_seqs = places});
    for (uint64_t i = 0; i < 8; ++i) test.engine.submit(prompt_of(5, 4, 4, i));
    while (!test.engine.idle()) step(test);
    waits.push_back(test.engine.stats().queue_ns);
  }
  // Four steps a sample: two at a time wait 0, 40, 80 and 120 ns, one at a time 0, 40, .. 280.
  EXPECT_EQ(waits, (std::vector<int64_t>{0, 2 * 240, 1120}));
}

TEST_F(EngineFigures, ASmallPoolPreemptsAndTheSamplesKnow) {
  for (const int64_t blocks : {4, 64}) {
    TestEngine test = make({.max_num_seqs = 4}, blocks);
    for (uint64_t i = 0; i < 4; ++i) {
      test.engine.submit(prompt_of(static_cast<int32_t>(5 + i), 10, 30, i));
    }
    int64_t peak = 0;
    while (!test.engine.idle()) {
      step(test);
      peak = std::max(peak, test.engine.stats().blocks_in_use);
    }
    int64_t of_samples = 0;
    for (const auto& [key, s] : test.take()) of_samples += s->preemptions;
    const EngineStats s = test.engine.stats();
    EXPECT_EQ(s.preemptions, of_samples);
    EXPECT_EQ(s.preemptions > 0, blocks == 4);
    EXPECT_EQ(s.admitted, 4);  // running again is no admission
    EXPECT_GE(s.blocks_peak, peak);
    EXPECT_LE(s.blocks_peak, blocks);
    test.engine.restart_peak();
    EXPECT_EQ(test.engine.stats().blocks_peak, 0);
  }
}

TEST_F(EngineFigures, TheHitRateIsOfTokensLookedUp) {
  TestEngine test = make({});
  std::vector<int32_t> prompt(40);
  for (int32_t i = 0; i < 40; ++i) prompt[static_cast<size_t>(i)] = i;
  test.run({make_request(prompt, 2, 1.0f, 0)});
  EXPECT_EQ(test.engine.stats().looked_up_tokens, 40);
  EXPECT_EQ(test.engine.stats().cached_tokens, 0);
  test.run({make_request(prompt, 2, 1.0f, 1)});
  EXPECT_EQ(test.engine.stats().looked_up_tokens, 80);
  EXPECT_EQ(test.engine.stats().cached_tokens, 32);  // two whole blocks of 16
}

TEST_F(EngineFigures, AbortedSamplesAreCounted) {
  TestEngine test = make({.max_num_seqs = 1});
  test.engine.submit(prompt_of(5, 4, 4, 0));
  test.engine.submit(prompt_of(5, 4, 4, 1));
  step(test);
  test.engine.abort_all();
  const EngineStats s = test.engine.stats();
  EXPECT_EQ(s.finished, 2);
  EXPECT_EQ(s.aborted, 2);
  EXPECT_EQ(s.admitted, 1);
  EXPECT_EQ(s.busy_ns, 10);
}

TEST_F(EngineFigures, IntervalsAreOfBusyTimeAndAddUp) {
  TestEngine test = make({.max_num_seqs = 2, .stats_interval_ns = 25});
  EXPECT_FALSE(test.engine.last_interval());
  EngineStats sum;
  int64_t begun = 0;
  std::vector<int64_t> lengths;
  for (uint64_t round = 0; round < 3; ++round) {
    clock_.advance(1'000'000);  // nothing to do
    for (uint64_t i = 0; i < 3; ++i) test.engine.submit(prompt_of(5, 20, 4, 3 * round + i));
    while (!test.engine.idle()) {
      step(test);
      if (const auto interval = test.engine.take_interval()) {
        EXPECT_FALSE(test.engine.take_interval()) << "taken twice";
        EXPECT_EQ(test.engine.last_interval()->busy_ns, interval->busy_ns);
        lengths.push_back(interval->busy_ns);
        EXPECT_EQ(interval->blocks_total, 1024);
        const EngineStats now = test.engine.stats();
        EXPECT_EQ(interval->running, now.running);
        EXPECT_EQ(interval->waiting, now.waiting);
        EXPECT_EQ(interval->started, now.started);
        EXPECT_EQ(interval->blocks_in_use, now.blocks_in_use);
        begun += now.started;
        sum += *interval;
      }
    }
  }
  // Eight steps a round, 10 ns apart: 70 ns of work, of which a step sees what passed before it.
  EXPECT_EQ(lengths, (std::vector<int64_t>{30, 30, 30, 30, 30, 30, 30}));
  const EngineStats all = test.engine.stats();
  EXPECT_EQ(all.busy_ns, 210);
  EXPECT_EQ(sum.busy_ns, all.busy_ns);
  EXPECT_EQ(sum.forwards, all.forwards);
  EXPECT_EQ(sum.generated_tokens, 9 * 4);
  EXPECT_EQ(sum.admitted, 9);
  EXPECT_EQ(sum.finished, 9);
  EXPECT_EQ(sum.queue_ns, all.queue_ns);
  EXPECT_EQ(sum.looked_up_tokens, all.looked_up_tokens);
  EXPECT_EQ(sum.cached_tokens, all.cached_tokens);
  EXPECT_GT(sum.cached_tokens, 0);
  EXPECT_GT(begun, 0);
}

TEST_F(EngineFigures, AnIntervalEndsWithTheStepThatFillsIt) {
  TestEngine test = make({.stats_interval_ns = 30});
  test.engine.submit(prompt_of(5, 20, 8, 0));
  std::vector<int64_t> lengths;
  while (!test.engine.idle()) {
    step(test);  // 10 ns
    if (const auto interval = test.engine.take_interval()) lengths.push_back(interval->busy_ns);
  }
  EXPECT_EQ(lengths, (std::vector<int64_t>{30, 30}));
}

TEST_F(EngineFigures, WithoutAnIntervalThereIsNone) {
  TestEngine test = make({});
  test.engine.submit(prompt_of(5, 20, 4, 0));
  while (!test.engine.idle()) step(test, 1'000'000'000);
  EXPECT_FALSE(test.engine.take_interval());
  EXPECT_FALSE(test.engine.last_interval());
}

}  // namespace
}  // namespace rl::testing

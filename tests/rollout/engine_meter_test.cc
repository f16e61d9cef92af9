// The counts of an engine: each in the total and in one interval, and of several engines together.
#include "rollout/engine_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>

namespace rl {
namespace {

// Every field of the stats, in the order of their declaration.
constexpr size_t kFields = sizeof(EngineStats) / sizeof(int64_t);
using Fields = std::array<int64_t, kFields>;

TEST(EngineStats, LongestTimesAreTheLongestAndAllElseIsAdded) {
  Fields one{}, other{}, sum{};
  for (size_t i = 0; i < kFields; ++i) {
    one[i] = static_cast<int64_t>(100 + i);
    other[i] = static_cast<int64_t>(1000 + 7 * i);
    sum[i] = one[i] + other[i];
  }
  const auto a = std::bit_cast<EngineStats>(one), b = std::bit_cast<EngineStats>(other);
  EngineStats expected = std::bit_cast<EngineStats>(sum);
  expected.longest_queue_ns = b.longest_queue_ns;
  expected.longest_first_token_ns = b.longest_first_token_ns;
  EngineStats total = a;
  EXPECT_EQ(std::bit_cast<Fields>(total += b), std::bit_cast<Fields>(expected));
  total = b;
  EXPECT_EQ(std::bit_cast<Fields>(total += a), std::bit_cast<Fields>(expected));
}

TEST(EngineStats, APartOfNothingIsZero) {
  EXPECT_EQ(ratio(1, 4), 0.25);
  EXPECT_EQ(ratio(0, 4), 0);
  EXPECT_EQ(ratio(3, 0), 0);
  EXPECT_EQ(ratio(5, 1), 5);
}

class EngineMeterTest : public ::testing::Test {
 protected:
  void submit(int64_t prompt) {
    Request r;
    r.prompt.assign(static_cast<size_t>(prompt), static_cast<int32_t>(number_));
    r.max_new_tokens = 4;
    scheduler_.submit(make_active(r, number_++, SchedulingPolicy::kFcfs));
  }

  KvBlocks blocks_{4, 16, true};
  SwapSpace swap_{0};
  Scheduler scheduler_{{.max_num_seqs = 1, .max_num_batched_tokens = 64}, blocks_, swap_};
  uint64_t number_ = 0;
};

void count_one_of_each(EngineMeter& meter) {
  for (const int64_t waited : {5, 3}) meter.admitted(waited);
  for (const int64_t waited : {4, 9}) meter.sampled_first_token(waited);
  for (const bool mixed : {false, true, true}) meter.sampled_token(mixed);
  for (const bool aborted : {false, true, false}) meter.finished(aborted);
  meter.nonfinite();
  for (const int64_t used : {3, 2}) meter.used_blocks(used);
  StepSchedule both, decodes;
  both.prefill_rows = 7;
  both.decode_rows = 2;
  decodes.decode_rows = 3;
  meter.forward(both, 40);
  meter.forward(decodes, 30);
  for (const int64_t elapsed : {11, 6}) meter.computed(elapsed);
}

void expect_one_of_each(const EngineStats& s) {
  EXPECT_EQ(s.admitted, 2);
  EXPECT_EQ(s.queue_ns, 8);
  EXPECT_EQ(s.longest_queue_ns, 5);
  EXPECT_EQ(s.first_tokens, 2);
  EXPECT_EQ(s.first_token_ns, 13);
  EXPECT_EQ(s.longest_first_token_ns, 9);
  EXPECT_EQ(s.generated_tokens, 3);
  EXPECT_EQ(s.mixed_kv_tokens, 2);
  EXPECT_EQ(s.finished, 3);
  EXPECT_EQ(s.aborted, 1);
  EXPECT_EQ(s.nonfinite, 1);
  EXPECT_EQ(s.blocks_peak, 3);
  EXPECT_EQ(s.forwards, 2);
  EXPECT_EQ(s.prefill_tokens, 7);
  EXPECT_EQ(s.decode_tokens, 5);
  EXPECT_EQ(s.prefill_ns, 40) << "of steps that prefilled, whatever they decoded";
  EXPECT_EQ(s.decode_ns, 30);
  EXPECT_EQ(s.model_ns, 17);
}

TEST_F(EngineMeterTest, EveryCountIsInTheTotalAndInOneInterval) {
  EngineMeter meter(10);
  meter.begin_work(100);
  count_one_of_each(meter);
  expect_one_of_each(meter.total());
  EXPECT_FALSE(meter.last_interval());
  meter.settle(scheduler_, blocks_, 110);
  const std::optional<EngineStats> first = meter.take_interval();
  ASSERT_TRUE(first);
  expect_one_of_each(*first);
  EXPECT_EQ(first->busy_ns, 10);
  meter.begin_work(500);
  meter.settle(scheduler_, blocks_, 512);
  const std::optional<EngineStats> second = meter.take_interval();
  ASSERT_TRUE(second);
  EngineStats idle;
  idle.busy_ns = 12;
  idle.blocks_total = 4;
  EXPECT_EQ(std::bit_cast<Fields>(*second), std::bit_cast<Fields>(idle));
  expect_one_of_each(meter.total());
  EXPECT_EQ(meter.total().busy_ns, 22);
}

TEST_F(EngineMeterTest, WorkBeginsOnceAndEndsWhenNothingCanRun) {
  EngineMeter meter(0);
  meter.settle(scheduler_, blocks_, 50);
  EXPECT_EQ(meter.total().busy_ns, 0) << "nothing had begun";
  meter.begin_work(100);
  meter.begin_work(105);
  meter.settle(scheduler_, blocks_, 110);
  EXPECT_EQ(meter.total().busy_ns, 10);
  meter.settle(scheduler_, blocks_, 200);
  EXPECT_EQ(meter.total().busy_ns, 10);
  submit(20);
  meter.begin_work(300);
  meter.settle(scheduler_, blocks_, 304);
  meter.settle(scheduler_, blocks_, 309);
  EXPECT_EQ(meter.total().busy_ns, 19) << "work goes on";
  scheduler_.set_admitting(false);
  meter.settle(scheduler_, blocks_, 310);
  meter.settle(scheduler_, blocks_, 400);
  EXPECT_EQ(meter.total().busy_ns, 20) << "what waits for admissions is no work";
}

TEST_F(EngineMeterTest, AnIntervalHasTheLevelsOfItsEndAndTheSchedulersNewCounts) {
  EngineMeter meter(10);
  submit(20);
  submit(30);
  meter.begin_work(0);
  scheduler_.next();
  meter.settle(scheduler_, blocks_, 4);
  EXPECT_FALSE(meter.take_interval());
  meter.settle(scheduler_, blocks_, 10);
  const std::optional<EngineStats> interval = meter.take_interval();
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->running, 1);
  EXPECT_EQ(interval->waiting, 1);
  EXPECT_EQ(interval->started, 1);
  EXPECT_EQ(interval->blocks_in_use, 2);
  EXPECT_EQ(interval->blocks_total, 4);
  EXPECT_EQ(interval->looked_up_tokens, 20);
  EXPECT_EQ(interval->cached_tokens, 0);
  meter.settle(scheduler_, blocks_, 20);
  EXPECT_EQ(meter.take_interval()->looked_up_tokens, 0) << "counted before";
  EXPECT_EQ(meter.total().looked_up_tokens, 20);
}

TEST_F(EngineMeterTest, AnIntervalIsTakenOnceAndTheLastOneStays) {
  EngineMeter meter(10);
  EXPECT_FALSE(meter.take_interval());
  const auto work = [&](int64_t begin, int64_t end) {
    meter.begin_work(begin);
    meter.settle(scheduler_, blocks_, end);
  };
  work(0, 9);
  EXPECT_FALSE(meter.take_interval()) << "9 of 10";
  EXPECT_FALSE(meter.last_interval());
  work(20, 21);
  EXPECT_EQ(meter.last_interval()->busy_ns, 10);
  work(30, 45);
  EXPECT_EQ(meter.take_interval()->busy_ns, 15) << "the newest, when none was taken between";
  EXPECT_FALSE(meter.take_interval());
  EXPECT_EQ(meter.last_interval()->busy_ns, 15);
  work(50, 52);
  EXPECT_FALSE(meter.take_interval());
  EXPECT_EQ(meter.last_interval()->busy_ns, 15);
}

TEST_F(EngineMeterTest, APeakThatIsRestartedIsOfTheTotalAlone) {
  EngineMeter meter(10);
  meter.begin_work(0);
  meter.used_blocks(3);
  meter.restart_peak(1);
  EXPECT_EQ(meter.total().blocks_peak, 1);
  meter.used_blocks(2);
  EXPECT_EQ(meter.total().blocks_peak, 2);
  meter.settle(scheduler_, blocks_, 10);
  EXPECT_EQ(meter.take_interval()->blocks_peak, 3);
}

}  // namespace
}  // namespace rl

// Trace emit points: nothing without a sink, right times and lanes with one.
#include "core/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "support/fake_clock.h"

namespace rl {
namespace {

class Collect final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    const std::lock_guard lock(mutex);
    spans.push_back(span);
  }
  void counter(const char* name, uint32_t lane, int64_t time_ns, double value) noexcept override {
    counters.push_back({name, lane, time_ns, value});
  }
  void lane_name(uint32_t lane, std::string_view name) noexcept override {
    lanes.emplace_back(lane, name);
  }
  struct Counter {
    std::string name;
    uint32_t lane;
    int64_t time_ns;
    double value;
  };
  std::mutex mutex;
  std::vector<TraceSpan> spans;
  std::vector<Counter> counters;
  std::vector<std::pair<uint32_t, std::string>> lanes;
};

TEST(Tracer, EmitsNothingWithoutASinkOrTracer) {
  Tracer tracer;
  { const ScopedSpan span(&tracer, "step", 0); }
  { const ScopedSpan span(nullptr, "step", 0); }
  tracer.counter("queued", 0, 1);
  const auto sink = std::make_shared<Collect>();
  tracer.set_sink(sink);
  EXPECT_TRUE(sink->spans.empty());
  EXPECT_TRUE(sink->counters.empty());
}

TEST(Tracer, SpansNestWithTimesLaneAndArgument) {
  FakeClock clock;
  Tracer tracer(clock);
  const auto sink = std::make_shared<Collect>();
  tracer.set_sink(sink);
  tracer.lane_name(3, "trainer");
  clock.advance(10);
  {
    ScopedSpan outer(&tracer, "step", 3);
    clock.advance(5);
    {
      ScopedSpan inner(&tracer, "forward", 3);
      inner.set_arg("tokens", 512);
      clock.advance(7);
    }
    clock.advance(1);
  }
  tracer.counter("kv blocks", 1, 2.5);
  ASSERT_EQ(sink->spans.size(), 2u);
  const TraceSpan& inner = sink->spans[0];
  EXPECT_STREQ(inner.name, "forward");
  EXPECT_EQ(inner.start_ns, 15);
  EXPECT_EQ(inner.end_ns, 22);
  EXPECT_STREQ(inner.arg_name, "tokens");
  EXPECT_EQ(inner.arg_value, 512);
  const TraceSpan& outer = sink->spans[1];
  EXPECT_STREQ(outer.name, "step");
  EXPECT_EQ(outer.lane, 3u);
  EXPECT_EQ(outer.start_ns, 10);
  EXPECT_EQ(outer.end_ns, 23);
  EXPECT_EQ(outer.arg_name, nullptr);
  ASSERT_EQ(sink->counters.size(), 1u);
  EXPECT_EQ(sink->counters[0].time_ns, 23);
  EXPECT_EQ(sink->counters[0].value, 2.5);
  ASSERT_EQ(sink->lanes.size(), 1u);
  EXPECT_EQ(sink->lanes[0].second, "trainer");
}

TEST(Tracer, OpenSpanGoesToTheSinkItBeganWith) {
  Tracer tracer;
  auto first = std::make_shared<Collect>();
  const std::weak_ptr<Collect> watch = first;
  tracer.set_sink(first);
  {
    const ScopedSpan span(&tracer, "step", 0);
    first.reset();
    tracer.set_sink(nullptr);
  }
  ASSERT_FALSE(watch.expired());
  EXPECT_EQ(watch.lock()->spans.size(), 1u);
}

TEST(Tracer, TheSinkBeforeTakesOverWhenTheNewestEnds) {
  Tracer tracer;
  const auto first = std::make_shared<Collect>(), second = std::make_shared<Collect>();
  tracer.set_sink(first);
  tracer.set_sink(second);
  tracer.counter("a", 0, 1);
  tracer.end_sink(second.get());
  tracer.counter("b", 0, 2);
  ASSERT_EQ(second->counters.size(), 1u);
  ASSERT_EQ(first->counters.size(), 1u);
  EXPECT_EQ(first->counters[0].name, "b");
  tracer.set_sink(second);
  tracer.end_sink(first.get());  // not the newest: nothing changes for that one
  EXPECT_EQ(tracer.sink(), second.get());
  tracer.end_sink(second.get());
  EXPECT_EQ(tracer.sink(), nullptr);
}

TEST(Tracer, TakesSpansFromManyThreads) {
  Tracer tracer;
  const auto sink = std::make_shared<Collect>();
  std::vector<std::thread> threads;
  for (uint32_t lane = 0; lane < 4; ++lane) {
    threads.emplace_back([&tracer, lane] {
      for (int i = 0; i < 200; ++i) const ScopedSpan span(&tracer, "work", lane);
    });
  }
  tracer.set_sink(sink);
  for (std::thread& thread : threads) thread.join();
  { const ScopedSpan span(&tracer, "last", 9); }
  ASSERT_FALSE(sink->spans.empty());
  EXPECT_STREQ(sink->spans.back().name, "last");
  for (const TraceSpan& span : sink->spans) EXPECT_LE(span.start_ns, span.end_ns);
}

}  // namespace
}  // namespace rl

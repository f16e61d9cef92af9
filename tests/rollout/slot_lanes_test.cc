// What a trace shows of samples: each on one lane at a time, no two on one lane, every stretch
// under its name, and nothing at all without a sink.
#include "rollout/slot_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "rollout/engine_fixture.h"
#include "support/fake_clock.h"

namespace rl::testing {
namespace {

class LaneSink final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    if (span.lane >= kFirstSampleLane) lanes[span.lane - kFirstSampleLane].push_back(span);
  }
  void counter(const char*, uint32_t, int64_t, double) noexcept override {}
  void lane_name(uint32_t lane, std::string_view name) noexcept override {
    names[lane - kFirstSampleLane] = name;
  }
  std::vector<TraceSpan> named(std::string_view name) const {
    std::vector<TraceSpan> out;
    for (const auto& [lane, spans] : lanes) {
      for (const TraceSpan& s : spans) {
        if (s.name == name) out.push_back(s);
      }
    }
    return out;
  }
  std::map<uint32_t, std::vector<TraceSpan>> lanes;
  std::map<uint32_t, std::string> names;
};

int64_t sum_of_args(const std::vector<TraceSpan>& spans) {
  int64_t sum = 0;
  for (const TraceSpan& s : spans) sum += s.arg_value;
  return sum;
}

std::string text_of(const std::vector<TraceSpan>& spans) {
  std::string text;
  for (const TraceSpan& s : spans) {
    text += str(s.name, " ", s.start_ns, "-", s.end_ns, " ", s.arg_name, "=", s.arg_value, "\n");
  }
  return text;
}

// Spans of a lane lie one after another, or one inside another.
void expect_nested(std::vector<TraceSpan> spans) {
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_LE(spans[i].start_ns, spans[i].end_ns);
    for (size_t k = 0; k < i; ++k) {
      const TraceSpan &a = spans[i], &b = spans[k];
      const bool apart = a.end_ns <= b.start_ns || b.end_ns <= a.start_ns;
      const bool inside = (a.start_ns >= b.start_ns && a.end_ns <= b.end_ns) ||
                          (b.start_ns >= a.start_ns && b.end_ns <= a.end_ns);
      EXPECT_TRUE(apart || inside) << a.name << " and " << b.name << " on lane " << a.lane;
    }
  }
}

class SlotLanesTest : public ::testing::Test {
 protected:
  void run(TestEngine& test, int64_t steps = 1 << 20) {
    for (int64_t i = 0; i < steps && test.engine.step(); ++i) clock_.advance(10);
  }

  FakeClock clock_;
  Tracer tracer_{clock_};
  std::shared_ptr<LaneSink> sink_ = std::make_shared<LaneSink>();
  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 1};
};

Request request(int32_t id, size_t length, int64_t tokens, uint64_t number) {
  Request r = make_request(std::vector<int32_t>(length, id), tokens, 1.0f, number);
  r.first_sample_id = 100 + number;
  return r;
}

TEST_F(SlotLanesTest, ASampleIsQueuedThenPrefilledThenDecoded) {
  tracer_.set_sink(sink_);
  TestEngine test(tiny_, {.max_num_seqs = 1}, 64, nullptr, &tracer_);
  test.engine.submit(request(5, 4, 3, 0));
  clock_.advance(5);
  test.engine.submit(request(6, 4, 2, 1));
  clock_.advance(10);
  run(test);
  ASSERT_EQ(sink_->lanes.size(), 1u);
  EXPECT_EQ(sink_->names.at(0), "engine 0 slot 0");
  // The second waits from 5 on; the lane is empty from 35 to 45.
  EXPECT_EQ(text_of(sink_->lanes.at(0)),
            "sample.queued 0-15 waited_ns=15\n"
            "sample 15-35 id=100\nsample.prefill 15-15 cached_tokens=0\n"
            "sample.decode 15-35 tokens=2\n"
            "sample.queued 35-45 waited_ns=40\n"
            "sample 45-55 id=101\nsample.prefill 45-45 cached_tokens=0\n"
            "sample.decode 45-55 tokens=1\n");
}

TEST_F(SlotLanesTest, ASampleOfOneTokenDecodesNothing) {
  tracer_.set_sink(sink_);
  TestEngine test(tiny_, {}, 64, nullptr, &tracer_);
  test.engine.submit(request(5, 4, 1, 0));
  run(test);
  EXPECT_EQ(sink_->named("sample.prefill").size(), 1u);
  EXPECT_TRUE(sink_->named("sample.decode").empty());
  EXPECT_TRUE(sink_->named("sample.queued").empty()) << "it ran at once";
}

// A running sequence of a sample with this id, which waited from `since_ns` on.
std::unique_ptr<ActiveRequest> running(uint64_t id, int64_t since_ns) {
  Request r = make_request({1, 2}, 9);
  r.first_sample_id = id;
  auto active = make_active(r, id, SchedulingPolicy::kFcfs);
  Sequence& s = active->sequences[0];
  s.sample = make_sample(s);
  s.state = SequenceState::kRunning;
  s.waits_since_ns = since_ns;
  return active;
}

TEST_F(SlotLanesTest, LanesAreNumberedByEngineAndShowStaysAndWaits) {
  tracer_.set_sink(sink_);
  SlotLanes lanes(&tracer_, 2);
  const auto first = running(100, 0), second = running(101, 4), third = running(102, 5);
  Sequence &a = first->sequences[0], &b = second->sequences[0], &c = third->sequences[0];
  std::vector<Sequence*> both = {&a, &b};
  a.computed = 32;
  lanes.scheduled(both, 10);
  a.admitted = b.admitted = true;
  EXPECT_EQ(a.lane, 0);
  EXPECT_EQ(b.lane, 1);
  EXPECT_EQ(a.waits_since_ns, -1);
  a.sample->ids.push_back(7);
  lanes.sampled_token(a, 20);
  a.sample->ids.insert(a.sample->ids.end(), {8, 9});
  lanes.sampled_token(a, 30);
  b.state = SequenceState::kWaiting;
  lanes.scheduled(std::span(both).first(1), 40);
  EXPECT_EQ(b.lane, -1);
  EXPECT_EQ(b.waits_since_ns, 40);
  b.state = SequenceState::kRunning;
  b.computed = 16;
  lanes.scheduled(both, 55);
  EXPECT_EQ(b.lane, 1);
  lanes.ended(a, 60);
  EXPECT_EQ(a.lane, -1);
  lanes.ended(a, 61);  // it has no lane any more
  lanes.sampled_token(a, 62);
  both[0] = &c;
  lanes.scheduled(both, 70);
  EXPECT_EQ(c.lane, 0) << "the first empty lane";
  lanes.ended(b, 80);
  lanes.ended(c, 90);
  constexpr uint32_t kFirst = 2 << 16;
  ASSERT_EQ(sink_->lanes.size(), 2u);
  EXPECT_EQ(sink_->names.at(kFirst), "engine 2 slot 0");
  EXPECT_EQ(sink_->names.at(kFirst + 1), "engine 2 slot 1");
  EXPECT_EQ(text_of(sink_->lanes.at(kFirst)),
            "sample.queued 0-10 waited_ns=10\n"
            "sample 10-60 id=100\nsample.prefill 10-20 cached_tokens=32\n"
            "sample.decode 20-60 tokens=2\n"
            "sample.queued 60-70 waited_ns=65\n"
            "sample 70-90 id=102\nsample.prefill 70-90 cached_tokens=0\n");
  EXPECT_EQ(text_of(sink_->lanes.at(kFirst + 1)),
            "sample.queued 4-10 waited_ns=6\n"
            "sample 10-40 id=101\nsample.prefill 10-40 cached_tokens=0\n"
            "sample.preempted 40-55 waited_ns=15\n"
            "sample 55-80 id=101\nsample.prefill 55-80 cached_tokens=16\n");
}

TEST_F(SlotLanesTest, PreemptedSamplesLeaveTheirLaneAndComeBack) {
  tracer_.set_sink(sink_);
  TestEngine test(tiny_, {.max_num_seqs = 4}, 4, nullptr, &tracer_);
  for (uint64_t i = 0; i < 6; ++i) test.engine.submit(request(static_cast<int32_t>(i), 10, 30, i));
  Request group = request(9, 10, 5, 6);
  group.num_samples = 3;
  test.engine.submit(group);
  run(test);
  const int64_t preemptions = test.engine.stats().preemptions;
  EXPECT_GT(preemptions, 0);
  EXPECT_LE(sink_->lanes.size(), 4u);
  for (const auto& [lane, spans] : sink_->lanes) expect_nested(spans);
  const auto stays = sink_->named("sample");
  EXPECT_GE(static_cast<int64_t>(stays.size()), 9 + preemptions);
  // Each stay draws its first token in the prefill, unless it was preempted before.
  const int64_t decoded = sum_of_args(sink_->named("sample.decode"));
  EXPECT_LE(decoded, test.engine.stats().generated_tokens - 9);
  EXPECT_GE(decoded, test.engine.stats().generated_tokens - static_cast<int64_t>(stays.size()));
  EXPECT_FALSE(sink_->named("sample.preempted").empty());
  std::map<int64_t, int64_t> end;  // of the last stay, by sample
  for (const TraceSpan& s : stays) end[s.arg_value] = std::max(end[s.arg_value], s.end_ns);
  for (const auto& [key, sample] : test.take()) {
    EXPECT_EQ(end.at(static_cast<int64_t>(sample->id)), sample->finished_ns);
  }
}

TEST_F(SlotLanesTest, ARecordMayBeginAndEndWhileSamplesRun) {
  TestEngine test(tiny_, {}, 64, nullptr, &tracer_);
  test.engine.submit(request(5, 4, 20, 0));
  run(test, 5);
  tracer_.set_sink(sink_);
  run(test, 5);
  tracer_.end_sink(sink_.get());
  run(test, 5);
  EXPECT_TRUE(sink_->lanes.empty());  // the stay did not end in its time
  tracer_.set_sink(sink_);
  run(test);
  const auto stays = sink_->named("sample");
  ASSERT_EQ(stays.size(), 1u);
  EXPECT_EQ(stays[0].start_ns, 150);
  EXPECT_EQ(stays[0].end_ns, 190);
  EXPECT_TRUE(sink_->named("sample.queued").empty());
}

TEST_F(SlotLanesTest, AbortedSamplesLeaveTheirLanes) {
  tracer_.set_sink(sink_);
  TestEngine test(tiny_, {.max_num_seqs = 2}, 64, nullptr, &tracer_);
  for (uint64_t i = 0; i < 4; ++i) test.engine.submit(request(5, 4, 20, i));
  run(test, 3);
  test.engine.abort_all();
  EXPECT_EQ(sink_->named("sample").size(), 2u);
  test.engine.submit(request(5, 4, 2, 4));
  run(test);
  EXPECT_EQ(sink_->named("sample").size(), 3u);
}

}  // namespace
}  // namespace rl::testing

// Metric lists, the metrics file and the trace.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "profile/metrics_writer.h"
#include "profile/trace_recorder.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

MetricList line(uint64_t step, double value = 0.5) {
  MetricList m;
  m.set(kStepMetric, static_cast<double>(step));
  m.set("critic/rewards/mean", value);
  m.set("timing_s/step", 1.25);
  m.set("perf/tokens", 2);
  return m;
}

TEST(MetricList, KeepsOrderAndReplacesByName) {
  MetricList m = line(3);
  m.set("critic/rewards/mean", 0.1);
  EXPECT_EQ(m.to_json(), R"({"training/global_step":3,"critic/rewards/mean":0.1,)"
                         R"("timing_s/step":1.25,"perf/tokens":2})");
  EXPECT_EQ(m.without_times().size(), 2u);
  EXPECT_EQ(m.get("timing_s/step"), 1.25);
  EXPECT_EQ(m.get("none"), std::nullopt);
}

TEST(MetricList, ValuesThatAreNotFiniteAreNull) {
  MetricList m;
  m.set("a", std::nan(""));
  m.set("b", INFINITY);
  EXPECT_EQ(m.to_json(), R"({"a":null,"b":null})");
}

TEST(MetricsWriter, WritesOneLineAStep) {
  const TempDir dir;
  MetricsWriter w(real_fs(), dir.file("m.jsonl"), 0);
  w.write(line(1));
  w.write(line(2));
  w.close();
  const std::string text = read_text_file(real_fs(), dir.file("m.jsonl"), 1 << 20);
  EXPECT_EQ(text, line(1).to_json() + "\n" + line(2).to_json() + "\n");
}

TEST(MetricsWriter, AResumeCutsOffLaterAndTornLines) {
  const TempDir dir;
  const std::string path = dir.file("m.jsonl");
  const std::string torn = line(1).to_json() + "\n" + line(2).to_json() + "\n" + line(3).to_json() +
                           "\n" + line(4).to_json().substr(0, 20);
  write_file_atomically(real_fs(), path, torn);
  {
    MetricsWriter w(real_fs(), path, 2);
    w.write(line(3, 0.75));
  }
  EXPECT_EQ(read_text_file(real_fs(), path, 1 << 20),
            line(1).to_json() + "\n" + line(2).to_json() + "\n" + line(3, 0.75).to_json() + "\n");
  write_file_atomically(real_fs(), path, "{}\n");
  EXPECT_EQ(expect_error(Code::kDataLoss, [&] { MetricsWriter(real_fs(), path, 2); }).location,
            path + ":1");
}

TEST(MetricsWriter, CheckingFindsABrokenLineAndChangesNothing) {
  const TempDir dir;
  const std::string path = dir.file("m.jsonl"),
                    good = line(1).to_json() + "\n" + line(5).to_json() + "\n";
  write_file_atomically(real_fs(), path, good);
  MetricsWriter::check(real_fs(), path, 1);
  EXPECT_EQ(read_text_file(real_fs(), path, 1 << 20), good);
  write_file_atomically(real_fs(), path, "{}\n" + good);
  const Error e = expect_error(Code::kDataLoss, [&] { MetricsWriter::check(real_fs(), path, 1); });
  EXPECT_EQ(e.location, path + ":1");
}

TEST(MetricsWriter, AFullDiskIsAnError) {
  const TempDir dir;
  FaultFs fs;
  MetricsWriter w(fs, dir.file("m.jsonl"), 0);
  fs.arm({.at = 1, .system_code = ENOSPC});
  EXPECT_EQ(expect_error(Code::kIo, [&] { w.write(line(1)); }).system_code, ENOSPC);
}

TEST(MetricsWriter, AFileThatCannotBeSyncedIsClosed) {
  const TempDir dir;
  FaultFs fs;
  MetricsWriter w(fs, dir.file("m.jsonl"), 0);
  fs.arm({.at = 1});
  const Error e = expect_error(Code::kIo, [&] { w.close(); });
  EXPECT_NE(e.message.find("cannot sync"), std::string::npos) << e.message;
  EXPECT_EQ(fs.operations(), 2) << "sync and close";
}

TEST(TraceRecorder, ASumBeyondAllTimesIsTheLargest) {
  TraceRecorder r;
  const int64_t latest = int64_t{1} << 62;  // which a host may say
  for (int i = 0; i < 4; ++i) r.span({"long", kFirstHostLane, 0, latest, nullptr, 0});
  ASSERT_EQ(r.summary().size(), 1u);
  EXPECT_EQ(r.summary()[0].count, 4);
  EXPECT_EQ(r.summary()[0].total_ns, INT64_MAX);
}

TEST(TraceRecorder, WritesAChromeTrace) {
  TraceRecorder r;
  r.lane_name(1, "engine \"one\"");
  r.span({"inner", 1, 2500, 3000, "tokens", 7});
  r.span({"outer", 1, 2000, 4001, nullptr, 0});
  r.counter("kv", 1, 2200, 0.5);
  const auto json = nlohmann::json::parse(r.to_json());
  EXPECT_EQ(json.at("otherData").at("dropped_records"), 0);
  const auto& events = json.at("traceEvents");
  ASSERT_EQ(events.size(), 5u);  // process and thread names, two spans, a counter
  EXPECT_EQ(events[1].at("args").at("name"), "engine \"one\"");
  EXPECT_EQ(events[2].at("name"), "outer");
  EXPECT_DOUBLE_EQ(events[2].at("ts"), 0.0);
  EXPECT_DOUBLE_EQ(events[2].at("dur"), 2.001);
  EXPECT_EQ(events[3].at("name"), "inner");
  EXPECT_DOUBLE_EQ(events[3].at("ts"), 0.5);
  EXPECT_EQ(events[3].at("args").at("tokens"), 7);
  EXPECT_EQ(events[4].at("ph"), "C");
  EXPECT_EQ(events[4].at("args").at("value"), 0.5);
}

// A clock that is ahead of 1970 by a day when it starts.
class DayClock final : public Clock {
 public:
  int64_t now_ns() const override { return 500; }
  int64_t unix_ns() const override { return int64_t{86400} * 1'000'000'000; }
};

TEST(TraceRecorder, SaysWhenItsFirstRecordWas) {
  const DayClock clock;
  TraceRecorder r(10, clock);
  r.span({"first", 1, 2000, 3000, nullptr, 0});
  const auto json = nlohmann::json::parse(r.to_json());
  EXPECT_EQ(json.at("otherData").at("origin_ns"), "2000");
  EXPECT_EQ(json.at("otherData").at("origin_unix_ns"), "86400000001500");
}

TEST(TraceRecorder, IsBoundedAndCountsWhatItDrops) {
  TraceRecorder r(10);
  {
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&r, t] {
        for (int i = 0; i < 100; ++i) r.span({"s", t, i, i + 1, nullptr, 0});
      });
    }
  }
  EXPECT_EQ(r.num_records(), 10u);
  EXPECT_EQ(r.num_dropped(), 390u);
  EXPECT_EQ(nlohmann::json::parse(r.to_json()).at("otherData").at("dropped_records"), 390);
}

TEST(TraceRecorder, ADiscardedOneTakesNothingMore) {
  TraceRecorder r;
  r.span({"a", 0, 1, 2, nullptr, 0});
  r.counter("b", 0, 1, 1.0);
  EXPECT_EQ(r.num_records(), 2u);
  r.discard();
  r.span({"a", 0, 3, 4, nullptr, 0});
  EXPECT_EQ(r.num_records(), 0u);
  EXPECT_EQ(r.num_dropped(), 0u);
}

TEST(TraceRecorder, SumsUpByName) {
  TraceRecorder r;
  r.span({"b", 0, 0, 5, nullptr, 0});
  r.span({"a", 0, 0, 2, nullptr, 0});
  r.span({"b", 1, 0, 7, nullptr, 0});
  const auto s = r.summary();
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0].name, "a");
  EXPECT_EQ(s[1].count, 2);
  EXPECT_EQ(s[1].total_ns, 12);
  EXPECT_EQ(s[1].longest_ns, 7);
}

}  // namespace
}  // namespace rl

// Times that a host can relate to its own: spans of the host in the trace, lines of the log with
// time and fields, and the clock that both are on.
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "abi/host.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

rl_clock clock_of(const rl_runtime* runtime) {
  rl_clock clock;
  rl_clock_init(&clock, sizeof clock);
  EXPECT_RL_OK(rl_runtime_get_clock(runtime, &clock, &err));
  return clock;
}

rl_span span_of(const char* lane, const char* name, int64_t start_ns, int64_t end_ns) {
  rl_span span;
  rl_span_init(&span, sizeof span);
  span.lane = lane;
  span.name = name;
  span.lane_len = span.name_len = RL_NUL_TERMINATED;
  span.start_ns = start_ns;
  span.end_ns = end_ns;
  return span;
}

std::string trace_of(const rl_profiler* profiler) {
  const rl::TempDir dir;
  const std::string path = dir.file("trace.json");
  EXPECT_RL_OK(rl_profiler_write_trace(profiler, path.data(), path.size(), &err));
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HostSpans, AreInTheTraceAndInTheSummary) {
  const Host host;
  std::string lane = "judges \"one\"", name = "score";
  rl_span span = span_of(lane.c_str(), name.c_str(), 0, 0);
  const int64_t now = clock_of(host.runtime).steady_ns;
  span.start_ns = now;
  span.end_ns = now + 2'500'000;
  span.arg_name = "samples";
  span.arg_name_len = RL_NUL_TERMINATED;
  span.arg_value = 7;
  EXPECT_RL_OK(rl_runtime_trace_span(host.runtime, &span, &err));
  span.start_ns += 4'000'000;
  span.end_ns += 4'000'000;
  span.arg_name_len = 0;
  EXPECT_RL_OK(rl_runtime_trace_span(host.runtime, &span, &err));
  name.assign("xxxxx");  // names are copied
  lane.clear();
  const std::string trace = trace_of(host.profiler);
  EXPECT_EQ(count_of(trace, "\"name\":\"score\""), 2u);
  EXPECT_EQ(count_of(trace, "\"dur\":2500.000"), 2u);
  EXPECT_EQ(count_of(trace, "\"samples\":7"), 1u);
  EXPECT_EQ(count_of(trace, "judges \\\"one\\\""), 1u) << "one lane";
  EXPECT_EQ(count_of(trace, "\"origin_unix_ns\":\""), 1u);
  rl_bytes* summary = nullptr;
  EXPECT_RL_OK(rl_profiler_summary(host.profiler, &summary, &err));
  EXPECT_NE(
      std::string(static_cast<const char*>(rl_bytes_data(summary))).find("score 2 5000000 2500000"),
      std::string::npos);
  rl_bytes_release(summary);
}

TEST(HostSpans, WithoutARecordingTheyHaveNoEffect) {
  Host host;
  rl_profiler_destroy(host.profiler);
  const rl_span before = span_of("host", "before", 1, 2), after = span_of("host", "after", 1, 2);
  EXPECT_RL_OK(rl_runtime_trace_span(host.runtime, &before, &err));
  EXPECT_RL_OK(rl_profiler_create(host.runtime, &host.profiler, &err));
  EXPECT_RL_OK(rl_runtime_trace_span(host.runtime, &after, &err));
  const std::string trace = trace_of(host.profiler);
  EXPECT_EQ(count_of(trace, "\"before\""), 0u);
  EXPECT_EQ(count_of(trace, "\"after\""), 1u);
}

TEST(HostSpans, WhatIsNoSpanIsRefusedByName) {
  const Host host;
  const auto key_of = [&](const rl_span& span, rl_status expected) {
    rl_error* err = nullptr;
    EXPECT_EQ(rl_runtime_trace_span(host.runtime, &span, &err), expected);
    const std::string key = text_of(err, RL_ERROR_KEY);
    rl_error_release(err);
    return key;
  };
  EXPECT_EQ(key_of(span_of("", "n", 1, 2), RL_INVALID_ARGUMENT), "span.lane");
  EXPECT_EQ(key_of(span_of("l", "", 1, 2), RL_INVALID_ARGUMENT), "span.name");
  EXPECT_EQ(key_of(span_of("l", "n", 2, 1), RL_INVALID_ARGUMENT), "span.end_ns");
  EXPECT_EQ(key_of(span_of("l", "n", -1, 1), RL_INVALID_ARGUMENT), "span.start_ns");
  const int64_t latest = int64_t{1} << 62;
  EXPECT_EQ(key_of(span_of("l", "n", 1, latest + 1), RL_INVALID_ARGUMENT), "span.end_ns");
  EXPECT_EQ(key_of(span_of("l", "0", 1, latest), RL_OK), "");
  rl_span broken = span_of("l", "\xff", 1, 2);
  EXPECT_EQ(key_of(broken, RL_INVALID_ARGUMENT), "span.name");
  int added = 0;
  for (int i = 0; i < 5000; ++i) {
    const rl_span span = span_of("l", std::to_string(i).c_str(), 1, 2);
    const rl_status status = rl_runtime_trace_span(host.runtime, &span, nullptr);
    added += status == RL_OK;
    if (status != RL_OK) {
      EXPECT_EQ(status, RL_RESOURCE_EXHAUSTED);
    }
  }
  EXPECT_EQ(added, 4095) << "4,096 names, one of them the lane";
  EXPECT_EQ(key_of(span_of("l", "7", 1, 2), RL_OK), "") << "known names still work";
}

TEST(HostClock, TimesOfSamplesAreOnIt) {
  Host host;
  rl_batch_release(host.batch);
  const rl_clock before = clock_of(host.runtime);
  host.generate();
  const rl_clock after = clock_of(host.runtime);
  EXPECT_GT(after.unix_ns, int64_t{1'600'000'000} * 1'000'000'000);
  EXPECT_GE(after.steady_ns, before.steady_ns);
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(host.batch, 0, &view, &err));
  EXPECT_GE(view.submitted_ns, before.steady_ns);
  EXPECT_LE(view.finished_ns, after.steady_ns);
}

struct Line {
  int32_t level;
  std::string component, message;
  int64_t time_ns, unix_ns;
  std::map<std::string, std::string> texts, numbers;
};

void keep_line(void* user_data, const rl_log_record* record) {
  EXPECT_EQ(record->struct_size, sizeof *record);
  Line line = {record->level,
               {record->component, record->component_len},
               {record->message, record->message_len},
               record->time_ns,
               record->unix_ns,
               {},
               {}};
  for (size_t i = 0; i < record->num_fields; ++i) {
    auto& fields = record->field_kinds[i] == RL_FIELD_NUMBER ? line.numbers : line.texts;
    fields[record->field_names[i]] = record->field_values[i];
  }
  static_cast<std::vector<Line>*>(user_data)->push_back(line);
}

TEST(HostLog, ALineHasItsTimeAndItsFields) {
  Host host;
  std::vector<Line> lines;
  EXPECT_RL_OK(rl_runtime_set_log(host.runtime, keep_line, &lines, nullptr, &err));
  const rl_clock before = clock_of(host.runtime);
  rl_model* model = nullptr;
  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_MODEL, &model, &err));
  rl_model_destroy(model);
  const rl_clock after = clock_of(host.runtime);
  EXPECT_RL_OK(rl_runtime_set_log(host.runtime, nullptr, nullptr, nullptr, &err));
  ASSERT_EQ(lines.size(), 1u);
  const Line& line = lines[0];
  EXPECT_EQ(line.level, RL_LOG_INFO);
  EXPECT_EQ(line.component, "model");
  EXPECT_EQ(line.texts.at("path"), RL_FIXTURES "/models/llama");
  EXPECT_GT(std::stoll(line.numbers.at("parameters")), 1000);
  EXPECT_NE(line.message.find(line.texts.at("path")), std::string::npos);
  EXPECT_GE(line.time_ns, before.steady_ns);
  EXPECT_LE(line.time_ns, after.steady_ns);
  EXPECT_GT(line.unix_ns, int64_t{1'600'000'000} * 1'000'000'000);
}

}  // namespace
}  // namespace abi_test

// Records are stored in arrival order, under one lock, and sorted when the file is written.
#include "profile/trace_recorder.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace rl {
namespace {

std::string json_text(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Nanoseconds as microseconds with three digits, exactly.
std::string micros(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

std::string span_json(const TraceSpan& s, int64_t origin) {
  std::string out = str("{\"name\":", json_text(s.name), ",\"ph\":\"X\",\"pid\":1,\"tid\":", s.lane,
                        ",\"ts\":", micros(s.start_ns - origin),
                        ",\"dur\":", micros(std::max<int64_t>(0, s.end_ns - s.start_ns)));
  if (s.arg_name != nullptr) {
    out += str(",\"args\":{", json_text(s.arg_name), ":", s.arg_value, "}");
  }
  return out + "}";
}

}  // namespace

TraceRecorder::TraceRecorder(size_t max_records, const Clock& clock)
    : max_records_(max_records), began_(read_both(clock)) {}

void TraceRecorder::span(const TraceSpan& span) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (has_room()) return spans_.push_back(span);
  } catch (const std::bad_alloc&) {
  }
  dropped_ += !discarded_;
}

void TraceRecorder::counter(const char* name, uint32_t lane, int64_t time_ns,
                            double value) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (has_room()) return counters_.push_back({name, lane, time_ns, value});
  } catch (const std::bad_alloc&) {
  }
  dropped_ += !discarded_;
}

void TraceRecorder::lane_name(uint32_t lane, std::string_view name) noexcept {
  const std::lock_guard lock(mutex_);
  if (discarded_) return;
  try {
    lanes_[lane] = std::string(name);
  } catch (const std::bad_alloc&) {
    ++dropped_;
  }
}

void TraceRecorder::discard() noexcept {
  const std::lock_guard lock(mutex_);
  discarded_ = true;
  std::vector<TraceSpan>().swap(spans_);
  std::vector<Counter>().swap(counters_);
  lanes_.clear();
}

size_t TraceRecorder::num_records() const {
  const std::lock_guard lock(mutex_);
  return spans_.size() + counters_.size();
}

uint64_t TraceRecorder::num_dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

int64_t TraceRecorder::origin() const {
  int64_t first = INT64_MAX;
  for (const TraceSpan& s : spans_) first = std::min(first, s.start_ns);
  for (const Counter& c : counters_) first = std::min(first, c.time_ns);
  return first == INT64_MAX ? 0 : first;
}

std::string TraceRecorder::to_json() const {
  const std::lock_guard lock(mutex_);
  const int64_t start = origin();
  std::vector<TraceSpan> spans = spans_;
  // A span that contains another one starts no later and ends no earlier, so it comes first.
  std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  // As texts: readers of JSON may round numbers of this size.
  std::string out = str("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_records\":", dropped_,
                        ",\"origin_ns\":\"", start, "\",\"origin_unix_ns\":\"",
                        began_.unix_ns + (start - began_.steady_ns), "\"},\"traceEvents\":[\n");
  out += "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"librl\"}}";
  for (const auto& [lane, name] : lanes_) {
    out += str(",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":", lane,
               ",\"args\":{\"name\":", json_text(name), "}}");
  }
  for (const TraceSpan& s : spans) out += ",\n" + span_json(s, start);
  for (const Counter& c : counters_) {
    out += str(",\n{\"name\":", json_text(c.name), ",\"ph\":\"C\",\"pid\":1,\"tid\":", c.lane,
               ",\"ts\":", micros(c.time_ns - start),
               ",\"args\":{\"value\":", nlohmann::json(c.value).dump(), "}}");
  }
  return out + "\n]}\n";
}

void TraceRecorder::write(FileSystem& fs, const std::string& path) const {
  write_file_atomically(fs, path, to_json());
}

StepTimeline TraceRecorder::typical_step() const {
  const std::lock_guard lock(mutex_);
  return rl::typical_step(spans_, lanes_);
}

std::vector<TraceRecorder::SpanSummary> TraceRecorder::summary() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, SpanSummary> by_name;
  for (const TraceSpan& s : spans_) {
    if (s.lane >= kFirstSampleLane) continue;
    SpanSummary& sum = by_name[s.name];
    const int64_t length = s.end_ns - s.start_ns;
    ++sum.count;
    // Times of a host may be anything.
    if (__builtin_add_overflow(sum.total_ns, length, &sum.total_ns)) sum.total_ns = INT64_MAX;
    sum.longest_ns = std::max(sum.longest_ns, length);
  }
  std::vector<SpanSummary> out;
  for (auto& [name, sum] : by_name) {
    sum.name = name;
    out.push_back(sum);
  }
  return out;
}

}  // namespace rl

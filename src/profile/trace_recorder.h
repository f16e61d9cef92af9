// Collects spans, counters and lane names and writes them as a Chrome trace, which Perfetto can
// open. Memory is bounded: past the limit, records are dropped and counted, and the file says so.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/fs.h"
#include "core/trace.h"
#include "profile/step_timeline.h"

namespace rl {

class TraceRecorder final : public TraceSink {
 public:
  static constexpr size_t kMaxRecords = 2'000'000;
  // The clock is that of the records' times; it is read once, for the time of day.
  explicit TraceRecorder(size_t max_records = kMaxRecords, const Clock& clock = real_clock());

  void span(const TraceSpan& span) noexcept override;
  void counter(const char* name, uint32_t lane, int64_t time_ns, double value) noexcept override;
  void lane_name(uint32_t lane, std::string_view name) noexcept override;

  size_t num_records() const;
  uint64_t num_dropped() const;
  // Times are microseconds from the first record, whose own time is in otherData: by the clock, and
  // since 1970. Spans of one lane are sorted by start.
  std::string to_json() const;
  // Writes path atomically, by rename.
  void write(FileSystem& fs, const std::string& path) const;

  // Frees every record; later ones are dropped without being counted.
  void discard() noexcept;

  struct SpanSummary {
    std::string name;
    int64_t count = 0;
    int64_t total_ns = 0;
    int64_t longest_ns = 0;
  };
  // Per span name, sorted by name; without sample lanes.
  std::vector<SpanSummary> summary() const;
  // See step_timeline.h.
  StepTimeline typical_step() const;

 private:
  struct Counter {
    const char* name;
    uint32_t lane;
    int64_t time_ns;
    double value;
  };
  bool has_room() const { return !discarded_ && spans_.size() + counters_.size() < max_records_; }
  int64_t origin() const;

  const size_t max_records_;
  const ClockReading began_;
  mutable std::mutex mutex_;
  std::vector<TraceSpan> spans_;
  std::vector<Counter> counters_;
  std::map<uint32_t, std::string> lanes_;
  uint64_t dropped_ = 0;
  bool discarded_ = false;
};

// What a report shows of a trace.
struct TraceDigest {
  std::vector<TraceRecorder::SpanSummary> spans;
  StepTimeline timeline;
};
inline TraceDigest digest_of(const TraceRecorder& recorder) {
  return {recorder.summary(), recorder.typical_step()};
}

// Discards when the scope ends, however it ends.
class ScopedDiscard {
 public:
  explicit ScopedDiscard(TraceRecorder& recorder) : recorder_(recorder) {}
  ~ScopedDiscard() { recorder_.discard(); }
  ScopedDiscard(const ScopedDiscard&) = delete;
  ScopedDiscard& operator=(const ScopedDiscard&) = delete;

 private:
  TraceRecorder& recorder_;
};

}  // namespace rl

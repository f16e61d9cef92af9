// Trace emit points. Code marks spans, counters and lanes through a Tracer; without a sink each
// emit point costs one branch. Only profile/ collects them. Names must be string literals or
// interned: only the pointer is kept. Thread-safe.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/error.h"

namespace rl {

// Lanes from here on show samples, one after another. Their spans overlap with other lanes and with
// each other, so they are excluded from time totals.
inline constexpr uint32_t kFirstSampleLane = uint32_t{1} << 16;
// Lanes of a host's own spans, up to those of samples.
inline constexpr uint32_t kFirstHostLane = uint32_t{1} << 15;

// One finished piece of work. A lane is one row of the timeline: a thread, an engine, the trainer.
struct TraceSpan {
  const char* name;
  uint32_t lane;
  int64_t start_ns;
  int64_t end_ns;
  const char* arg_name;  // or null
  int64_t arg_value;
};

// Calls come from any thread, several at once. They must not throw.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void span(const TraceSpan& span) noexcept = 0;
  virtual void counter(const char* name, uint32_t lane, int64_t time_ns, double value) noexcept = 0;
  virtual void lane_name(uint32_t lane, std::string_view name) noexcept = 0;
};

class Tracer {
 public:
  explicit Tracer(const Clock& clock = real_clock()) : clock_(clock) {}
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The newest sink receives everything until it ends; then the one before it takes over again.
  // Null ends all. Open spans go to the sink they began with, so every sink ever set lives as long
  // as the tracer: a sink that ends should free what it collected.
  void set_sink(std::shared_ptr<TraceSink> sink) {
    const std::lock_guard lock(mutex_);
    if (sink == nullptr) {
      active_.clear();
    } else {
      std::erase(active_, sink.get());
      active_.push_back(sink.get());
      if (std::find(kept_.begin(), kept_.end(), sink) == kept_.end()) {
        kept_.push_back(std::move(sink));
      }
    }
    store_newest();
  }
  void end_sink(const TraceSink* sink) {
    const std::lock_guard lock(mutex_);
    std::erase(active_, sink);
    store_newest();
  }

  TraceSink* sink() const { return sink_.load(std::memory_order_acquire); }
  int64_t now_ns() const { return clock_.now_ns(); }
  const Clock& clock() const { return clock_; }

  void counter(const char* name, uint32_t lane, double value) const {
    if (TraceSink* const s = sink()) s->counter(name, lane, now_ns(), value);
  }
  void lane_name(uint32_t lane, std::string_view name) const {
    if (TraceSink* const s = sink()) s->lane_name(lane, name);
  }
  // A span timed elsewhere.
  void span(const TraceSpan& span) const {
    if (TraceSink* const s = sink()) s->span(span);
  }
  // A span of the host, by names that are no literals. Error(kResourceExhausted) with more than
  // kMaxHostNames different ones. Names are forgotten with the tracer.
  static constexpr size_t kMaxHostNames = 4096;
  struct HostSpan {
    std::string_view lane, name;
    int64_t start_ns, end_ns;
    std::string_view arg_name;  // or empty
    int64_t arg_value;
  };
  void host_span(const HostSpan& span);

 private:
  void store_newest() {
    sink_.store(active_.empty() ? nullptr : active_.back(), std::memory_order_release);
  }

  // A name that stays where it is, with its number. Under the mutex.
  const std::pair<const std::string, uint32_t>& intern(std::string_view name);

  const Clock& clock_;
  std::atomic<TraceSink*> sink_{nullptr};
  std::mutex mutex_;
  std::map<std::string, uint32_t, std::less<>> host_names_;  // with their numbers as lanes
  std::vector<TraceSink*> active_;                           // the newest is last
  std::vector<std::shared_ptr<TraceSink>> kept_;
};

inline const std::pair<const std::string, uint32_t>& Tracer::intern(std::string_view name) {
  const auto found = host_names_.find(name);
  if (found != host_names_.end()) return *found;
  if (host_names_.size() == kMaxHostNames) {
    throw Error(Code::kResourceExhausted, str("a host's spans have more than ", kMaxHostNames,
                                              " different names, with those of their lanes"))
        .with_key("span");
  }
  const auto lane = kFirstHostLane + static_cast<uint32_t>(host_names_.size());
  return *host_names_.emplace(name, lane).first;
}

inline void Tracer::host_span(const HostSpan& span) {
  TraceSink* const s = sink();
  if (s == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto& lane = intern(span.lane);
  const char* const name = intern(span.name).first.c_str();
  const char* const arg = span.arg_name.empty() ? nullptr : intern(span.arg_name).first.c_str();
  s->lane_name(lane.second, lane.first);
  s->span({name, lane.second, span.start_ns, span.end_ns, arg, span.arg_value});
}

// A span from here to the end of the scope. tracer may be null.
class ScopedSpan {
 public:
  ScopedSpan(const Tracer* tracer, const char* name, uint32_t lane)
      : sink_(tracer != nullptr ? tracer->sink() : nullptr), tracer_(tracer) {
    if (sink_ != nullptr) span_ = {name, lane, tracer->now_ns(), 0, nullptr, 0};
  }
  ~ScopedSpan() {
    if (sink_ == nullptr) return;
    span_.end_ns = tracer_->now_ns();
    sink_->span(span_);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

  // One number to show with the span, such as its tokens.
  void set_arg(const char* name, int64_t value) {
    span_.arg_name = name;
    span_.arg_value = value;
  }

 private:
  TraceSink* sink_;
  const Tracer* tracer_;
  TraceSpan span_{};
};

}  // namespace rl

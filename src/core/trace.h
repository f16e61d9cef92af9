// Trace emit points. Code marks spans, counters and lanes through a Tracer; without a sink each
// emit point costs one branch. Only profile/ collects. Names are string literals: they are kept by
// pointer. Thread-safe.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/clock.h"

namespace rl {

// One finished piece of work. A lane is one row of the picture: a thread, an engine, the trainer.
struct TraceSpan {
  const char* name;
  uint32_t lane;
  int64_t start_ns;
  int64_t end_ns;
  const char* arg_name;  // null when there is none
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

  // Null ends tracing. Spans that are open go to the sink they began with, so every sink that was
  // ever set lives as long as the tracer.
  void set_sink(std::shared_ptr<TraceSink> sink) {
    const std::lock_guard lock(mutex_);
    sink_.store(sink.get(), std::memory_order_release);
    if (sink != nullptr) kept_.push_back(std::move(sink));
  }

  TraceSink* sink() const { return sink_.load(std::memory_order_acquire); }
  int64_t now_ns() const { return clock_.now_ns(); }

  void counter(const char* name, uint32_t lane, double value) const {
    if (TraceSink* const s = sink()) s->counter(name, lane, now_ns(), value);
  }
  void lane_name(uint32_t lane, std::string_view name) const {
    if (TraceSink* const s = sink()) s->lane_name(lane, name);
  }
  // A span whose times were taken elsewhere.
  void span(const TraceSpan& span) const {
    if (TraceSink* const s = sink()) s->span(span);
  }

 private:
  const Clock& clock_;
  std::atomic<TraceSink*> sink_{nullptr};
  std::mutex mutex_;
  std::vector<std::shared_ptr<TraceSink>> kept_;
};

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

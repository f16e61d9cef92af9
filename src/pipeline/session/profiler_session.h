// A trace that the host started: records everything that the objects of one runtime do, from
// construction to destruction. The newest profiler of a runtime records; when it ends, the one
// before it resumes, and its own records are freed.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "pipeline/session/runtime.h"
#include "profile/trace_recorder.h"

namespace rl {

class ProfilerSession {
 public:
  explicit ProfilerSession(std::shared_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)),
        recorder_(std::make_shared<TraceRecorder>(TraceRecorder::kMaxRecords, runtime_->clock())) {
    runtime_->tracer().set_sink(recorder_);
  }
  ~ProfilerSession() {
    runtime_->tracer().end_sink(recorder_.get());
    recorder_->discard();
  }
  ProfilerSession(const ProfilerSession&) = delete;
  ProfilerSession& operator=(const ProfilerSession&) = delete;

  const TraceRecorder& recorder() const { return *recorder_; }
  void write(const std::string& path) const { recorder_->write(runtime_->fs(), path); }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<TraceRecorder> recorder_;
};

}  // namespace rl

// The timeline of a run (profiler.timeline.enable): its spans are recorded until the run ends, then
// written as a trace; the digest that reports show is kept.
#pragma once
#include <cstdint>
#include <memory>

#include "pipeline/loop/control.h"
#include "pipeline/session/runtime.h"
#include "profile/trace_recorder.h"

namespace rl {

class RunTimeline {
 public:
  RunTimeline(Control& control, Runtime& runtime) : control_(control), runtime_(runtime) {}

  // Makes the directory of the trace. Null if the options enable no timeline.
  std::shared_ptr<TraceRecorder> make() const;
  // Records from now on, unless it is null, and names the lanes of the trace.
  void begin(std::shared_ptr<TraceRecorder> recorder, int64_t num_engines, const Control::Lock&);
  // The run did not start after all.
  void cancel(const Control::Lock&);
  // The run is over: writes the trace and frees the recorded spans.
  void close();

  // Null if there is none.
  const std::shared_ptr<TraceRecorder>& recorder(const Control::Lock&) const { return recorder_; }
  // Empty before close().
  const TraceDigest& digest(const Control::Lock&) const { return digest_; }

 private:
  Control& control_;
  Runtime& runtime_;
  std::shared_ptr<TraceRecorder> recorder_;  // changed under control's lock
  TraceDigest digest_;                       // under control's lock
};

}  // namespace rl

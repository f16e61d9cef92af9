// A report may read the recorder while the run goes on.
#include "pipeline/loop/run_timeline.h"

#include <utility>

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "rollout/engine_set.h"

namespace rl {
namespace {

void name_lanes(const Tracer& tracer, int64_t num_engines) {
  tracer.lane_name(TraceLane::kPipeline, "pipeline");
  for (int64_t i = 0; i < num_engines; ++i) {
    tracer.lane_name(engine_lane(TraceLane::kEngine, i),
                     num_engines == 1 ? "engine" : str("engine ", i));
  }
  tracer.lane_name(TraceLane::kReward, "reward");
  tracer.lane_name(TraceLane::kTrain, "train");
}

std::string directory(const Settings& settings) {
  return output_path(settings, settings.profiler.timeline.dir);
}

}  // namespace

std::shared_ptr<TraceRecorder> RunTimeline::make() const {
  const Settings& settings = control_.settings();
  if (!settings.profiler.timeline.enable) return nullptr;
  runtime_.fs().make_directories(directory(settings));
  return std::make_shared<TraceRecorder>(TraceRecorder::kMaxRecords, runtime_.clock());
}

void RunTimeline::begin(std::shared_ptr<TraceRecorder> recorder, int64_t num_engines,
                        const Control::Lock&) {
  if (recorder != nullptr) runtime_.tracer().set_sink(recorder);
  name_lanes(runtime_.tracer(), num_engines);
  recorder_ = std::move(recorder);
}

void RunTimeline::cancel(const Control::Lock&) {
  if (recorder_ != nullptr) runtime_.tracer().end_sink(recorder_.get());
  recorder_.reset();
}

void RunTimeline::close() {
  if (recorder_ == nullptr) return;
  runtime_.tracer().end_sink(recorder_.get());
  const ScopedDiscard discard(*recorder_);
  TraceDigest digest = digest_of(*recorder_);
  {
    const Control::Lock lock = control_.lock();
    digest_ = std::move(digest);
  }
  recorder_->write(runtime_.fs(), directory(control_.settings()) + "/trace.json");
}

}  // namespace rl

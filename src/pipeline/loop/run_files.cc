// Each kind of file has a class of its own; here they are opened and closed in order.
#include "pipeline/loop/run_files.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "options/options_json.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/schedule_options.h"

namespace rl {

RunFiles::RunFiles(Control& control, LoadedModel& model, const MemoryPlan& plan)
    : control_(control), model_(model), plan_(plan), timeline_(control, model.runtime()) {
  const Settings& settings = control.settings();
  const std::string dir = output_path(settings, settings.buffer.record_dir);
  if (dir.empty()) return;
  batches_ = std::make_unique<BatchRecorder>(model.runtime().fs(), dir,
                                             static_cast<int>(settings.buffer.compression_level),
                                             settings.checkpoint.resume != "never");
}

void RunFiles::open(uint64_t done_steps) {
  records_ = std::make_unique<RunRecords>(model_, control_.settings(), done_steps);
}

void RunFiles::begin(uint64_t done_steps) {
  if (batches_ != nullptr) batches_->begin(done_steps);
}

void RunFiles::record_batch(uint64_t step, std::span<const SamplePtr> batch, int64_t group_size) {
  if (batches_ == nullptr) return;
  const ScopedSpan span(&model_.runtime().tracer(), "pipeline.record", TraceLane::kPipeline);
  const OptionSet& options = control_.settings().set;
  BufferInfo info;
  info.step = step;
  info.group_size = group_size;
  info.options_identity = options.identity();
  info.options = options.dump(true);
  info.max_tokens = plan_.max_tokens;
  info.model = model_.identity();
  batches_->write(info, batch);
}

void RunFiles::open_schedule(const RunState& start, ScheduleUse use) {
  const Settings& settings = control_.settings();
  const ScheduleInfo info{use.config_digest, options_to_json(settings.set, true, {})};
  if (!settings.pipeline.record_path.empty()) record_schedule(info, start, use.resumed);
  if (!settings.pipeline.replay_path.empty()) replay_schedule(info, start, std::move(use));
}

void RunFiles::record_schedule(const ScheduleInfo& info, const RunState& start, bool resumed) {
  const Settings& settings = control_.settings();
  const std::string path = output_path(settings, settings.pipeline.record_path);
  FileSystem& fs = model_.runtime().fs();
  const bool exists = fs.exists(path);
  if (exists && settings.checkpoint.resume == "never") {
    throw Error(Code::kAlreadyExists,
                str(path, " has the schedule of an earlier run; use another path"))
        .with_key("pipeline.record_path")
        .with_location(path);
  }
  const Control::Lock lock = control_.lock();
  RunSchedule& schedule = control_.schedule(lock);
  if (exists && resumed) {
    schedule.record(ScheduleWriter::go_on(fs, path, {start.step, start.next_eval_ordinal}));
  } else {
    schedule.record(std::make_unique<ScheduleWriter>(fs, path, info));
  }
  if (resumed) schedule.resume(resumption(start), info.options);
}

void RunFiles::replay_schedule(const ScheduleInfo& info, const RunState& start, ScheduleUse use) {
  const Settings& settings = control_.settings();
  const std::string& path = settings.pipeline.replay_path;
  auto reader = std::make_unique<ScheduleReader>(model_.runtime().fs(), path);
  ScheduleInfo recorded = reader->info();
  if (const ScheduleExtent& extent = reader->extent(); extent.torn) {
    model_.runtime().logger().log(
        LogLevel::kWarn, "pipeline", {{"path", path}, {"step", extent.steps}}, path,
        " is of a run that did not end: ", extent.events, " events are kept, up to step ",
        extent.steps, ", and ", extent.cut_bytes, " bytes of a torn frame are cut off");
  }
  const Control::Lock lock = control_.lock();
  RunSchedule& schedule = control_.schedule(lock);
  schedule.replay(std::move(reader), std::move(use.apply));
  if (use.resumed) recorded.options = schedule.skip_to(resumption(start));
  require_recorded(settings.set, recorded.options, path);
  if (recorded.config_digest == info.config_digest) return;
  throw Error(Code::kIncompatible,
              str(path, " is of a run with other prompts, another model or other micro-batches"))
      .with_key("pipeline.replay_path")
      .with_location(path);
}

void RunFiles::close() noexcept {
  Logger& logger = model_.runtime().logger();
  control_.run_closing(logger, "the metrics file", [&] {
    if (records_ != nullptr) records_->close();
  });
  control_.run_closing(logger, "the trace", [&] { timeline_.close(); });
}

}  // namespace rl

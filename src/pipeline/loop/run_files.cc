// Each kind of file has a class of its own; here they are opened and closed in order.
#include "pipeline/loop/run_files.h"

#include <string>

#include "pipeline/config/run_options.h"

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

void RunFiles::close() noexcept {
  Logger& logger = model_.runtime().logger();
  control_.run_closing(logger, "the metrics file", [&] { records_->close(); });
  control_.run_closing(logger, "the trace", [&] { timeline_.close(); });
}

}  // namespace rl

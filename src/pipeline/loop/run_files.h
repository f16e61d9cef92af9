// The files that a run writes as it proceeds, checkpoints apart: metrics and kept responses, the
// recorded batches, its schedule, and the timeline. Each exists if its option is set. Used by the
// loop's thread while it runs, else by the caller that owns the pipeline.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pipeline/groups/batch_recorder.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/run_records.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/run_timeline.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

class RunFiles {
 public:
  // kAlreadyExists if a fresh run finds recorded batches of another one.
  RunFiles(Control& control, LoadedModel& model, const MemoryPlan& plan);

  // Before the first step: opens the files of metrics and keeps their content of the first
  // done_steps steps.
  void open(uint64_t done_steps);
  // Before the run: opens the schedule that it writes, or the one that it replays, which does with
  // apply what its inputs say. resumed: it begins at a checkpoint; then a record goes on behind it,
  // and a replay where the recorded run resumed from it. config_digest: as of a checkpoint.
  // kAlreadyExists if a run that never resumes finds a record.
  struct ScheduleUse {
    std::string config_digest;
    bool resumed;
    RunSchedule::Apply apply;
  };
  void open_schedule(const RunState& start, ScheduleUse use);
  // When the run begins, or its last step was undone: recorded batches of later steps belong to a
  // continuation that the run gave up.
  void begin(uint64_t done_steps);
  // Before the update, because the file names the weights that the step starts from.
  void record_batch(uint64_t step, std::span<const SamplePtr> batch, int64_t group_size);
  // Closes metrics and timeline (Control::run_closing).
  void close() noexcept;

  RunRecords& records() { return *records_; }
  RunTimeline& timeline() { return timeline_; }
  const RunTimeline& timeline() const { return timeline_; }

 private:
  void record_schedule(const ScheduleInfo& info, const RunState& start, bool resumed);
  void replay_schedule(const ScheduleInfo& info, const RunState& start, ScheduleUse use);
  Control& control_;
  LoadedModel& model_;
  const MemoryPlan& plan_;
  std::unique_ptr<BatchRecorder> batches_;  // null: buffer.record_dir is empty
  std::unique_ptr<RunRecords> records_;     // null before open()
  RunTimeline timeline_;
};

}  // namespace rl

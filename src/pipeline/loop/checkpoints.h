// The checkpoints of a run: the one that it resumes from, and those that it writes. A run that
// resumes from a named checkpoint abandons later ones before it writes its first, so none of them
// is taken for the newest of this run. Used by the loop's thread while it runs, else by the caller
// that owns the pipeline. With checkpoint.async files are written on a thread of their own, which
// reads a copy of the state and nothing that a step changes.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "pipeline/loop/control.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/session/background_task.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/update/policy_update.h"
#include "profile/metrics.h"

namespace rl {

class Checkpoints {
 public:
  // Error(kAlreadyExists) if a fresh run finds checkpoints of an earlier one: it would mix the two.
  Checkpoints(Control& control, LoadedModel& model, const MemoryPlan& plan, uint64_t data_digest);

  // Of a run over a store, which only one trainer at a time may train and save: throws unless it is
  // this one. Called by whichever thread writes.
  void write_only_if(std::function<void()> require_own) { require_own_ = std::move(require_own); }

  // Path of the checkpoint that checkpoint.resume names; empty for a fresh run.
  std::string find() const;
  // The same again, once no other process writes into the directory: empty if there is no other
  // checkpoint than before. Error(kAlreadyExists) if a fresh run finds one now.
  std::string find_again() const;
  // The state of the run in the checkpoint found. Everything but the update's part has been
  // checked.
  RunState open(PolicyUpdate& update, const std::string& found);
  // Loads the update's part of the checkpoint found, which overwrites the model. The caller
  // computes; it waits so long for a host that reads the weights.
  void load(PolicyUpdate& update, const RunState& found, int64_t reader_wait_ns);
  // Directory of the checkpoint that was loaded last; empty for a fresh run.
  std::string resumed_from() const;

  // Abandons checkpoints after this step, if the run begins a branch of its own.
  void begin_branch(uint64_t step);
  // Writes a checkpoint of the state after the last whole step, if that has none yet, and sends its
  // event. Returns its path. Error(kFailedPrecondition) if the model is half-trained. Nothing is
  // being written.
  std::string write(PolicyUpdate& update, const RunState& boundary);
  // The same for the loop, as checkpoint.on_failure says and for those who requested it. With
  // checkpoint.async it waits for the checkpoint before, and returns once the state is copied.
  // Throws what ends the run.
  void write_due(PolicyUpdate& update, const RunState& boundary);
  // Waits until nothing is being written. Throws what ends the run, once: the failure of a
  // checkpoint that was written while the run went on.
  void finish() { writing_.finish(); }
  // The same if nothing is being written any more.
  void finish_if_ended() { writing_.finish_if_ended(); }
  // The metrics of a step or an evaluation, of which a checkpoint keeps one (checkpoint.metric).
  void note_step(const MetricList& metrics);
  void note_evaluation(const MetricList& metrics);
  // Of the checkpoints so far, for the metrics of a step.
  MetricList metrics() const;
  // A stop ended an update between two optimizer steps: from now on write() refuses, also after the
  // half-trained weights are published.
  void refuse() { refused_ = true; }
  // Step of the last one; none before it.
  std::optional<uint64_t> last_step() const;
  // Path of the last one.
  const std::string& last(const Control::Lock&) const { return last_; }

  // What a run and its checkpoint must have in common.
  std::string config_digest() const;

 private:
  // A checkpoint that the loop writes.
  struct Due {
    uint64_t step;
    uint64_t requested;  // Control::begin_checkpoint
    bool goes_on;        // after a failure
  };
  // A checkpoint on its way to the disk.
  struct Draft {
    CheckpointDraft of;
    std::string dir;
    CheckpointRules rules;
    double copy_seconds = 0;
  };
  struct Figures {
    uint64_t num_failed = 0;
    std::optional<double> copy_seconds, write_seconds;  // of the last one with checkpoint.async
  };

  // Ranks that divide the model write it again: the others do not know what the first has.
  bool is_written(const RunState& boundary) const {
    const ParallelSettings& parallel = control_.settings().parallel;
    return last_step_ == boundary.step && parallel.tensor * parallel.pipeline == 1;
  }
  bool writes() const { return model_.runtime().ranks().rank() == 0; }
  void give_parts(PolicyUpdate& update, const RunState& boundary, const Due& due);
  CheckpointMeta begin(const RunState& boundary);
  std::string save(const Draft& draft);
  void save_apart(const Draft& draft, const Due& due);
  bool start(PolicyUpdate& update, const RunState& boundary, const Due& due);
  std::shared_ptr<const Error> attempt(const Due& due, FunctionRef<void()> work);
  void note_failure(uint64_t step, const Error& error);
  double seconds_since(int64_t begin) const;
  std::string dir() const;
  void require_none() const;
  CheckpointRules rules(uint64_t step) const;
  void note_metrics(const MetricList& metrics, bool of_evaluation);
  void require_metric() const;

  Control& control_;
  LoadedModel& model_;
  const MemoryPlan& plan_;
  const uint64_t data_digest_;
  std::string found_;
  bool begins_branch_ = false;  // resumed by name: later checkpoints are yet to be abandoned
  std::string resumed_from_;    // with last_, last_step_ and figures_ changed under control's lock
  std::string last_;
  uint64_t last_step_ = UINT64_MAX;
  uint64_t first_step_ = 0;   // that the run begins after
  const std::string writer_;  // empty: no other process writes into the directory
  std::function<void()> require_own_;
  Figures figures_;
  bool refused_ = false;
  std::optional<CheckpointScore> score_;  // the latest
  std::string missing_metric_;            // checkpoint.metric if the latest metrics lack it
  BackgroundTask writing_;                // the last member: it uses the others
};

}  // namespace rl

// The checkpoints of a run: the one that it resumes from, and those that it writes. A run that
// resumes from a named checkpoint abandons later ones before it writes its first, so none of them
// is taken for the newest of this run. Used by the loop's thread while it runs, else by the caller
// that owns the pipeline.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/loop/control.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/update/policy_update.h"
#include "profile/metrics.h"

namespace rl {

class Checkpoints {
 public:
  // Error(kAlreadyExists) if a fresh run finds checkpoints of an earlier one: it would mix the two.
  Checkpoints(Control& control, LoadedModel& model, const MemoryPlan& plan, uint64_t data_digest);

  // The state of the run that checkpoint.resume names; none for a fresh run. Everything but the
  // update's part has been checked.
  std::optional<RunState> find(PolicyUpdate& update);
  // Loads the update's part of the checkpoint found, which overwrites the model.
  void load(PolicyUpdate& update, const RunState& found);
  // Directory of the checkpoint that was loaded; empty for a fresh run.
  const std::string& resumed_from() const { return resumed_from_; }

  // Abandons checkpoints after this step, if the run begins a branch of its own.
  void begin_branch(uint64_t step);
  // Writes a checkpoint of the state after the last whole step, if that has none yet, and sends its
  // event. Returns its path. Error(kFailedPrecondition) if the model is half-trained.
  std::string write(PolicyUpdate& update, const RunState& boundary);
  // The metrics of a step or an evaluation, of which a checkpoint keeps one (checkpoint.metric).
  void note_step(const MetricList& metrics);
  void note_evaluation(const MetricList& metrics);
  // A run goes on without the checkpoint of this step: counts it, and says so in an event and the
  // log.
  void note_failure(uint64_t step, const Error& error);
  uint64_t num_failed() const { return num_failed_; }
  // A stop ended an update between two optimizer steps: from now on write() refuses, also after the
  // half-trained weights are published.
  void refuse() { refused_ = true; }
  // Path of the last one.
  const std::string& last(const Control::Lock&) const { return last_; }

 private:
  std::string dir() const;
  std::string config_digest() const;
  CheckpointRules rules() const;
  void note_metrics(const MetricList& metrics, bool of_evaluation);
  void require_metric() const;

  Control& control_;
  LoadedModel& model_;
  const MemoryPlan& plan_;
  const uint64_t data_digest_;
  std::string found_, resumed_from_;
  bool begins_branch_ = false;  // resumed by name: later checkpoints are yet to be abandoned
  std::string last_;            // changed under control's lock
  uint64_t last_step_ = UINT64_MAX;
  bool refused_ = false;
  uint64_t num_failed_ = 0;
  std::optional<CheckpointScore> score_;  // the latest
  std::string missing_metric_;            // checkpoint.metric if the latest metrics lack it
};

}  // namespace rl

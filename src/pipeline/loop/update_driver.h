// The training of a pipeline: what its consumer does (pipeline/flow), by the policy update, and the
// events, records and checkpoints of a step. The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/flow/ports.h"
#include "pipeline/loop/checkpoints.h"
#include "pipeline/loop/evaluation.h"
#include "pipeline/loop/rollout_driver.h"
#include "pipeline/loop/run_files.h"

namespace rl {

class UpdateDriver final : public UpdatePort {
 public:
  UpdateDriver(Evaluation& evaluation, RolloutDriver& rollout)
      : run_(evaluation.run_parts()), evaluation_(evaluation), rollout_(rollout) {}
  // What a checkpoint has kept needs no store any more.
  void acknowledge();
  // The run is over; a step that failed may have been under way.
  void end() { write_.reset(); }

  FlowProgress progress() override;
  bool needs_engine() override;
  Turn between_steps() override;
  int64_t drop_stale() override;
  Turn begin(int64_t groups) override;
  Turn next() override;
  void publish() override;

 private:
  const Settings& settings() const { return run_.control.settings(); }
  StepRecord& step() { return rollout_.step(); }
  int64_t now() const { return run_.model.runtime().clock().now_ns(); }
  bool meets_for_checkpoint();
  void trace_wait(const char* name, int64_t start_ns, int64_t end_ns) const;
  void apply_options();
  void begin_step();
  bool has_steps_left() const;
  bool ends_with_a_checkpoint() const;
  void abandon();
  void finish(UpdateResult done);
  LedgerCounts close_batch(const Control::Lock& lock);
  std::shared_ptr<StepEvent> commit();
  MetricList supply_metrics();
  MetricList step_metrics();

  const RunParts run_;
  Evaluation& evaluation_;
  RolloutDriver& rollout_;
  std::vector<SamplePtr> own_;    // of the step in progress, this rank's groups
  std::vector<SamplePtr> batch_;  // and those of all ranks
  std::optional<LoadedModel::WriteLease> write_;
  uint64_t version_ = 0;  // that it began with
  bool training_ = false;
  int64_t trained_ns_ = 0;  // when its weights were trained
};

}  // namespace rl

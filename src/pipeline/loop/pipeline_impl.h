// Private state of a pipeline: it owns the parts of a run, in the order in which they need each
// other, and its thread runs the loop. Who may touch what:
// - Control, PromptSupply, Scoring and RunFiles say which of their functions are for the host.
// - `progress`: any thread may read it under the lock of control.
// - All else: the library's thread while it runs, else the caller that owns the pipeline.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/loop/checkpoints.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/evaluation.h"
#include "pipeline/loop/generation.h"
#include "pipeline/loop/group_filter.h"
#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/loop/prompt_supply.h"
#include "pipeline/loop/run_files.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/scoring.h"
#include "pipeline/loop/step_record.h"

namespace rl {

struct Pipeline::Impl {
  Impl(std::shared_ptr<LoadedModel> loaded, const Settings& given);

  void require_custom_algorithms() const;
  std::unique_ptr<ComputeLease> wait_to_compute();

  // The library's thread.
  void run() noexcept;
  void end_run(std::shared_ptr<const Error> cause) noexcept;
  void run_steps();
  bool run_step();
  // The parts of a step, in order; false if the loop is to end.
  bool draw(StepRecord& step);
  bool generate(StepRecord& step);
  bool score();
  bool filter(StepRecord& step);
  bool update(StepRecord& step);
  void publish(const StepRecord& step);

  bool between_steps();
  void open_groups(StepRecord& step, std::span<const Prompt> drawn);
  bool replace_groups(StepRecord& step);
  std::optional<UpdateResult> update_policy(std::span<const SamplePtr> batch);
  void abandon_update(std::span<const SamplePtr> batch);
  MetricList step_metrics(const StepRecord& step) const;
  bool generates() const;  // responses are generated, not read from the data
  int64_t now() const { return runtime.clock().now_ns(); }

  const std::shared_ptr<LoadedModel> model;
  Runtime& runtime;
  MemoryPlan plan;
  Control control;
  const Settings& settings;  // control's
  PromptSupply prompts;
  Checkpoints checkpoints;
  RunFiles files;
  PhaseArena phases;
  Scoring scoring;
  GroupFilter group_filter;
  Generation generation;
  RunProgress progress;
  Evaluation evaluation;
  std::thread thread;
  std::unique_ptr<ComputeLease> compute;
  std::unique_ptr<LoadedModel::RunLease> run_lease;
  std::mutex starting;                // one start at a time, its wait included; locked first
  std::atomic<bool> stopped = false;  // ends that wait
  std::mutex start_mutex;             // one start or direct checkpoint at a time
};

}  // namespace rl

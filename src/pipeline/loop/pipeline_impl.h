// Private state of a pipeline. Who may touch what:
// - `shared` fields: any thread, under the lock of control.
// - `loop` fields: the library thread while it runs, else the caller that owns the pipeline.
// A step goes drawing -> generating -> scoring -> training -> publishing, or with given responses
// drawing -> training -> publishing; evaluations and checkpoints run between steps. advance() does
// the work of one state and returns the next.
#pragma once
#include <mutex>
#include <optional>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/loop/checkpoints.h"
#include "pipeline/loop/compute_phases.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/evaluation.h"
#include "pipeline/loop/generation.h"
#include "pipeline/loop/group_filter.h"
#include "pipeline/loop/loop_step.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/loop/prompt_supply.h"
#include "pipeline/loop/run_files.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/scoring.h"

namespace rl {

struct Pipeline::Impl {
  Impl(std::shared_ptr<LoadedModel> loaded, const Settings& given);

  // Setting up (pipeline_setup.cc).
  void require_custom_algorithms() const;

  // The loop (pipeline_loop.cc, pipeline_step.cc).
  void run() noexcept;
  void loop();
  void end_run(std::shared_ptr<const Error> cause) noexcept;
  PipelineState advance(PipelineState state);
  PipelineState draw();
  void submit_groups(const std::vector<Prompt>& drawn);
  bool draws() const;  // responses are generated, not read from the data
  PipelineState take_answers(const std::vector<Prompt>& drawn);
  PipelineState generate();
  PipelineState wait_for_scores();
  PipelineState train();
  UpdateResult update_policy(const ScoredLists& batch);
  PipelineState publish();
  PipelineState abandon();
  PipelineState write_checkpoint_state();
  MetricList step_metrics();

  PipelineState filter_groups();
  PipelineState refill();

  int64_t now() const { return runtime.clock().now_ns(); }

  const std::shared_ptr<LoadedModel> model;
  Runtime& runtime;
  MemoryPlan plan;
  Control control;
  const Settings& settings;  // control's
  PromptSupply prompts;
  Checkpoints checkpoints;
  RunFiles files;
  ComputePhases phases;
  Scoring scoring;
  GroupFilter filter;
  Generation generation;
  RunProgress progress;
  Evaluation evaluation;
  std::thread thread;
  std::unique_ptr<ComputeLease> compute;
  std::unique_ptr<LoadedModel::RunLease> run_lease;
  std::mutex start_mutex;  // one start or direct checkpoint at a time

  LoopStep this_step;
};

}  // namespace rl

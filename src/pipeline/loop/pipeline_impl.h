// Private state of a pipeline. Who may touch what:
// - `shared` fields: any thread, under the lock of control.
// - `loop` fields: the library thread while it runs, else the caller that owns the pipeline.
// A step goes drawing -> generating -> scoring -> training -> publishing, or with given responses
// drawing -> training -> publishing; evaluations and checkpoints run between steps. advance() does
// the work of one state and returns the next.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/loop/checkpoints.h"
#include "pipeline/loop/compute_phases.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/evaluation.h"
#include "pipeline/loop/loop_step.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/loop/prompt_supply.h"
#include "pipeline/loop/run_files.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/score_board.h"

namespace rl {

struct Pipeline::Impl {
  Impl(std::shared_ptr<LoadedModel> loaded, const Settings& given);

  // Setting up (pipeline_setup.cc).
  void require_custom_algorithms() const;

  // The loop (pipeline_loop.cc, pipeline_step.cc).
  void run() noexcept;
  void loop();
  void end_run(std::shared_ptr<const Error> cause) noexcept;
  void close_books() noexcept;
  PipelineState advance(PipelineState state);
  PipelineState draw();
  void submit_groups(const std::vector<Prompt>& drawn);
  bool draws() const;  // responses are generated, not read from the data
  PipelineState take_answers(const std::vector<Prompt>& drawn);
  PipelineState generate();
  void step_engine();
  PipelineState wait_for_scores();
  PipelineState train();
  UpdateResult update_policy(const ScoredLists& batch);
  PipelineState publish();
  PipelineState abandon();
  PipelineState write_checkpoint_state();
  void submit_group(const Prompt& prompt, uint64_t ordinal);
  void submit_greedy(Request request);
  void deliver(ScoreBoard& to);
  void ask_host(const SamplePtr& sample);
  void ask_reward_model(ScoreBoard& of);
  void refuse_scores() const;
  void push_dropped();
  void push_dropped(std::vector<ScoreBoard::Dropped>& dropped, Purpose purpose);
  MetricList step_metrics();

  // Filters (pipeline_filter.cc).
  PipelineState filter_groups();
  PipelineState refill();
  int64_t drop_filtered();
  void drop_zero_advantages();
  template <typename F>
  void for_each_group(std::span<const ScoreBoard::Scored> batch, const F& f);

  // Evaluations (pipeline_eval.cc).
  PipelineState evaluate();
  PipelineState evaluate_pairs();
  void begin_eval();
  void end_eval();

  void require_parts(uint64_t sample_id, size_t num_parts) const;  // under the lock
  int64_t now() const { return runtime.clock().now_ns(); }
  int64_t deadline_from_now() const;

  const std::shared_ptr<LoadedModel> model;
  Runtime& runtime;
  MemoryPlan plan;
  Control control;
  const Settings& settings;  // control's
  PromptSupply prompts;
  Checkpoints checkpoints;
  RunFiles files;
  ComputePhases phases;
  std::thread thread;
  std::unique_ptr<ComputeLease> compute;
  std::unique_ptr<LoadedModel::RunLease> run_lease;
  std::mutex start_mutex;  // one start or direct checkpoint at a time

  // shared
  ScoreBoard board, eval_board;
  RunProgress progress;

  // loop
  Evaluation evaluation;
  LoopStep this_step;
  std::map<uint64_t, Prompt> rows;  // of the open groups, by ordinal; without ids
};

inline constexpr uint64_t kFirstSampleId = 1;
inline constexpr uint64_t kFirstEvalSampleId = uint64_t{1} << 63;

}  // namespace rl

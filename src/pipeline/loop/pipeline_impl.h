// Private state of a pipeline: it owns the parts of a run, in the order in which they need each
// other, and its thread runs the loop. Who may touch what:
// - Control, PromptSupply, Scoring and RunFiles say which of their functions are for the host.
// - `progress`: any thread may read it under the lock of control.
// - All else: the library's thread while it runs, else the caller that owns the pipeline.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/loop/checkpoints.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/evaluation.h"
#include "pipeline/loop/generation.h"
#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/loop/prompt_supply.h"
#include "pipeline/loop/rollout_driver.h"
#include "pipeline/loop/run_files.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/scoring.h"
#include "pipeline/loop/update_driver.h"

namespace rl {

struct Pipeline::Impl {
  // Of a run: nobody else has the model, and no other run computes.
  struct Leases {
    std::unique_ptr<ComputeLease> compute;
    std::unique_ptr<LoadedModel::RunLease> model;
  };

  Impl(std::shared_ptr<LoadedModel> loaded, const Settings& given,
       std::shared_ptr<ExperienceStore> store);

  void share_loop(const std::function<void(const ScheduledEvent&)>& apply);
  void resume_training();
  void go_on_from(const RunState& found, int64_t reader_wait_ns);
  void require_training(const char* does) const;
  void require_custom_algorithms() const;
  void require_first_rank(const char* does, bool with_partners = false) const;
  void require_no_partners() const;
  void require_whole_states() const;
  std::unique_ptr<ComputeLease> wait_to_compute();

  // The library's thread.
  void run() noexcept;
  void run_steps();
  bool take_over();
  void run_flow();
  void begin_again();
  void end_run(std::shared_ptr<const Error> cause) noexcept;

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
  Generation generation;
  RunProgress progress;
  Evaluation evaluation;
  RolloutDriver rollout;
  UpdateDriver training;
  std::thread thread;
  std::unique_ptr<Leases> leases;
  std::mutex starting;                // one start at a time, its wait included; locked first
  std::atomic<bool> stopped = false;  // ends that wait
  std::mutex start_mutex;             // one start or direct checkpoint at a time
};

}  // namespace rl

// Building a pipeline: checks first, then memory, then workers, then the checkpoint to resume.
#include "core/error.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/loop/pipeline_impl.h"
#include "pipeline/plan/planner.h"

namespace rl {
namespace {

const Settings& checked(const LoadedModel& model, const Settings& settings) {
  check_for_use(model, settings, PlanUse::kPipeline);
  return settings;
}

// Arenas that exist before the pipeline reserves its own.
uint64_t held_bytes(const LoadedModel& model, const MemoryPlan& plan) {
  return model.model().arena_bytes() + plan.arena_bytes_of_role(kRolloutRole) +
         plan.bytes_of("matmul workspace");
}

constexpr PlanUse kUse = PlanUse::kPipeline;

// Checks the options, and that memory and directories are there.
MemoryPlan prepared_plan(const LoadedModel& model, const Settings& settings) {
  Runtime& runtime = model.runtime();
  MemoryPlan plan = plan_memory(checked(model, settings),
                                plan_models(settings, model.config(), runtime.fs(), kUse), kUse,
                                runtime.num_threads(), runtime.compute().device());
  with_knobs(plan, [&] {
    require_room(runtime, "the pipeline", plan.device_bytes() - held_bytes(model, plan),
                 plan.baseline_bytes);
  });
  runtime.logger().set_level(settings.runtime.log_level);
  if (const std::string root = output_root(settings); !root.empty()) {
    runtime.fs().make_directories(root);
  }
  return plan;
}

}  // namespace

Pipeline::Impl::Impl(std::shared_ptr<LoadedModel> loaded, const Settings& given,
                     std::shared_ptr<ExperienceStore> store)
    : model(std::move(loaded)),
      runtime(model->runtime()),
      plan(prepared_plan(*model, given)),
      control(runtime.clock(), settings_of_rank(given, runtime.ranks().rank())),
      settings(control.settings()),
      prompts(control, *model, plan.max_model_len),
      checkpoints(control, *model, plan, prompts.digest()),
      files(control, *model, plan),
      phases(*model, given, plan),
      scoring(control, *model, phases),
      generation(control, *model, phases, scoring, files),
      evaluation(
          {control, *model, phases, prompts, scoring, generation, files, checkpoints, progress}),
      rollout({control, *model, phases, prompts, scoring, generation, progress},
              make_run_role(*model, given, std::move(store))),
      training(evaluation, rollout) {
  const auto apply = [this](const ScheduledEvent& input) { scoring.apply(input); };
  share_loop(apply);
  checkpoints.write_only_if([this] { rollout.require_own_store(); });
  RunState& state = progress.boundary;
  if (phases.trains()) resume_training();
  state.seed = runtime.seed();
  state.max_tokens = plan.max_tokens;
  progress.version = model->version();
  prompts.resume_at(state.cursor);
  files.open_schedule(state,
                      {checkpoints.config_digest(), !checkpoints.resumed_from().empty(), apply});
  if (!rollout.claims()) files.open(state.step);  // another process may write them until then
}

void Pipeline::Impl::share_loop(const std::function<void(const ScheduledEvent&)>& apply) {
  control.share(loop_ranks(runtime, settings), apply);
  control.share_updates(SharedInputs(runtime.tensor_ranks(), runtime.stage_ranks()));
  if (rollout.claims() && !runtime.data_ranks().alone()) control.finish_updates();
}

// As checkpoint.resume says. Which checkpoint is the newest depends on the time, where another
// process may write some.
void Pipeline::Impl::resume_training() {
  PolicyUpdate& update = phases.update();
  const auto find = [&] { return checkpoints.find(); };
  const bool depends = settings.checkpoint.resume == "auto";
  if (const std::string found = depends ? rollout.first().tell_text(find) : find();
      !found.empty()) {
    const RunState state = checkpoints.open(update, found);
    const ComputeLease lease(runtime, "resuming a run");
    go_on_from(state, runtime.busy_timeout_ns());
  }
  progress.boundary.kl_coef = update.adaptive_kl();
}

void Pipeline::Impl::go_on_from(const RunState& found, int64_t reader_wait_ns) {
  PolicyUpdate& update = phases.update();
  checkpoints.load(update, found, reader_wait_ns);
  const Control::Lock lock = control.lock();
  RunState& state = progress.boundary;
  state = found;
  state.kl_coef = update.adaptive_kl();
  state.seed = runtime.seed();
  state.max_tokens = plan.max_tokens;
  progress.version = model->version();
  prompts.resume_at(state.cursor);
  scoring.restore(state, rollout.batches().counts_on());
}

void Pipeline::Impl::require_training(const char* does) const {
  if (phases.trains()) return;
  throw Error(Code::kFailedPrecondition,
              str("a pipeline of pipeline.role = rollout trains nothing, and ", does))
      .with_key("pipeline.role");
}

// with_partners: the ranks that divide its model with rank 0 do it too.
void Pipeline::Impl::require_first_rank(const char* does, bool with_partners) const {
  const int rank = runtime.ranks().rank();
  if (rank == 0 || (with_partners && runtime.data_ranks().rank() == 0)) return;
  throw Error(Code::kFailedPrecondition, str("rank 0 ", does, " for all, and this is rank ", rank))
      .with_location(str("rank ", rank));
}

// Ranks that divide a model, or run one loop, come to checkpoints of the loop that are due after a
// step alone.
void Pipeline::Impl::require_no_partners() const {
  const bool whole = settings.parallel.tensor == 1 && settings.parallel.pipeline == 1;
  if (whole && !control.shares_loop()) return;
  const char* const axis = whole ? rank_axis_of(settings) : partner_axis_of(settings);
  throw Error(Code::kUnsupported,
              str(axis, " is ", settings.set.get_text(axis),
                  ", so the checkpoints of a pipeline that runs are those of "
                  "checkpoint.every_steps; once all have ended their ranks make one together"))
      .with_key(axis)
      .with_other_key("checkpoint.every_steps");
}

// The other ranks come to checkpoints that are due after a step alone.
void Pipeline::Impl::require_whole_states() const {
  const int64_t stage = settings.parallel.zero_stage;
  if (stage == 0) return;
  throw Error(Code::kUnsupported,
              str("parallel.zero_stage is ", stage,
                  ", so each rank has a part of the optimizer "
                  "states, and checkpoints are those of checkpoint.every_steps"))
      .with_key("parallel.zero_stage")
      .with_other_key("checkpoint.every_steps");
}

void Pipeline::Impl::require_custom_algorithms() const {
  const auto require = [](const char* key, bool missing, const char* what) {
    if (!missing) return;
    throw Error(Code::kFailedPrecondition,
                str(key, " = custom, but no ", what, " function has been set"))
        .with_key(key);
  };
  const AlgoSettings& algo = settings.algo;
  if (!phases.trains()) return;
  require("algo.advantage",
          algo.advantage == Advantage::kCustom && !phases.update().has_custom_advantage(),
          "advantage");
  require("algo.policy_loss",
          algo.policy_loss == PolicyLoss::kCustom && !phases.update().has_custom_loss(), "loss");
}

}  // namespace rl

// Building a pipeline: checks first, then memory, then workers, then the checkpoint to resume.
#include <algorithm>

#include "core/error.h"
#include "core/hash.h"
#include "pipeline/loop/pipeline_impl.h"
#include "pipeline/plan/planner.h"
#include "pipeline/session/step_watch.h"

namespace rl {
namespace {

const Settings& checked(const LoadedModel& model, const Settings& settings) {
  check_for_use(model, settings, PlanUse::kPipeline);
  return settings;
}

// Arenas that exist before the pipeline reserves its own.
uint64_t held_bytes(const LoadedModel& model, const MemoryPlan& plan) {
  return model.model().arena_bytes() + plan.bytes_of("matmul workspace");
}

constexpr PlanUse kUse = PlanUse::kPipeline;

// Checks the options, and that memory and directories are there.
MemoryPlan prepared_plan(const LoadedModel& model, const Settings& settings) {
  Runtime& runtime = model.runtime();
  MemoryPlan plan = plan_memory(checked(model, settings),
                                plan_models(settings, model.config(), runtime.fs(), kUse), kUse,
                                runtime.num_threads(), runtime.compute().device());
  require_room(runtime, "the pipeline", plan.arena_bytes - held_bytes(model, plan),
               plan.baseline_bytes);
  runtime.logger().set_level(settings.runtime.log_level);
  if (const std::string root = output_root(settings); !root.empty()) {
    runtime.fs().make_directories(root);
  }
  return plan;
}

}  // namespace

Pipeline::Impl::Impl(std::shared_ptr<LoadedModel> loaded, const Settings& given)
    : model(std::move(loaded)),
      runtime(model->runtime()),
      plan(prepared_plan(*model, given)),
      control(runtime.clock(), given),
      settings(control.settings()),
      prompts(control, *model, plan.max_model_len),
      board(attempts_per_prompt(given), kFirstSampleId),
      eval_board(given.eval.samples_per_prompt, kFirstEvalSampleId) {
  refuse_old_checkpoints();
  open_step_recorder();
  phases.emplace(*model, settings, plan);
  resume_from_checkpoint();
  version = model->version();
  boundary = boundary_state();
  prompts.resume_at(cursor);
  records = std::make_unique<RunRecords>(*model, settings, step);
}

void Pipeline::Impl::require_custom_algorithms() const {
  const auto require = [](const char* key, bool missing, const char* what) {
    if (!missing) return;
    throw Error(Code::kFailedPrecondition,
                str(key, " = custom, but no ", what, " function has been set"))
        .with_key(key);
  };
  const AlgoSettings& algo = settings.algo;
  require("algo.advantage",
          algo.advantage == Advantage::kCustom && !phases->update().has_custom_advantage(),
          "advantage");
  require("algo.policy_loss",
          algo.policy_loss == PolicyLoss::kCustom && !phases->update().has_custom_loss(), "loss");
}

void Pipeline::Impl::require_parts(uint64_t sample_id, size_t num_parts) const {
  const size_t expected = settings.algo.gdpo_weights.size();
  if (expected == 0 || num_parts == expected) return;
  throw Error(Code::kInvalidArgument,
              str("the reward of sample ", sample_id, " has ", num_parts,
                  " parts, but algo.gdpo_weights has ", expected, " entries"))
      .with_key("algo.gdpo_weights");
}

// A fresh run in the directory of another run's checkpoints would mix the two.
void Pipeline::Impl::refuse_old_checkpoints() {
  const std::string dir = output_path(settings, settings.checkpoint.dir);
  if (dir.empty() || settings.checkpoint.resume != "never") return;
  const auto found = latest_checkpoint(runtime.fs(), dir);
  if (!found) return;
  throw Error(Code::kAlreadyExists, str("checkpoint.dir contains ", *found,
                                        " of an earlier run; set "
                                        "checkpoint.resume or use another directory"))
      .with_key("checkpoint.dir")
      .with_location(*found);
}

void Pipeline::Impl::open_step_recorder() {
  const std::string dir = output_path(settings, settings.buffer.record_dir);
  if (dir.empty()) return;
  step_recorder = std::make_unique<StepRecorder>(
      runtime.fs(), dir, static_cast<int>(settings.buffer.compression_level),
      settings.checkpoint.resume != "never");
}

std::string Pipeline::Impl::config_digest() const {
  Digest64 digest;
  digest.update_u64(settings.set.identity());
  digest.update(dtype_name(plan.compute));
  digest.update_u64(static_cast<uint64_t>(plan.max_tokens));
  digest.update_u64(static_cast<uint64_t>(plan.max_model_len));
  digest.update_u64(prompts.digest());
  return hex64(digest.value());
}

RunState Pipeline::Impl::boundary_state() const {
  RunState s;
  s.step = step;
  s.cursor = cursor;
  s.next_eval_ordinal = evaluation.next_ordinal();
  s.seed = runtime.seed();
  s.max_tokens = plan.max_tokens;
  s.kl_coef = phases->update().adaptive_kl();
  s.ledger = board.ledger().counts();
  return s;
}

namespace {

RunState saved_run_state(FileSystem& fs, const std::string& path, const std::string& digest) {
  const CheckpointMeta meta = read_checkpoint_meta(fs, path, digest);
  RunState s = parse_run_state(meta.pipeline, path + "/manifest.json");
  if (s.step == static_cast<uint64_t>(meta.step)) return s;
  throw Error(Code::kDataLoss, str(path, " is the checkpoint of step ", meta.step,
                                   " but its run state is of step ", s.step))
      .with_location(path);
}

}  // namespace

// The trainer's part comes last: it overwrites the host's model, so everything else is checked
// before.
void Pipeline::Impl::resume_from_checkpoint() {
  const std::string& resume = settings.checkpoint.resume;
  if (resume == "never") return;
  const std::string dir = output_path(settings, settings.checkpoint.dir);
  std::string path = resume;
  if (resume == "auto") path = latest_checkpoint(runtime.fs(), dir).value_or("");
  if (path.empty()) return;
  const std::string digest = config_digest();
  update->trainer().require_same_frozen(runtime.fs(), path);
  const RunState s = saved_run_state(runtime.fs(), path, digest);
  RunRecords::check(runtime.fs(), settings, s.step);
  step = s.step;
  cursor = s.cursor;
  evaluation.restore(s.next_eval_ordinal);
  board.restore(s.ledger, s.cursor);
  LedgerCounts none;
  eval_board.restore(none, s.next_eval_ordinal);
  const ComputeLease lease(runtime, "resuming a run");
  const LoadedModel::WriteLease write(*model, 0);
  StepWatch watch(*model, nullptr);
  phases->update().load(runtime.fs(), path, digest);
  watch.done();
  if (s.kl_coef) phases->update().restore_kl(*s.kl_coef);
  resumed_from = path;
  lineage_begins = resume != "auto" && !dir.empty();
  if (!dir.empty() && path == checkpoint_path(dir, static_cast<int64_t>(step))) {
    last_checkpoint = path;
    last_checkpoint_step = step;
  }
  runtime.logger().log(LogLevel::kInfo, "pipeline", "resumed from ", path, " at step ", step);
}

// A run that resumes from a named checkpoint abandons later ones: none of them may be taken for
// the newest of this run.
void Pipeline::Impl::begin_lineage() {
  if (!lineage_begins) return;
  abandon_later_checkpoints(runtime.fs(), output_path(settings, settings.checkpoint.dir),
                            static_cast<int64_t>(boundary.step));
  lineage_begins = false;
}

std::string Pipeline::Impl::write_checkpoint() {
  begin_lineage();
  if (last_checkpoint_step == boundary.step) return last_checkpoint;
  const ScopedSpan span(&runtime.tracer(), "pipeline.checkpoint", TraceLane::kPipeline);
  CheckpointMeta meta;
  meta.step = static_cast<int64_t>(boundary.step);
  meta.config_digest = config_digest();
  meta.pipeline = render_run_state(boundary);
  // An existing one of the same step can only be from an earlier run.
  const CheckpointRules rules{.keep_last = settings.checkpoint.keep_last, .replace_existing = true};
  const std::string path = phases->update().save(
      runtime.fs(), output_path(settings, settings.checkpoint.dir), meta, rules);
  {
    const Control::Lock lock = control.lock();
    last_checkpoint = path;
    last_checkpoint_step = boundary.step;
  }
  auto event = std::make_shared<CheckpointEvent>();
  event->step = boundary.step;
  event->path = path;
  control.push(std::move(event));
  return path;
}

}  // namespace rl

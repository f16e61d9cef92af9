// The update's part of a checkpoint is loaded last: it overwrites the host's model, so everything
// else is checked before.
#include "pipeline/loop/checkpoints.h"

#include <cmath>
#include <memory>
#include <utility>

#include "buffer/store_lease.h"
#include "core/error.h"
#include "core/hash.h"
#include "pipeline/config/run_options.h"
#include "pipeline/loop/events.h"
#include "pipeline/loop/run_records.h"
#include "pipeline/session/step_watch.h"

namespace rl {
namespace {

RunState saved_run_state(const CheckpointMeta& meta, const std::string& path) {
  RunState s = parse_run_state(meta.pipeline, path + "/manifest.json");
  if (s.step == static_cast<uint64_t>(meta.step)) return s;
  throw Error(Code::kDataLoss, str(path, " is the checkpoint of step ", meta.step,
                                   " but its run state is of step ", s.step))
      .with_location(path);
}

// A run of pipeline.role = train, whose store other trainers may take over.
bool trains_for_others(const Settings& settings) {
  return settings.pipeline.role == PipelineRole::kTrain;
}

}  // namespace

Checkpoints::Checkpoints(Control& control, LoadedModel& model, const MemoryPlan& plan,
                         uint64_t data_digest)
    : control_(control),
      model_(model),
      plan_(plan),
      data_digest_(data_digest),
      writer_(trains_for_others(control.settings()) ? hex64(new_lease_holder()) : ""),
      writing_(model.runtime().cpus()) {
  if (control.settings().checkpoint.resume == "never") require_none();
}

// But for one that the host has requested before the run began.
void Checkpoints::require_none() const {
  const std::string dir = this->dir();
  if (dir.empty()) return;
  const auto found = latest_checkpoint(model_.runtime().fs(), dir);
  if (!found || *found == last_) return;
  throw Error(Code::kAlreadyExists, str("checkpoint.dir contains ", *found,
                                        " of an earlier run; set "
                                        "checkpoint.resume or use another directory"))
      .with_key("checkpoint.dir")
      .with_location(*found);
}

std::string Checkpoints::dir() const {
  return output_path(control_.settings(), control_.settings().checkpoint.dir);
}

std::string Checkpoints::config_digest() const {
  return checkpoint_digest(control_.settings().set, plan_, data_digest_);
}

std::string Checkpoints::find() const {
  const std::string& resume = control_.settings().checkpoint.resume;
  if (resume == "never") return {};
  return resume == "auto" ? latest_checkpoint(model_.runtime().fs(), dir()).value_or("") : resume;
}

std::string Checkpoints::find_again() const {
  const std::string& resume = control_.settings().checkpoint.resume;
  if (resume == "never") require_none();
  if (resume != "auto") return {};
  std::string newest = find();
  return newest == last_ ? "" : newest;
}

RunState Checkpoints::open(PolicyUpdate& update, const std::string& found) {
  FileSystem& fs = model_.runtime().fs();
  found_ = found;
  update.trainer().require_same_frozen(fs, found_);
  const CheckpointMeta meta = read_checkpoint_meta(fs, found_, config_digest());
  RunState state = saved_run_state(meta, found_);
  score_ = meta.score;
  RunRecords::check(fs, control_.settings(), state.step);
  return state;
}

std::string Checkpoints::resumed_from() const {
  const Control::Lock lock = control_.lock();
  return resumed_from_;
}

void Checkpoints::load(PolicyUpdate& update, const RunState& found, int64_t reader_wait_ns) {
  Runtime& runtime = model_.runtime();
  const LoadedModel::WriteLease write(model_, reader_wait_ns);
  StepWatch watch(model_, nullptr);
  update.load(runtime.fs(), found_, config_digest());
  watch.done();
  if (found.kl_coef) update.restore_kl(*found.kl_coef);
  first_step_ = found.step;
  const std::string dir = this->dir();
  begins_branch_ = control_.settings().checkpoint.resume != "auto" && !dir.empty() &&
                   runtime.ranks().rank() == 0;
  {
    const Control::Lock lock = control_.lock();
    resumed_from_ = found_;
    if (!dir.empty() && found_ == checkpoint_path(dir, static_cast<int64_t>(found.step))) {
      last_ = found_;
      last_step_ = found.step;
    }
  }
  runtime.logger().log(LogLevel::kInfo, "pipeline", {{"path", found_}, {"step", found.step}},
                       "resumed from ", found_, " at step ", found.step);
}

void Checkpoints::begin_branch(uint64_t step) {
  if (!begins_branch_) return;
  if (require_own_) require_own_();
  abandon_later_checkpoints(model_.runtime().fs(), dir(), static_cast<int64_t>(step));
  begins_branch_ = false;
}

void Checkpoints::note_step(const MetricList& metrics) { note_metrics(metrics, false); }
void Checkpoints::note_evaluation(const MetricList& metrics) { note_metrics(metrics, true); }

// An evaluation's metric keeps its value until the next evaluation.
void Checkpoints::note_metrics(const MetricList& metrics, bool of_evaluation) {
  const std::string& name = control_.settings().checkpoint.metric;
  if (name.empty() || name.starts_with("eval/") != of_evaluation) return;
  const std::optional<double> value = metrics.get(name);
  missing_metric_ = value ? "" : name;
  score_.reset();
  if (value && std::isfinite(*value)) score_ = CheckpointScore{name, *value};
}

void Checkpoints::require_metric() const {
  const Settings& settings = control_.settings();
  if (settings.checkpoint.metric.starts_with("eval/") && settings.eval.path.empty()) {
    throw Error(Code::kNotFound, str("checkpoint.metric is ", settings.checkpoint.metric,
                                     ", but eval.path is empty, so there is no evaluation"))
        .with_key("checkpoint.metric");
  }
  if (missing_metric_.empty() || missing_metric_ != control_.settings().checkpoint.metric) return;
  const bool of_evaluation = missing_metric_.starts_with("eval/");
  throw Error(Code::kNotFound,
              str("checkpoint.metric is ", missing_metric_, ", but the last ",
                  of_evaluation ? "evaluation" : "step", " has no metric of this name"))
      .with_key("checkpoint.metric");
}

std::optional<uint64_t> Checkpoints::last_step() const {
  const Control::Lock lock = control_.lock();
  if (last_step_ == UINT64_MAX) return std::nullopt;
  return last_step_;
}

// An existing checkpoint of the same step is of an earlier run, or of another trainer of the same
// store, which has gone on behind this one.
CheckpointRules Checkpoints::rules(uint64_t step) const {
  const auto& options = control_.settings().checkpoint;
  return {.keep_last = options.keep_last,
          .keep_best = options.keep_best,
          .metric = options.metric,
          .lowest_is_best = options.metric_goal == CheckpointMetricGoal::kLowest,
          .replace_existing = writer_.empty() || step <= first_step_,
          .writer = writer_,
          .require_own = require_own_};
}

MetricList Checkpoints::metrics() const {
  const Control::Lock lock = control_.lock();
  MetricList m;
  if (figures_.num_failed != 0)
    m.set("pipeline/checkpoints_failed", static_cast<double>(figures_.num_failed));
  if (figures_.copy_seconds) m.set("timing_s/checkpoint_copy", *figures_.copy_seconds);
  if (figures_.write_seconds) m.set("timing_s/checkpoint_write", *figures_.write_seconds);
  return m;
}

// A run goes on without the checkpoint of this step.
void Checkpoints::note_failure(uint64_t step, const Error& error) {
  {
    const Control::Lock lock = control_.lock();
    ++figures_.num_failed;
  }
  model_.runtime().logger().log(LogLevel::kWarn, "pipeline", {{"step", step}},
                                "the checkpoint of step ", step,
                                " could not be written, and the run goes on: ", error.message);
  control_.push(std::make_shared<CheckpointFailedEvent>(step, error.message));
}

double Checkpoints::seconds_since(int64_t begin) const {
  return static_cast<double>(model_.runtime().clock().now_ns() - begin) * 1e-9;
}

// What must be true before a checkpoint of this step is written, and its own part of it.
CheckpointMeta Checkpoints::begin(const RunState& boundary) {
  model_.require_whole(LoadedModel::Weights::kTrained);
  if (refused_) {
    throw Error(Code::kFailedPrecondition,
                str("the run was stopped within the update of step ", boundary.step + 1,
                    ", which left the model half-trained: resume from the last checkpoint"));
  }
  require_metric();
  control_.schedule(control_.lock()).sync();
  const Settings& settings = control_.settings();
  CheckpointMeta meta;
  meta.step = static_cast<int64_t>(boundary.step);
  meta.config_digest = config_digest();
  meta.pipeline = render_run_state(boundary);
  meta.contents = checkpoint_contents_from(settings);
  if (score_ && score_->metric == settings.checkpoint.metric) meta.score = score_;
  return meta;
}

std::string Checkpoints::save(const Draft& draft) {
  const auto step = static_cast<uint64_t>(draft.of.meta.step);
  const std::string path =
      write_checkpoint(model_.runtime().fs(), draft.dir, draft.of, draft.rules);
  {
    const Control::Lock lock = control_.lock();
    last_ = path;
    last_step_ = step;
  }
  auto event = std::make_shared<CheckpointEvent>();
  event->step = step;
  event->path = path;
  control_.push(std::move(event));
  return path;
}

std::string Checkpoints::write(PolicyUpdate& update, const RunState& boundary) {
  begin_branch(boundary.step);
  if (is_written(boundary)) return last_;
  const CheckpointMeta meta = begin(boundary);
  const ScopedSpan span(&model_.runtime().tracer(), "pipeline.checkpoint", TraceLane::kPipeline);
  const Draft draft{update.draft(meta), dir(), rules(boundary.step)};
  return writes() ? save(draft) : checkpoint_path(draft.dir, meta.step);
}

// The failure of a run that goes on, or null.
std::shared_ptr<const Error> Checkpoints::attempt(const Due& due, FunctionRef<void()> work) {
  try {
    work();
    return nullptr;
  } catch (const RankError&) {
    throw;
  } catch (const Error& e) {
    if (!due.goes_on) throw;
    note_failure(due.step, e);
    return std::make_shared<Error>(e);
  }
}

// To the checkpoint that rank 0 writes, which is made by those that divide the model with it, and
// of divided states by all. What it is refused for is refused on all, and rank 0 tells of it.
void Checkpoints::give_parts(PolicyUpdate& update, const RunState& boundary, const Due& due) {
  if (model_.runtime().data_ranks().rank() != 0) {
    if (!update.trainer().has_states_in_parts()) return;
    return update.give_states(checkpoint_contents_from(control_.settings()));
  }
  try {
    update.make_checkpoint([&] { write(update, boundary); });
  } catch (const RankError&) {
    throw;
  } catch (const Error&) {
    if (!due.goes_on) throw;
  }
}

void Checkpoints::write_due(PolicyUpdate& update, const RunState& boundary) {
  const auto& options = control_.settings().checkpoint;
  finish();
  const Due due{boundary.step, control_.begin_checkpoint(),
                options.on_failure == CheckpointOnFailure::kContinue};
  if (!writes()) {
    give_parts(update, boundary, due);
    return control_.end_checkpoint(due.requested, nullptr);
  }
  bool started = false;
  std::shared_ptr<const Error> failure = attempt(due, [&] {
    update.make_checkpoint([&] {
      if (options.async) {
        started = start(update, boundary, due);
      } else {
        write(update, boundary);
      }
    });
  });
  if (!started) control_.end_checkpoint(due.requested, std::move(failure));
}

// False if the step has a checkpoint.
bool Checkpoints::start(PolicyUpdate& update, const RunState& boundary, const Due& due) {
  begin_branch(boundary.step);
  if (is_written(boundary)) return false;
  const CheckpointMeta meta = begin(boundary);
  const ScopedSpan span(&model_.runtime().tracer(), "pipeline.checkpoint", TraceLane::kPipeline);
  const int64_t begin_ns = model_.runtime().clock().now_ns();
  Draft draft{update.draft_of_copy(meta), dir(), rules(boundary.step)};
  draft.copy_seconds = seconds_since(begin_ns);
  writing_.start([this, due, draft = std::move(draft)] { save_apart(draft, due); });
  return true;
}

// On the thread of its own. Whoever requested the checkpoint is told now, also of a failure that
// the loop will end the run for.
void Checkpoints::save_apart(const Draft& draft, const Due& due) {
  const int64_t begin_ns = model_.runtime().clock().now_ns();
  try {
    std::shared_ptr<const Error> failure = attempt(due, [&] {
      save(draft);
      const double seconds = seconds_since(begin_ns);
      const Control::Lock lock = control_.lock();
      figures_.copy_seconds = draft.copy_seconds;
      figures_.write_seconds = seconds;
    });
    control_.end_checkpoint(due.requested, std::move(failure));
  } catch (const Error& e) {
    control_.end_checkpoint(due.requested, std::make_shared<Error>(e));
    throw;
  }
}

}  // namespace rl

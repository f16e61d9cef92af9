#include "pipeline/loop/update_driver.h"

#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/loop/flow_metrics.h"
#include "pipeline/update/engine_metrics.h"
#include "pipeline/update/step_metrics.h"

namespace rl {
namespace {

constexpr int64_t kReaderWaitNs = int64_t{600} * 1'000'000'000;  // for a host's save or digest

}  // namespace

FlowProgress UpdateDriver::progress() {
  const auto done = static_cast<int64_t>(uses_.progress.boundary.step);
  const int64_t total = settings().pipeline.total_steps;
  return {done, total == 0 ? -1 : std::max<int64_t>(0, total - done), training_};
}

bool UpdateDriver::needs_engine() {
  uses_.control.take_eval_request();
  return uses_.control.due() == Control::Due::kEvaluation;
}

bool UpdateDriver::has_steps_left() const {
  const auto total = static_cast<uint64_t>(settings().pipeline.total_steps);
  return total == 0 || uses_.progress.boundary.step < total;
}

// An evaluation that the host requests just now, while samples of steps are generated, comes after
// the next step.
Turn UpdateDriver::between_steps() {
  Control& control = uses_.control;
  while (control.enter(PipelineState::kFetching)) {
    uses_.checkpoints.finish_if_ended();
    if (!uses_.generation.active()) control.take_eval_request();
    if (control.apply_staged()) apply_options();
    Control::Due due = control.due();
    if (due == Control::Due::kEvaluation && uses_.generation.active()) due = Control::Due::kNothing;
    switch (due) {
      case Control::Due::kEvaluation:
        if (!uses_.evaluation.run()) return Turn::kEnd;
        break;
      case Control::Due::kCheckpoint:
        control.enter(PipelineState::kCheckpointing);
        uses_.checkpoints.write_due(uses_.phases.update(), uses_.progress.boundary);
        break;
      case Control::Due::kNothing:
        if (!has_steps_left()) return Turn::kEnd;
        begin_step();
        return Turn::kWorked;
    }
  }
  return Turn::kEnd;
}

void UpdateDriver::apply_options() {
  uses_.phases.update().set_options(settings());
  uses_.rollout.set_rules();
}

void UpdateDriver::begin_step() {
  step() = {};
  step().times.begin = now();
  step().prefetched_before = uses_.prompts.num_prefetched();
  if (EngineSet* const engine = uses_.phases.engine(); engine != nullptr) {
    engine->restart_peak();
    step().engine_before = engine->stats();
  }
}

int64_t UpdateDriver::drop_stale() {
  const auto most = static_cast<uint64_t>(uses_.rollout.rules().max_staleness);
  const uint64_t version = uses_.model.version();
  return version > most ? uses_.scoring.drop_older_than(version - most) : 0;
}

Turn UpdateDriver::begin(int64_t groups) {
  const int64_t start = now();
  step().times.no_batch_ns = start - step().times.begin;
  if (!uses_.control.enter(PipelineState::kTraining)) return Turn::kEnd;
  const int64_t dropped = uses_.rollout.filter().drop_zero_advantages(groups);
  step().filtered.zero_advantage += dropped;
  const uint64_t step_number = uses_.progress.boundary.step + 1;
  batch_ = uses_.scoring.take_batch(step_number, groups - dropped);
  training_ = true;
  uses_.files.record_batch(step_number, batch_, uses_.scoring.group_size(Purpose::kTrain));
  PolicyUpdate& update = uses_.phases.update();
  if (!batch_.empty()) {
    const ScoredLists lists(batch_);
    write_.emplace(uses_.model, kReaderWaitNs);
    // Activations overwrite the KV memory, even if the weights do not change.
    if (uses_.phases.engine() != nullptr && uses_.phases.share_bytes()) {
      uses_.phases.engine()->forget_kv();
    }
    update.begin(lists.view(), uses_.progress.boundary.step);
  }
  step().times.training_ns += now() - start;
  return Turn::kWorked;
}

Turn UpdateDriver::next() {
  const int64_t start = now();
  PolicyUpdate& update = uses_.phases.update();
  Turn turn = Turn::kNothing;
  if (batch_.empty()) {
    finish(update.without_samples());
  } else if (update.has_steps_left() && uses_.control.out_of_time()) {
    abandon();
    return Turn::kEnd;
  } else if (update.next()) {
    turn = Turn::kWorked;
  } else {
    UpdateResult done = update.finish();
    done.trained.samples = done.num_samples;  // also while the critic warms up
    finish(std::move(done));
  }
  step().times.training_ns += now() - start;
  trained_ns_ = now();
  return turn;
}

// An update that has changed nothing is undone: its groups return to the buffer, and its recorded
// batch belongs to no step.
void UpdateDriver::abandon() {
  const bool unchanged = uses_.phases.update().abandon();
  write_.reset();
  training_ = false;
  if (unchanged) {
    uses_.scoring.give_back(std::exchange(batch_, {}));
    uses_.files.begin(uses_.progress.boundary.step);
    return;
  }
  uses_.checkpoints.refuse();
  const uint64_t step = uses_.progress.boundary.step + 1;
  uses_.model.runtime().logger().log(
      LogLevel::kWarn, "pipeline", {{"step", step}}, "stopped within the update of step ", step,
      ", after an optimizer step and before the last one: the model is "
      "half-trained, and the run resumes from its last checkpoint");
}

// The weights are trained, and the engine may read others for a while.
void UpdateDriver::finish(UpdateResult done) {
  write_.reset();
  StepRecord& step = this->step();
  step.applied = done.applied;
  step.skipped = done.skipped;
  step.trained = std::move(done.metrics);
  step.update = done.trained;
  if (uses_.rollout.generates()) uses_.files.records().keep_extremes(batch_);
}

// The step is final: the ledger commits it and the host is notified.
void UpdateDriver::publish() {
  uses_.control.enter(PipelineState::kPublishing);
  StepRecord& step = this->step();
  step.times.unpublished_ns = now() - trained_ns_;
  if (generates_ahead(settings())) {
    step.trained.append(staleness_metrics(batch_, uses_.model.version()));
  }
  const int64_t start = now();
  uses_.phases.update().publish(step.update);
  step.times.training_ns += now() - start;
  step.trained.append(train_metrics(step.update));
  if (uses_.rollout.generates()) step.trained.append(request_metrics(batch_));
  std::shared_ptr<StepEvent> event = commit();
  uses_.scoring.forget_rows();
  uses_.generation.forget_requests();
  uses_.scoring.push_dropped();
  event->metrics = step_metrics();
  uses_.checkpoints.note_step(event->metrics);
  uses_.files.records().write_step(event->metrics, settings().metrics.interval_steps);
  uses_.model.runtime().tracer().span({"pipeline.step", TraceLane::kPipeline, step.times.begin,
                                       now(), "step", static_cast<int64_t>(event->step)});
  uses_.control.push(std::move(event));
  batch_.clear();
  training_ = false;
}

// What is open will be drawn again by a run that resumes here, so it does not count yet.
std::shared_ptr<StepEvent> UpdateDriver::commit() {
  auto event = std::make_shared<StepEvent>();
  const Control::Lock lock = uses_.control.lock();
  Scoring& scoring = uses_.scoring;
  RunSchedule& schedule = uses_.control.schedule(lock);
  schedule.look();
  if (step().applied) {
    scoring.commit_batch(lock);
  } else if (step().skipped) {
    scoring.drop_batch(DropReason::kNonFinite, {}, lock);
  } else {
    scoring.drop_batch(DropReason::kFiltered, "no token carried loss", lock);
  }
  RunState& state = uses_.progress.boundary;
  ++state.step;
  state.cursor = uses_.rollout.next_ordinal();
  state.open_ordinals = scoring.open_ordinals(lock);
  state.kl_coef = uses_.phases.update().adaptive_kl();
  state.ledger = scoring.ledger(lock).without_open();
  uses_.progress.version = uses_.model.version();
  schedule.note(ScheduledKind::kPublish,
                {state.step, uses_.progress.version, bits_of(step().update.loss),
                 bits_of(step().update.grad_norm)});
  event->step = state.step;
  event->version = uses_.progress.version;
  const auto due = [&](int64_t every_steps) {
    return every_steps != 0 && state.step % static_cast<uint64_t>(every_steps) == 0;
  };
  uses_.control.add_due(due(settings().eval.every_steps), due(settings().checkpoint.every_steps),
                        lock);
  return event;
}

namespace {

void set_ledger(MetricList& m, const LedgerCounts& c) {
  const auto count = [&](const std::string& name, int64_t v) {
    m.set(name, static_cast<double>(v));
  };
  count("pipeline/prompts_drawn", c.prompts_drawn);
  count("pipeline/prompts_trained", c.prompts_trained);
  count("pipeline/prompts_dropped", c.dropped());
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    if (c.prompts_dropped[i] == 0) continue;
    count(str("pipeline/prompts_dropped/", drop_reason_name(static_cast<DropReason>(i))),
          c.prompts_dropped[i]);
  }
  count("pipeline/samples_started", c.attempts_started);
  count("pipeline/samples_trained", c.attempts_trained);
  count("pipeline/samples_discarded", c.discarded());
  count("pipeline/tokens_generated", c.tokens_generated);
  count("pipeline/refused_scores",
        c.late_scores + c.duplicate_scores + c.unknown_scores + c.nonfinite_scores);
}

}  // namespace

MetricList UpdateDriver::step_metrics() {
  const RunState& boundary = uses_.progress.boundary;
  const bool generates = uses_.rollout.generates();
  StepRecord& step = this->step();
  MetricList m;
  m.set(kStepMetric, static_cast<double>(boundary.step));
  m.set("training/epoch", static_cast<double>(uses_.prompts.epoch_of(boundary.cursor - 1)));
  m.set("training/weight_version", static_cast<double>(uses_.model.version()));
  m.append(step.trained);
  if (generates) m.append(step.filtered.metrics());
  set_ledger(m, uses_.scoring.ledger(uses_.control.lock()));
  if (generates_ahead(settings())) m.append(flow_metrics(uses_.scoring.groups(), step.times));
  if (settings().pipeline.max_concurrent_prompts_per_engine != 0) {
    const EngineSet& engine = *uses_.phases.engine();
    m.set("pipeline/lanes_taken", static_cast<double>(engine.lanes_taken()));
    m.set("pipeline/lanes_held", static_cast<double>(engine.lanes_held()));
  }
  if (settings().pipeline.prompt_prefetch) {
    m.set("timing_s/draw", to_seconds(step.times.drawing_ns));
    m.set("pipeline/prompts_prefetched",
          static_cast<double>(uses_.prompts.num_prefetched() - step.prefetched_before));
  }
  m.append(uses_.checkpoints.metrics());
  if (generates) m.append(step.generation_metrics(uses_.phases.engine()->stats()));
  step.set_times(m, now(), generates);
  return m;
}

}  // namespace rl

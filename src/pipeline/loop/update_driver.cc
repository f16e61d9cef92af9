#include "pipeline/loop/update_driver.h"

#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/loop/flow_metrics.h"
#include "pipeline/update/engine_metrics.h"
#include "pipeline/update/step_metrics.h"

namespace rl {

FlowProgress UpdateDriver::progress() {
  const auto done = static_cast<int64_t>(run_.progress.boundary.step);
  const int64_t total = settings().pipeline.total_steps;
  return {done, total == 0 ? -1 : std::max<int64_t>(0, total - done), training_};
}

bool UpdateDriver::needs_engine() {
  run_.control.take_eval_request();
  return run_.control.due() == Control::Due::kEvaluation;
}

bool UpdateDriver::has_steps_left() const {
  const auto total = static_cast<uint64_t>(settings().pipeline.total_steps);
  return total == 0 || run_.progress.boundary.step < total;
}

// The pipeline that generates for this one ends with the weights of the last step.
bool UpdateDriver::ends_with_a_checkpoint() const {
  return settings().pipeline.role == PipelineRole::kTrain && !settings().checkpoint.dir.empty() &&
         !has_steps_left();
}

// An evaluation that the host requests just now, while samples of steps are generated, comes after
// the next step.
Turn UpdateDriver::between_steps() {
  Control& control = run_.control;
  for (;;) {
    control.meet();
    if (!control.enter(PipelineState::kFetching)) return Turn::kEnd;
    run_.checkpoints.finish_if_ended();
    acknowledge();
    if (!run_.generation.active()) control.take_eval_request();
    if (control.apply_staged()) apply_options();
    Control::Due due = control.due();
    if (due == Control::Due::kEvaluation && run_.generation.active()) due = Control::Due::kNothing;
    switch (due) {
      case Control::Due::kEvaluation:
        if (!evaluation_.run()) return Turn::kEnd;
        break;
      case Control::Due::kCheckpoint:
        control.enter(PipelineState::kCheckpointing);
        if (!meets_for_checkpoint()) return Turn::kEnd;
        run_.checkpoints.write_due(run_.phases.update(), run_.progress.boundary);
        break;
      case Control::Due::kNothing:
        if (!has_steps_left()) return Turn::kEnd;
        begin_step();
        return Turn::kWorked;
    }
  }
}

void UpdateDriver::acknowledge() {
  if (const auto step = run_.checkpoints.last_step()) rollout_.acknowledge(*step);
}

// In the trace of a run that generates ahead.
void UpdateDriver::trace_wait(const char* name, int64_t start_ns, int64_t end_ns) const {
  if (!generates_ahead(settings())) return;
  run_.model.runtime().tracer().span({name, TraceLane::kPipeline, start_ns, end_ns, nullptr, 0});
}

// Where each rank has a part of what a checkpoint holds, all come. So do those that divide a model
// and have not met before, and with them the ranks of other models.
bool UpdateDriver::meets_for_checkpoint() {
  const bool in_parts = run_.phases.update().trainer().has_states_in_parts();
  if (!in_parts && !engines_are_whole(settings())) return true;
  return rollout_.batches().meets(run_.progress.boundary.step);
}

void UpdateDriver::apply_options() {
  if (run_.phases.trains()) run_.phases.update().set_options(settings());
  rollout_.set_rules();
}

void UpdateDriver::begin_step() {
  step() = {};
  step().times.begin = now();
  step().prefetched_before = run_.prompts.num_prefetched();
  step().rows_read_before = run_.prompts.num_rows_read();
  if (EngineSet* const engine = run_.phases.engine(); engine != nullptr) {
    engine->restart_peak();
    step().engine_before = engine->stats();
  }
}

int64_t UpdateDriver::drop_stale() {
  const auto most = static_cast<uint64_t>(settings().pipeline.max_staleness);
  const uint64_t version = run_.model.version();
  return version > most ? run_.scoring.drop_older_than(version - most) : 0;
}

Turn UpdateDriver::begin(int64_t groups) {
  const int64_t start = now();
  step().times.no_batch_ns = start - step().times.begin;
  trace_wait("pipeline.wait_for_batch", step().times.begin, start);
  if (!run_.control.enter(PipelineState::kTraining)) return Turn::kEnd;
  const int64_t dropped = rollout_.filter().drop_zero_advantages(groups);
  step().filtered.zero_advantage += dropped;
  const uint64_t step_number = run_.progress.boundary.step + 1;
  own_ = run_.scoring.take_batch(step_number, groups - dropped);
  auto batch = rollout_.batches().exchange(run_.progress.boundary.step, own_);
  if (!batch) {
    run_.scoring.give_back(std::exchange(own_, {}));
    return Turn::kEnd;
  }
  batch_ = std::move(*batch);
  training_ = true;
  version_ = run_.model.version();
  run_.files.record_batch(step_number, batch_, run_.scoring.group_size(Purpose::kTrain));
  rollout_.trace_groups();
  PolicyUpdate& update = run_.phases.update();
  if (!batch_.empty()) {
    const ScoredLists lists(batch_);
    write_.emplace(run_.model, kReaderWaitNs);
    // Activations overwrite the KV memory, even if the weights do not change.
    if (run_.phases.engine() != nullptr && run_.phases.share_bytes()) {
      run_.phases.engine()->forget_kv();
    }
    update.begin(lists.view(), run_.progress.boundary.step);
  }
  step().times.training_ns += now() - start;
  return Turn::kWorked;
}

Turn UpdateDriver::next() {
  const int64_t start = now();
  PolicyUpdate& update = run_.phases.update();
  Turn turn = Turn::kNothing;
  if (batch_.empty()) {
    finish(update.without_samples());
  } else if (update.has_steps_left() && run_.control.out_of_time()) {
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
  const bool unchanged = run_.phases.update().abandon();
  write_.reset();
  training_ = false;
  if (unchanged) {
    batch_.clear();
    run_.scoring.give_back(std::exchange(own_, {}));
    run_.files.begin(run_.progress.boundary.step);
    return;
  }
  run_.checkpoints.refuse();
  const uint64_t step = run_.progress.boundary.step + 1;
  run_.model.runtime().logger().log(
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
  if (is_rl(settings().algo.objective)) run_.files.records().keep_extremes(batch_);
}

// The step is final: the ledger commits it and the host is notified.
void UpdateDriver::publish() {
  run_.control.enter(PipelineState::kPublishing);
  StepRecord& step = this->step();
  step.times.unpublished_ns = now() - trained_ns_;
  trace_wait("pipeline.wait_for_rollout", trained_ns_, trained_ns_ + step.times.unpublished_ns);
  if (generates_ahead(settings())) {
    step.trained.append(staleness_metrics(batch_, version_));
  }
  const int64_t start = now();
  run_.phases.update().publish(step.update);
  step.times.training_ns += now() - start;
  step.trained.append(train_metrics(step.update));
  if (rollout_.generates()) step.trained.append(request_metrics(batch_));
  std::shared_ptr<StepEvent> event = commit();
  run_.scoring.forget_rows();
  run_.generation.forget_requests();
  run_.scoring.push_dropped();
  MetricList metrics = step_metrics();
  run_.checkpoints.note_step(metrics);
  run_.files.records().write_step(metrics, settings().metrics.interval_steps);
  if (run_.model.runtime().ranks().rank() == 0) event->metrics = std::move(metrics);
  run_.model.runtime().tracer().span({"pipeline.step", TraceLane::kPipeline, step.times.begin,
                                      now(), "step", static_cast<int64_t>(event->step)});
  const uint64_t step_done = event->step;
  run_.control.push(std::move(event));
  rollout_.end_step(own_);
  if (settings().checkpoint.dir.empty()) rollout_.acknowledge(step_done);
  batch_.clear();
  own_.clear();
  training_ = false;
}

// Ends the groups of the step. Returns the ledger, without what is open.
LedgerCounts UpdateDriver::close_batch(const Control::Lock& lock) {
  Scoring& scoring = run_.scoring;
  if (step().applied) {
    scoring.commit_batch(lock);
  } else if (step().skipped) {
    scoring.drop_batch(DropReason::kNonFinite, {}, lock);
  } else {
    scoring.drop_batch(DropReason::kFiltered, "no token carried loss", lock);
  }
  return scoring.ledger(lock).without_open();
}

// What is open will be drawn again by a run that resumes here, so it does not count yet.
std::shared_ptr<StepEvent> UpdateDriver::commit() {
  auto event = std::make_shared<StepEvent>();
  RunState& state = run_.progress.boundary;
  run_.control.see([&](const Control::Lock& lock) {
    run_.control.schedule(lock).look();
    state.ledger = close_batch(lock);
    ++state.step;
    state.cursor = rollout_.next_ordinal();
    state.open_ordinals = run_.scoring.open_ordinals(lock);
    state.kl_coef = run_.phases.update().adaptive_kl();
    run_.progress.version = run_.model.version();
    run_.control.schedule(lock).note(
        ScheduledKind::kPublish, {state.step, run_.progress.version, bits_of(step().update.loss),
                                  bits_of(step().update.grad_norm)});
    const auto due = [&](int64_t every_steps) {
      return every_steps != 0 && state.step % static_cast<uint64_t>(every_steps) == 0;
    };
    run_.control.add_due(due(settings().eval.every_steps),
                         due(settings().checkpoint.every_steps) || ends_with_a_checkpoint(), lock);
  });
  // Nobody waits for other ranks with the lock.
  const LedgerCounts ledger = rollout_.batches().sum(state.ledger);
  const Control::Lock lock = run_.control.lock();
  state.ledger = ledger;
  event->step = state.step;
  event->version = run_.progress.version;
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

// Of what brings prompts to the engine.
MetricList UpdateDriver::supply_metrics() {
  MetricList m;
  if (settings().pipeline.max_concurrent_prompts_per_engine != 0) {
    const EngineSet& engine = *run_.phases.engine();
    m.set("pipeline/lanes_taken", static_cast<double>(engine.lanes_taken()));
    m.set("pipeline/lanes_held", static_cast<double>(engine.lanes_held()));
  }
  const DataSettings& data = settings().data;
  if (!data.streaming || data.streaming_buffer_size > 0) {
    m.set("pipeline/rows_read",
          static_cast<double>(run_.prompts.num_rows_read() - step().rows_read_before));
  }
  if (data.preprocess_workers > 1) {
    m.set("pipeline/prompt_workers", static_cast<double>(run_.prompts.most_workers()));
  }
  if (settings().pipeline.prompt_prefetch) {
    m.set("timing_s/draw", to_seconds(step().times.drawing_ns));
    m.set("pipeline/prompts_prefetched",
          static_cast<double>(run_.prompts.num_prefetched() - step().prefetched_before));
  }
  return m;
}

MetricList UpdateDriver::step_metrics() {
  const RunState& boundary = run_.progress.boundary;
  const bool generates = rollout_.generates();
  StepRecord& step = this->step();
  MetricList m;
  m.set(kStepMetric, static_cast<double>(boundary.step));
  m.set("training/epoch", static_cast<double>(run_.prompts.epoch_of(boundary.cursor - 1)));
  m.set("training/weight_version", static_cast<double>(run_.model.version()));
  m.append(step.trained);
  if (generates) m.append(step.filtered.metrics());
  const RankBatches& batches = rollout_.batches();
  set_ledger(m, batches.alone() ? run_.scoring.ledger(run_.control.lock()) : boundary.ledger);
  if (generates_ahead(settings())) m.append(flow_metrics(run_.scoring.groups(), step.times));
  m.append(rollout_.store_metrics());
  m.append(supply_metrics());
  m.append(run_.checkpoints.metrics());
  if (generates) {
    step.engine_before = batches.sum(step.engine_before);
    m.append(step.generation_metrics(batches.sum(run_.phases.engine()->stats())));
  }
  step.set_times(m, now(), generates);
  return m;
}

}  // namespace rl

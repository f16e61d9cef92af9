// The second half of a step: the update on the batch of the experience buffer, and its events and
// records.
#include "core/error.h"
#include "pipeline/loop/pipeline_impl.h"
#include "pipeline/update/engine_metrics.h"
#include "pipeline/update/step_metrics.h"

namespace rl {
namespace {

constexpr int64_t kReaderWaitNs = int64_t{600} * 1'000'000'000;  // for a host's save or digest

}  // namespace

bool Pipeline::Impl::update(StepRecord& step) {
  if (!control.enter(PipelineState::kTraining)) return false;
  const std::vector<SamplePtr> batch = scoring.take_batch();
  files.record_batch(progress.boundary.step + 1, batch, scoring.group_size(Purpose::kTrain));
  const std::optional<UpdateResult> updated = update_policy(batch);
  if (!updated) return false;
  const UpdateResult& done = *updated;
  step.applied = done.applied;
  step.skipped = done.skipped;
  if (generates()) files.records().keep_extremes(batch);
  step.trained = done.metrics;
  step.trained.append(train_metrics(done.trained));
  if (generates()) step.trained.append(request_metrics(batch));
  step.times.trained = now();
  return true;
}

// Nothing if the deadline of a stop ended the update.
std::optional<UpdateResult> Pipeline::Impl::update_policy(std::span<const SamplePtr> batch) {
  PolicyUpdate& update = phases.update();
  if (batch.empty()) return update.without_samples();
  const ScoredLists lists(batch);
  const LoadedModel::WriteLease write(*model, kReaderWaitNs);
  // Activations overwrite the KV memory, even if the weights do not change.
  if (phases.engine() != nullptr) phases.engine()->forget_kv();
  update.begin(lists.view(), progress.boundary.step);
  do {
    if (update.has_steps_left() && control.out_of_time()) {
      abandon_update(batch);
      return std::nullopt;
    }
  } while (update.next());
  UpdateResult done = update.finish();
  done.trained.samples = done.num_samples;  // also while the critic warms up
  return done;
}

// An update that has changed nothing is undone: its groups return to the buffer, and its recorded
// batch belongs to no step.
void Pipeline::Impl::abandon_update(std::span<const SamplePtr> batch) {
  if (phases.update().abandon()) {
    scoring.give_back({batch.begin(), batch.end()});
    files.begin(progress.boundary.step);
    return;
  }
  checkpoints.refuse();
  const uint64_t step = progress.boundary.step + 1;
  runtime.logger().log(LogLevel::kWarn, "pipeline", {{"step", step}},
                       "stopped within the update of step ", step,
                       ", after an optimizer step and before the last one: the model is "
                       "half-trained, and the run resumes from its last checkpoint");
}

// The step is final: the ledger commits it and the host is notified.
void Pipeline::Impl::publish(const StepRecord& step) {
  control.enter(PipelineState::kPublishing);
  auto event = std::make_shared<StepEvent>();
  {
    const Control::Lock lock = control.lock();
    if (step.applied) {
      scoring.commit_batch(lock);
    } else if (step.skipped) {
      scoring.drop_batch(DropReason::kNonFinite, {}, lock);
    } else {
      scoring.drop_batch(DropReason::kFiltered, "no token carried loss", lock);
    }
    RunState& state = progress.boundary;
    ++state.step;
    state.cursor += step.drawn;
    state.kl_coef = phases.update().adaptive_kl();
    state.ledger = scoring.ledger(lock);
    progress.version = model->version();
    event->step = state.step;
    event->version = progress.version;
    const auto due = [&](int64_t every_steps) {
      return every_steps != 0 && state.step % static_cast<uint64_t>(every_steps) == 0;
    };
    control.add_due(due(settings.eval.every_steps), due(settings.checkpoint.every_steps), lock);
  }
  scoring.clear_rows();
  scoring.push_dropped();
  event->metrics = step_metrics(step);
  checkpoints.note_step(event->metrics);
  files.records().write_step(event->metrics, settings.metrics.interval_steps);
  runtime.tracer().span({"pipeline.step", TraceLane::kPipeline, step.times.begin, now(), "step",
                         static_cast<int64_t>(event->step)});
  control.push(std::move(event));
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

MetricList Pipeline::Impl::step_metrics(const StepRecord& step) const {
  MetricList m;
  m.set(kStepMetric, static_cast<double>(progress.boundary.step));
  m.set("training/epoch", static_cast<double>(prompts.epoch_of(progress.boundary.cursor - 1)));
  m.set("training/weight_version", static_cast<double>(model->version()));
  m.append(step.trained);
  if (generates()) m.append(step.filtered.metrics());
  set_ledger(m, progress.boundary.ledger);
  m.append(checkpoints.metrics());
  if (generates()) m.append(step.generation_metrics(phases.engine()->stats()));
  step.set_times(m, now(), generates());
  return m;
}

}  // namespace rl

// The second half of a step: the update on the scored batch, and its events and records.
#include "core/error.h"
#include "pipeline/loop/engine_metrics.h"
#include "pipeline/loop/pipeline_impl.h"
#include "pipeline/update/step_metrics.h"

namespace rl {
namespace {

constexpr int64_t kReaderWaitNs = int64_t{600} * 1'000'000'000;  // for a host's save or digest

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double rate(double count, int64_t ns) { return ns > 0 ? count / seconds(ns) : 0; }

}  // namespace

PipelineState Pipeline::Impl::train() {
  std::vector<ScoreBoard::Scored> batch;
  {
    const std::lock_guard lock(mutex);
    batch = board.reserve();
  }
  if (step_recorder != nullptr) record(batch);
  const ScoredLists lists(batch);
  const UpdateResult done = update_policy(lists);
  batch_applied = done.applied;
  if (draws()) records->keep_extremes(batch);
  trained = done.metrics;
  trained.append(train_metrics(done.trained));
  if (draws()) trained.append(request_metrics(lists.samples));
  times.trained = now();
  runtime.tracer().span({"publish", TraceLane::kPublication,
                         times.trained - done.trained.publish_ns, times.trained, "version",
                         static_cast<int64_t>(model->version())});
  return PipelineState::kPublishing;
}

UpdateResult Pipeline::Impl::update_policy(const ScoredLists& batch) {
  if (batch.samples.empty()) return update->without_samples();
  const LoadedModel::WriteLease write(*model, kReaderWaitNs);
  // Activations overwrite the KV memory, even if the weights do not change.
  if (engine != nullptr) engine->forget_kv();
  update->begin({batch.samples, batch.scores, batch.parts}, step);
  while (update->next()) {
  }
  UpdateResult done = update->finish();
  done.trained.samples = done.num_samples;  // also while the critic warms up
  return done;
}

// Before the update, because the file names the weights that the step starts from.
void Pipeline::Impl::record(std::span<const ScoreBoard::Scored> batch) {
  const ScopedSpan span(&runtime.tracer(), "pipeline.record", TraceLane::kPipeline);
  BufferInfo info;
  info.step = step + 1;
  info.group_size = board.group_size();
  info.options_identity = settings.set.identity();
  info.options = settings.set.dump(true);
  info.max_tokens = plan.max_tokens;
  info.model = model->identity();
  step_recorder->write(info, batch);
}

// The step is final: the ledger commits it and the host is notified.
PipelineState Pipeline::Impl::publish() {
  auto event = std::make_shared<StepEvent>();
  {
    const std::lock_guard lock(mutex);
    if (batch_applied) {
      board.commit();
    } else {
      board.abandon(DropReason::kNonFinite, {});
    }
    ++step;
    cursor += drawn_in_step;
    version = model->version();
    boundary = boundary_state();
    event->step = step;
    event->version = version;
    const auto due = [&](int64_t every_steps) {
      return every_steps != 0 && step % static_cast<uint64_t>(every_steps) == 0;
    };
    eval_due = eval_due || due(settings.eval.every_steps);
    checkpoint_due = due(settings.checkpoint.every_steps);
  }
  prompts.clear();
  push_dropped();
  event->metrics = step_metrics();
  records->write_step(event->metrics, settings.metrics.interval_steps);
  runtime.tracer().span({"pipeline.step", TraceLane::kPipeline, times.begin, now(), "step",
                         static_cast<int64_t>(event->step)});
  queue->push(std::move(event));
  return PipelineState::kDrawing;
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

// As in verl: generation per generated token, everything else per token of prompts and responses.
void set_times_per_token(MetricList& m, double generated, double all) {
  for (const char* phase : {"gen", "ref", "values", "adv", "update_critic", "update_actor"}) {
    const auto spent = m.get(str("timing_s/", phase));
    const double tokens = std::string_view(phase) == "gen" ? generated : all;
    if (spent && tokens > 0) m.set(str("timing_per_token_ms/", phase), *spent * 1e3 / tokens);
  }
}

}  // namespace

void Pipeline::Impl::set_rollout(MetricList& m) const {
  const EngineStats s = engine->stats();
  const double prefill = static_cast<double>(s.prefill_tokens - stats_before.prefill_tokens);
  const double decode = static_cast<double>(s.decode_tokens - stats_before.decode_tokens);
  m.set("rollout/prefill_tokens", prefill);
  m.set("rollout/decode_tokens", decode);
  m.append(rollout_metrics(stats_before, s));
  m.set("timing_s/gen", seconds(times.generated - times.drawn));
  m.set("timing_s/reward", seconds(times.scored - times.generated));
}

MetricList Pipeline::Impl::step_metrics() {
  MetricList m;
  m.set(kStepMetric, static_cast<double>(boundary.step));
  const uint64_t last = cursor - 1;
  m.set("training/epoch", data != nullptr ? static_cast<double>(data->epoch_of(last)) : 0.0);
  m.set("training/weight_version", static_cast<double>(model->version()));
  m.append(trained);
  if (draws()) m.append(filter_metrics());
  set_ledger(m, boundary.ledger);
  if (draws()) set_rollout(m);
  m.set("timing_s/train", seconds(times.trained - times.scored));
  m.set("timing_s/step", seconds(now() - times.begin));
  const double generated =
      trained.get("response_length/mean").value_or(0) * trained.get("training/samples").value_or(0);
  const double prompts =
      trained.get("prompt_length/mean").value_or(0) * trained.get("training/samples").value_or(0);
  set_times_per_token(m, generated, prompts + generated);
  m.set("perf/total_num_tokens", prompts + generated);
  m.set("perf/time_per_step", seconds(now() - times.begin));
  m.set("perf/throughput", rate(prompts + generated, now() - times.begin));
  if (draws()) m.set("perf/rollout_tokens_per_s", rate(generated, times.generated - times.drawn));
  m.set("perf/train_tokens_per_s",
        rate(trained.get("training/tokens").value_or(0), times.trained - times.scored));
  return m;
}

}  // namespace rl

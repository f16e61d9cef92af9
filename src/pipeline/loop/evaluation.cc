// Metrics of an evaluation are means over its scored samples; failed groups are only counted.
#include "pipeline/loop/evaluation.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "formats/open/open_weight_source.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/update/step_metrics.h"
#include "train/losses/reward_pairs.h"

namespace rl {

bool Evaluation::run() {
  Control& control = run_.control;
  if (!control.enter(PipelineState::kEvaluating)) return false;
  control.begin_eval();
  if (control.settings().eval.weights == EvalWeights::kTrained) return evaluate();
  exchange_averages();
  bool whole = false;
  try {
    whole = evaluate();
  } catch (...) {
    exchange_averages();
    throw;
  }
  exchange_averages();
  return whole;
}

// The engine notices the other weights and forgets keys and values of those before.
void Evaluation::exchange_averages() {
  const LoadedModel::WriteLease write(run_.model, kReaderWaitNs);
  run_.phases.update().trainer().exchange_averages();
}

bool Evaluation::evaluate() {
  Control& control = run_.control;
  if (trained_head(control.settings()) == ModelHead::kScalar) {
    score_pairs();
    return true;
  }
  const Begun begun = begin();
  const bool whole = run_.generation.run(PipelineState::kEvaluating, Purpose::kEval,
                                         run_.progress.boundary.step) &&
                     run_.scoring.run(PipelineState::kEvaluating, Purpose::kEval);
  if (whole) finish(begun);
  return whole;
}

Evaluation::Begun Evaluation::begin() {
  const Begun begun{now(), run_.scoring.num_dropped(Purpose::kEval)};
  const Request request = eval_request_from(run_.control.settings());
  uint64_t ordinal = run_.progress.boundary.next_eval_ordinal;
  for (int64_t row = 0; row < run_.prompts.num_eval_rows(); ++row) {
    const Prompt prompt = run_.prompts.eval_row(row, request.max_new_tokens, Objective::kRl);
    run_.generation.submit_eval(request, prompt, ordinal++);
  }
  return begun;
}

void Evaluation::finish(const Begun& begun) {
  Scoring& scoring = run_.scoring;
  EvalEvent event;
  const std::vector<SamplePtr> scored = scoring.take_evaluated();
  event.num_failed = scoring.num_dropped(Purpose::kEval) - begun.dropped;
  {
    Control& control = run_.control;
    const Control::Lock lock = control.lock();
    RunState& state = run_.progress.boundary;
    state.next_eval_ordinal += static_cast<uint64_t>(run_.prompts.num_eval_rows());
    control.schedule(lock).note(ScheduledKind::kEvaluate, {state.step, state.next_eval_ordinal});
  }
  scoring.forget_rows();
  std::vector<double> rewards, lengths;
  for (const SamplePtr& s : scored) {
    rewards.push_back(s->reward);
    lengths.push_back(static_cast<double>(s->generated()));
  }
  set_spread(event.metrics, "eval/rewards", rewards);
  set_spread(event.metrics, "eval/response_length", lengths);
  event.num_scored = static_cast<int64_t>(rewards.size());
  event.mean_reward = event.metrics.get("eval/rewards/mean").value_or(0);
  event.metrics.set("eval/failed", static_cast<double>(event.num_failed));
  event.metrics.set("timing_s/eval", static_cast<double>(now() - begun.start_ns) * 1e-9);
  run_.model.runtime().tracer().span({"pipeline.eval", TraceLane::kPipeline, begun.start_ns, now(),
                                      "prompts", event.num_scored + event.num_failed});
  send(std::move(event), scored);
}

void Evaluation::send(EvalEvent event, std::span<const SamplePtr> scored) {
  event.step = run_.progress.boundary.step;
  event.version = run_.progress.version;
  run_.files.records().write_eval(event.step, event.metrics, scored);
  run_.checkpoints.note_evaluation(event.metrics);
  if (run_.control.follows()) return;
  run_.control.push(std::make_shared<EvalEvent>(std::move(event)));
}

namespace {

// Sums over the pairs with finite scores; scores are chosen, rejected, chosen, ...
PreferenceSums sums_of(std::span<const float> scores) {
  std::vector<float> finite;
  for (size_t i = 0; i < scores.size(); i += 2) {
    if (!std::isfinite(scores[i]) || !std::isfinite(scores[i + 1])) continue;
    finite.insert(finite.end(), {scores[i], scores[i + 1]});
  }
  RewardPairs pairs;
  pairs.begin(0, finite.size());
  for (size_t i = 0; i < finite.size(); ++i) pairs.set(static_cast<int32_t>(i), finite[i]);
  return pairs.sums();
}

void set_eval(const PreferenceSums& p, MetricList& metrics) {
  metrics.set("eval/loss", p.mean(p.loss));
  metrics.set("eval/rewards/chosen", p.mean(p.reward_chosen));
  metrics.set("eval/rewards/rejected", p.mean(p.reward_rejected));
  metrics.set("eval/rewards/margins", p.mean(p.reward_chosen - p.reward_rejected));
  metrics.set("eval/rewards/accuracies", p.mean(static_cast<double>(p.right)));
}

}  // namespace

// Held-out pairs are only scored and counted.
void Evaluation::score_pairs() {
  EvalEvent event;
  const int64_t start = now();
  const int64_t num_rows = run_.prompts.num_eval_rows();
  std::vector<SamplePtr> responses;
  std::vector<const Sample*> inputs;
  for (int64_t row = 0; row < num_rows; ++row) {
    const Prompt prompt = run_.prompts.eval_row(row, 0, run_.control.settings().algo.objective);
    for (uint32_t slot = 0; slot < prompt.responses.size(); ++slot) {
      responses.push_back(response_sample(prompt, static_cast<uint64_t>(row), slot));
      inputs.push_back(responses.back().get());
    }
  }
  std::vector<float> scores(inputs.size());
  run_.phases.update().trainer().scores(inputs, scores);
  const PreferenceSums sums = sums_of(scores);
  set_eval(sums, event.metrics);
  event.num_scored = sums.pairs;
  event.num_failed = static_cast<int64_t>(inputs.size() / 2) - sums.pairs;
  event.mean_reward = event.metrics.get("eval/rewards/accuracies").value();
  event.metrics.set("eval/failed", static_cast<double>(event.num_failed));
  event.metrics.set("timing_s/eval", static_cast<double>(now() - start) * 1e-9);
  run_.model.runtime().tracer().span(
      {"pipeline.eval", TraceLane::kPipeline, start, now(), "pairs", num_rows});
  send(std::move(event), {});
}

}  // namespace rl

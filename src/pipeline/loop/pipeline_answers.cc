// Steps on given responses (sft, dpo, reward_model): nothing is generated and nobody scores. Their
// groups go through the score board and the ledger like any other, so accounting, records and
// resume are the same. Held-out pairs of a reward model are only scored and counted.
#include <cmath>

#include "pipeline/config/algo_options.h"
#include "pipeline/loop/pipeline_impl.h"
#include "train/losses/reward_pairs.h"

namespace rl {
bool Pipeline::Impl::draws() const { return is_rl(settings.algo.objective); }

PipelineState Pipeline::Impl::take_answers(const std::vector<Prompt>& drawn) {
  const ScopedSpan span(&runtime.tracer(), "pipeline.draw", TraceLane::kPipeline);
  for (const Prompt& prompt : drawn) {
    scoring.add_given(progress.boundary.cursor + this_step.drawn++, prompt);
  }
  this_step.times.drawn = this_step.times.generated = this_step.times.scored = now();
  return PipelineState::kTraining;
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

PipelineState Pipeline::Impl::evaluate_pairs() {
  auto event = std::make_shared<EvalEvent>();
  control.begin_eval();
  {
    const Control::Lock lock = control.lock();
    event->step = progress.boundary.step;
    event->version = progress.version;
  }
  const int64_t start = now();
  std::vector<SamplePtr> answers;
  std::vector<const Sample*> asked;
  for (int64_t row = 0; row < prompts.num_eval_rows(); ++row) {
    const Prompt prompt = prompts.eval_row(row, 0, settings.algo.objective);
    for (uint32_t slot = 0; slot < prompt.answers.size(); ++slot) {
      answers.push_back(answer_sample(prompt, static_cast<uint64_t>(row), slot));
      asked.push_back(answers.back().get());
    }
  }
  std::vector<float> scores(asked.size());
  phases.update().trainer().scores(asked, scores);
  const PreferenceSums sums = sums_of(scores);
  set_eval(sums, event->metrics);
  event->num_scored = sums.pairs;
  event->num_failed = static_cast<int64_t>(asked.size() / 2) - sums.pairs;
  event->mean_reward = event->metrics.get("eval/rewards/accuracies").value();
  event->metrics.set("eval/failed", static_cast<double>(event->num_failed));
  event->metrics.set("timing_s/eval", static_cast<double>(now() - start) * 1e-9);
  runtime.tracer().span(
      {"pipeline.eval", TraceLane::kPipeline, start, now(), "pairs", prompts.num_eval_rows()});
  files.records().write_eval(event->step, event->metrics, {});
  control.push(std::move(event));
  return PipelineState::kDrawing;
}

}  // namespace rl

// Evaluations: responses to the rows of eval.path, scored by the host like any sample and never
// trained on. They have their own score board, with groups of eval.samples_per_prompt. Evaluations
// of a reward model are in pipeline_answers.cc.
#include <algorithm>

#include "core/error.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/loop/pipeline_impl.h"
#include "pipeline/update/step_metrics.h"

namespace rl {

PipelineState Pipeline::Impl::evaluate() {
  if (trained_head(settings) == ModelHead::kScalar) return evaluate_pairs();
  if (!eval_open) {
    begin_eval();
    return PipelineState::kEvaluating;
  }
  if (!engine->idle()) {
    step_engine();
    deliver(eval_board);
    push_dropped();
    return PipelineState::kEvaluating;
  }
  if (reward != nullptr) ask_reward_model(eval_board);
  bool decided;
  {
    std::unique_lock lock(mutex);
    eval_board.expire(now());
    decided = eval_board.decided();
    if (!decided && !paused && !stop_requested) {
      wait_for_change(lock, eval_board.next_expiry());
    }
  }
  push_dropped();
  if (!decided) return PipelineState::kEvaluating;
  end_eval();
  return PipelineState::kDrawing;
}

int64_t Pipeline::Impl::num_eval_rows() const {
  const int64_t asked = settings.eval.max_prompts;
  return asked == 0 ? eval_data->num_rows() : std::min(asked, eval_data->num_rows());
}

// A request that arrives after this asks for one more evaluation.
void Pipeline::Impl::begin_eval() {
  {
    const std::lock_guard lock(mutex);
    eval_due = false;
  }
  eval_failed = 0;
  eval_first_ns = now();
  Request r = eval_request_from(settings);
  const std::vector<int32_t> stops = r.stop_token_ids;
  const PromptLimits limits{r.max_new_tokens, plan.max_model_len};
  for (int64_t row = 0; row < num_eval_rows(); ++row) {
    const Prompt p = eval_data->read(row, *model, limits);
    r.prompt = p.ids;
    r.stop_token_ids = stops;
    add_turn_stops(r, p.stop_ids);
    r.ordinal = next_eval_ordinal++;
    r.first_sample_id = eval_board.sample_id(r.ordinal, 0);
    {
      const std::lock_guard lock(mutex);
      eval_board.open(r.ordinal, row);
    }
    prompts[r.ordinal] = {{}, {}, p.tag, row};
    engine->submit(r);
  }
  eval_open = true;
}

void Pipeline::Impl::end_eval() {
  auto event = std::make_shared<EvalEvent>();
  std::vector<ScoreBoard::Scored> scored;
  std::vector<double> rewards, lengths;
  {
    const std::lock_guard lock(mutex);
    scored = eval_board.reserve();
    for (const ScoreBoard::Scored& s : scored) {
      rewards.push_back(s.reward);
      lengths.push_back(static_cast<double>(s.sample->generated()));
    }
    eval_board.commit();
    event->num_failed = eval_failed;
    event->step = step;
    event->version = version;
    boundary.next_eval_ordinal = next_eval_ordinal;
  }
  prompts.clear();
  set_spread(event->metrics, "eval/rewards", rewards);
  set_spread(event->metrics, "eval/response_length", lengths);
  event->num_scored = static_cast<int64_t>(rewards.size());
  event->mean_reward = event->metrics.get("eval/rewards/mean").value_or(0);
  event->metrics.set("eval/failed", static_cast<double>(event->num_failed));
  event->metrics.set("timing_s/eval", static_cast<double>(now() - eval_first_ns) * 1e-9);
  runtime.tracer().span({"pipeline.eval", TraceLane::kPipeline, eval_first_ns, now(), "prompts",
                         event->num_scored + event->num_failed});
  records->write_eval(event->step, event->metrics, scored);
  eval_open = false;
  queue->push(std::move(event));
}

}  // namespace rl

// Evaluations: responses to the rows of eval.path, scored by the host like any sample and never
// trained on. They have their own score board, with groups of eval.samples_per_prompt. Evaluations
// of a reward model are in pipeline_answers.cc.
#include "core/error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {

PipelineState Pipeline::Impl::evaluate() {
  if (trained_head(settings) == ModelHead::kScalar) return evaluate_pairs();
  if (!evaluation.in_progress()) {
    begin_eval();
    return PipelineState::kEvaluating;
  }
  if (!generation.run(PipelineState::kEvaluating, Purpose::kEval, progress.boundary.step)) {
    return PipelineState::kStopping;
  }
  if (!scoring.wait(Purpose::kEval)) return PipelineState::kEvaluating;
  end_eval();
  return PipelineState::kDrawing;
}

// A request that arrives after this asks for one more evaluation.
void Pipeline::Impl::begin_eval() {
  control.begin_eval();
  evaluation.begin(now(), scoring.num_dropped(Purpose::kEval));
  const Request request = eval_request_from(settings);
  for (int64_t row = 0; row < prompts.num_eval_rows(); ++row) {
    const Prompt prompt = prompts.eval_row(row, request.max_new_tokens, Objective::kRl);
    generation.submit_eval(request, prompt, evaluation.take_ordinal());
  }
}

void Pipeline::Impl::end_eval() {
  auto event = std::make_shared<EvalEvent>();
  const std::vector<ScoreBoard::Scored> scored = scoring.reserve(Purpose::kEval);
  const int64_t dropped = scoring.num_dropped(Purpose::kEval);
  {
    const Control::Lock lock = control.lock();
    scoring.commit(Purpose::kEval, lock);
    event->step = progress.boundary.step;
    event->version = progress.version;
    progress.boundary.next_eval_ordinal = evaluation.next_ordinal();
  }
  scoring.clear_rows();
  evaluation.finish(scored, dropped, now(), *event);
  runtime.tracer().span({"pipeline.eval", TraceLane::kPipeline, evaluation.first_ns(), now(),
                         "prompts", event->num_scored + event->num_failed});
  files.records().write_eval(event->step, event->metrics, scored);
  control.push(std::move(event));
}

}  // namespace rl

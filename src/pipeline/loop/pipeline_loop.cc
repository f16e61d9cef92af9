// The state machine of the loop, and its run on the library thread.
#include <algorithm>
#include <new>

#include "core/error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {
namespace {

bool is_final(PipelineState s) { return s == PipelineState::kDone || s == PipelineState::kFailed; }

// Allocates nothing: the text fits the string's inline buffer, and nobody owns the error.
std::shared_ptr<const Error> out_of_memory() noexcept {
  static const Error error(Code::kOutOfMemory, "out of memory");
  return {std::shared_ptr<const Error>(), &error};
}

// The exception being handled, as an error.
std::shared_ptr<const Error> caught_error() noexcept {
  try {
    try {
      throw;
    } catch (const Error& e) {
      return std::make_shared<Error>(e);
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& e) {
      return std::make_shared<Error>(Code::kInternal, str("the pipeline failed: ", e.what()));
    } catch (...) {
      return std::make_shared<Error>(Code::kInternal, "the pipeline failed for an unknown reason");
    }
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace

const char* pipeline_state_name(PipelineState state) {
  switch (state) {
    case PipelineState::kIdle:
      return "idle";
    case PipelineState::kDrawing:
      return "drawing";
    case PipelineState::kGenerating:
      return "generating";
    case PipelineState::kScoring:
      return "scoring";
    case PipelineState::kTraining:
      return "training";
    case PipelineState::kPublishing:
      return "publishing";
    case PipelineState::kEvaluating:
      return "evaluating";
    case PipelineState::kCheckpointing:
      return "checkpointing";
    case PipelineState::kPaused:
      return "paused";
    case PipelineState::kStopping:
      return "stopping";
    case PipelineState::kDone:
      return "done";
    case PipelineState::kFailed:
      return "failed";
  }
  return "unknown";
}

void Pipeline::Impl::run() noexcept {
  std::shared_ptr<const Error> cause;
  try {
    loop();
  } catch (...) {
    cause = caught_error();
  }
  end_run(std::move(cause));
}

void Pipeline::Impl::loop() {
  checkpoints.begin_timeline(progress.boundary.step);
  files.begin(progress.boundary.step);
  PipelineState current = PipelineState::kDrawing;
  while (!is_final(current)) {
    if (!control.enter(current)) current = PipelineState::kStopping;
    current = advance(current);
  }
}

PipelineState Pipeline::Impl::advance(PipelineState current) {
  switch (current) {
    case PipelineState::kDrawing:
      return draw();
    case PipelineState::kGenerating:
      return generate();
    case PipelineState::kScoring:
      return wait_for_scores();
    case PipelineState::kTraining:
      return train();
    case PipelineState::kPublishing:
      return publish();
    case PipelineState::kEvaluating:
      return evaluation.run() ? PipelineState::kDrawing : PipelineState::kStopping;
    case PipelineState::kCheckpointing:
      return write_checkpoint_state();
    case PipelineState::kStopping:
      return abandon();
    default:
      break;
  }
  RL_CHECK(!"a state without work");
  return PipelineState::kFailed;
}

// Between two steps: applies changed options, runs evaluations and checkpoints that are due, then
// takes the prompts of the next step.
PipelineState Pipeline::Impl::draw() {
  if (control.apply_staged()) phases.update().set_options(settings);
  switch (control.due()) {
    case Control::Due::kEvaluation:
      return PipelineState::kEvaluating;
    case Control::Due::kCheckpoint:
      return PipelineState::kCheckpointing;
    case Control::Due::kNothing:
      break;
  }
  const auto total = static_cast<uint64_t>(settings.pipeline.total_steps);
  if (total != 0 && progress.boundary.step >= total) return PipelineState::kDone;
  this_step = {};
  this_step.times.begin = now();
  if (phases.engine() != nullptr) {
    phases.engine()->restart_peak();
    this_step.engine_before = phases.engine()->stats();
  }
  const PromptSupply::Drawn drawn =
      prompts.draw(progress.boundary.cursor, settings.pipeline.prompts_per_step);
  if (drawn.prompts.empty()) return drawn.ended ? PipelineState::kDone : PipelineState::kDrawing;
  if (!draws()) return take_answers(drawn.prompts);
  submit_groups(drawn.prompts);
  this_step.times.drawn = now();
  return PipelineState::kGenerating;
}

void Pipeline::Impl::submit_groups(const std::vector<Prompt>& drawn) {
  const ScopedSpan span(&runtime.tracer(), "pipeline.draw", TraceLane::kPipeline);
  for (const Prompt& prompt : drawn) {
    generation.submit(prompt, progress.boundary.cursor + this_step.drawn++);
  }
}

PipelineState Pipeline::Impl::generate() {
  if (!generation.run(PipelineState::kGenerating, Purpose::kTrain, progress.boundary.step)) {
    return PipelineState::kStopping;
  }
  this_step.times.generated = now();
  return PipelineState::kScoring;
}

PipelineState Pipeline::Impl::wait_for_scores() {
  if (!scoring.run(PipelineState::kScoring, Purpose::kTrain)) return PipelineState::kStopping;
  if (const PipelineState next = filter_groups(); next != PipelineState::kTraining) return next;
  this_step.times.scored = now();
  runtime.tracer().span({"reward.wait", TraceLane::kReward, this_step.times.generated,
                         this_step.times.scored, nullptr, 0});
  return PipelineState::kTraining;
}

// Called when every open group is scored. Training follows unless filtered groups are to be
// replaced.
PipelineState Pipeline::Impl::filter_groups() {
  const int64_t dropped = filter.drop_by_score();
  this_step.filtered.score += dropped;
  this_step.filtered.missing += dropped;
  const int64_t rounds = settings.pipeline.filter_max_rounds;
  if (this_step.filtered.missing > 0 && (rounds == 0 || this_step.filtered.rounds < rounds)) {
    const PipelineState next = refill();
    if (next != PipelineState::kTraining) return next;
  }
  this_step.filtered.zero_advantage += filter.drop_zero_advantages();
  return PipelineState::kTraining;
}

// Takes prompts for the missing groups, as many as there are. Training follows if there will be no
// more; waits if a feed is only empty for now.
PipelineState Pipeline::Impl::refill() {
  const PromptSupply::Drawn more =
      prompts.draw_some(progress.boundary.cursor + this_step.drawn, this_step.filtered.missing);
  if (more.prompts.empty()) return more.ended ? PipelineState::kTraining : PipelineState::kScoring;
  ++this_step.filtered.rounds;
  this_step.filtered.missing -= static_cast<int64_t>(more.prompts.size());
  submit_groups(more.prompts);
  return PipelineState::kGenerating;
}

PipelineState Pipeline::Impl::abandon() {
  scoring.shut_down();
  return PipelineState::kDone;
}

PipelineState Pipeline::Impl::write_checkpoint_state() {
  const uint64_t asked = control.begin_checkpoint();
  checkpoints.write(phases.update(), progress.boundary);
  control.end_checkpoint(asked);
  return PipelineState::kDrawing;
}

}  // namespace rl

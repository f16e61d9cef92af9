// The loop of a run on the library's thread: a step is draw, generate, score, filter, update and
// publish, which are here in this order; update and publish are in pipeline_step.cc. Each enters
// its state first (Control::enter), which is where the host's pause and stop take effect.
#include <new>

#include "core/error.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {
namespace {

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

void Pipeline::Impl::run() noexcept {
  std::shared_ptr<const Error> cause;
  try {
    run_steps();
  } catch (...) {
    cause = caught_error();
  }
  end_run(std::move(cause));
}

void Pipeline::Impl::run_steps() {
  checkpoints.begin_timeline(progress.boundary.step);
  files.begin(progress.boundary.step);
  while (run_step()) {
  }
  if (control.stopping()) scoring.shut_down();
}

// False if there is no whole step any more: the run is over, or the host ends the loop.
bool Pipeline::Impl::run_step() {
  LoopStep step;
  if (!draw(step)) return false;
  while (step.generates) {
    if (!generate(step) || !score() || !filter(step)) return false;
  }
  if (!update(step)) return false;
  publish(step);
  return true;
}

// Takes the prompts of a step, after whatever comes before it. With given responses that is all:
// nothing is generated, and nobody scores.
bool Pipeline::Impl::draw(LoopStep& step) {
  PromptSupply::Drawn drawn;
  while (drawn.prompts.empty()) {
    if (drawn.ended || !between_steps()) return false;
    step.times.begin = now();
    if (EngineSet* const engine = phases.engine(); engine != nullptr) {
      engine->restart_peak();
      step.engine_before = engine->stats();
    }
    drawn = prompts.draw(progress.boundary.cursor, settings.pipeline.prompts_per_step);
  }
  open_groups(step, drawn.prompts);
  step.times.drawn = now();
  if (!step.generates) step.times.generated = step.times.scored = step.times.drawn;
  return true;
}

// Applies changed options and does what is due. False if no step follows.
bool Pipeline::Impl::between_steps() {
  while (control.enter(PipelineState::kDrawing)) {
    if (control.apply_staged()) phases.update().set_options(settings);
    switch (control.due()) {
      case Control::Due::kEvaluation:
        if (!evaluation.run()) return false;
        break;
      case Control::Due::kCheckpoint:
        write_checkpoint();
        break;
      case Control::Due::kNothing:
        const auto total = static_cast<uint64_t>(settings.pipeline.total_steps);
        return total == 0 || progress.boundary.step < total;
    }
  }
  return false;
}

void Pipeline::Impl::write_checkpoint() {
  control.enter(PipelineState::kCheckpointing);
  const uint64_t requested = control.begin_checkpoint();
  checkpoints.write(phases.update(), progress.boundary);
  control.end_checkpoint(requested);
}

void Pipeline::Impl::open_groups(LoopStep& step, std::span<const Prompt> drawn) {
  const ScopedSpan span(&runtime.tracer(), "pipeline.draw", TraceLane::kPipeline);
  step.generates = generates();
  for (const Prompt& prompt : drawn) {
    const uint64_t ordinal = progress.boundary.cursor + step.drawn++;
    if (step.generates) {
      generation.submit(prompt, ordinal);
    } else {
      scoring.add_given(ordinal, prompt);
    }
  }
}

bool Pipeline::Impl::generates() const { return is_rl(settings.algo.objective); }

bool Pipeline::Impl::generate(LoopStep& step) {
  if (!generation.run(PipelineState::kGenerating, Purpose::kTrain, progress.boundary.step)) {
    return false;
  }
  step.times.generated = now();
  return true;
}

bool Pipeline::Impl::score() { return scoring.run(PipelineState::kScoring, Purpose::kTrain); }

// Groups dropped by score are replaced, and the replacements go the same way.
bool Pipeline::Impl::filter(LoopStep& step) {
  step.generates = false;
  const int64_t dropped = group_filter.commit_by_score();
  step.filtered.score += dropped;
  step.filtered.missing += dropped;
  if (!replace_groups(step)) return false;
  if (step.generates) return true;
  step.filtered.zero_advantage += group_filter.drop_zero_advantages();
  step.times.scored = now();
  runtime.tracer().span(
      {"reward.wait", TraceLane::kReward, step.times.generated, step.times.scored, nullptr, 0});
  return true;
}

// Takes prompts for the missing groups, as many as there are, and waits while a feed has none.
bool Pipeline::Impl::replace_groups(LoopStep& step) {
  LoopStep::Filtered& filtered = step.filtered;
  const int64_t rounds = settings.pipeline.filter_max_rounds;
  while (filtered.missing > 0 && (rounds == 0 || filtered.rounds < rounds)) {
    const PromptSupply::Drawn more =
        prompts.draw_some(progress.boundary.cursor + step.drawn, filtered.missing);
    if (!more.prompts.empty()) {
      ++filtered.rounds;
      filtered.missing -= static_cast<int64_t>(more.prompts.size());
      open_groups(step, more.prompts);
      return true;
    }
    if (more.ended) return true;
    if (!control.enter(PipelineState::kScoring)) return false;
  }
  return true;
}

}  // namespace rl

// One step: draw, generate, score, filter, update and publish, in this order; update and publish
// are in pipeline_update.cc. Each enters its state first (Control::enter), which is where the
// host's pause and stop take effect.
#include "pipeline/loop/pipeline_impl.h"

namespace rl {

// False if there is no whole step any more: the run is over, or the host ends the loop.
bool Pipeline::Impl::run_step() {
  StepRecord step;
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
bool Pipeline::Impl::draw(StepRecord& step) {
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

void Pipeline::Impl::open_groups(StepRecord& step, std::span<const Prompt> drawn) {
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

bool Pipeline::Impl::generate(StepRecord& step) {
  if (!generation.run(PipelineState::kGenerating, Purpose::kTrain, progress.boundary.step)) {
    return false;
  }
  step.times.generated = now();
  return true;
}

bool Pipeline::Impl::score() { return scoring.run(PipelineState::kScoring, Purpose::kTrain); }

// Groups dropped by score are replaced, and the replacements go the same way.
bool Pipeline::Impl::filter(StepRecord& step) {
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
bool Pipeline::Impl::replace_groups(StepRecord& step) {
  StepRecord::Filtered& filtered = step.filtered;
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

// Steps on given responses (sft, dpo, reward_model): nothing is generated and nobody scores. Their
// groups go through the score board and the ledger like any other, so accounting, records and
// resume are the same.
#include "pipeline/config/algo_options.h"
#include "pipeline/loop/pipeline_impl.h"

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

}  // namespace rl

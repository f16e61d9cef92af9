// Steps on given answers (sft, dpo): nothing is drawn from the policy and nobody scores. Their
// groups go over the score board and the ledger like any other, so the books of a run, what is
// recorded and what a resume goes on from are the same.
#include "pipeline/algo_options.h"
#include "pipeline/pipeline_impl.h"

namespace rl {
namespace {

SamplePtr answer_sample(const Prompt& prompt, uint64_t ordinal, uint32_t slot) {
  const std::vector<int32_t>& answer = prompt.answers[slot];
  auto s = std::make_shared<Sample>();
  s->ordinal = ordinal;
  s->slot = slot;
  s->data_row = prompt.data_row;
  s->tag = prompt.tag;
  s->ids = prompt.ids;
  s->ids.insert(s->ids.end(), answer.begin(), answer.end());
  s->prompt_tokens = static_cast<int32_t>(prompt.ids.size());
  s->versions.assign(answer.size(), kUnknownVersion);
  s->loss_mask.assign(answer.size(), 1);
  return s;
}

}  // namespace

bool Pipeline::Impl::draws() const { return is_rl(objective_of(settings)); }

PipelineState Pipeline::Impl::take_answers(const std::vector<Prompt>& drawn) {
  const ScopedSpan span(&runtime.tracer(), "pipeline.draw", TraceLane::kPipeline);
  for (const Prompt& prompt : drawn) {
    const uint64_t ordinal = cursor + drawn_in_step++;
    const std::lock_guard lock(mutex);
    board.open(ordinal, prompt.data_row);
    for (uint32_t slot = 0; slot < prompt.answers.size(); ++slot) {
      SamplePtr s = answer_sample(prompt, ordinal, slot);
      s->id = board.sample_id(ordinal, slot);
      board.finish(s, -1);
      board.score(s->id, 0, now());
    }
  }
  times.drawn = times.generated = times.scored = now();
  return PipelineState::kTraining;
}

}  // namespace rl

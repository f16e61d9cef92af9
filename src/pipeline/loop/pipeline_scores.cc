// Finished samples are scored by the host, through an event, or by the run's reward model.
#include <cmath>
#include <optional>

#include "core/error.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {

void Pipeline::Impl::ask_host(const SamplePtr& sample) {
  auto event = std::make_shared<ScoreEvent>();
  event->sample = sample;
  if (model->has_tokenizer()) {
    const auto split = static_cast<size_t>(sample->prompt_tokens);
    const std::span<const int32_t> ids(sample->ids);
    event->prompt_text = model->decode_sampled(ids.first(split), false);
    event->text = model->decode_sampled(ids.subspan(split), true);
  }
  control.push(std::move(event));
}

// Runs only when no generation is active: the reward model's workspace overlays keys and values.
void Pipeline::Impl::ask_reward_model(ScoreBoard& of) {
  std::vector<SamplePtr> samples;
  {
    const Control::Lock lock = control.lock();
    samples = of.waiting();
  }
  if (samples.empty()) return;
  const ScopedSpan span(&runtime.tracer(), "reward.model", TraceLane::kReward);
  phases.engine()->forget_kv();
  const std::vector<float> scores = phases.reward()->score(samples);
  const Control::Lock lock = control.lock();
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(scores[i])) of.score(samples[i]->id, scores[i], now());
  }
  std::optional<uint64_t> lost;  // the group dropped last: its other samples go with it
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(scores[i]) || lost == samples[i]->ordinal) continue;
    lost = samples[i]->ordinal;
    of.fail(samples[i]->id, str("the reward model returned ", scores[i]), now());
  }
}

void Pipeline::Impl::refuse_scores() const {
  if (phases.reward() == nullptr) return;
  throw Error(Code::kFailedPrecondition,
              "model.reward_path scores the samples of this pipeline, not the host")
      .with_key("model.reward_path");
}

}  // namespace rl

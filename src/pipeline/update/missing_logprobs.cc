// The host's own samples are not changed.
#include "pipeline/update/missing_logprobs.h"

#include "train/batch/micro_batch_plan.h"
#include "train/batch/sample_check.h"

namespace rl {

void CompletedBatch::count(TrainMetrics& m) const {
  m.samples_without_logprobs += num_completed;
  m.proximal_samples += num_completed;
  m.rows_not_scored -= rows;
  m.proximal_ns += ns;
}

CompletedBatch complete_logprobs(std::span<const SamplePtr> samples, Trainer& trainer,
                                 const Clock& clock) {
  CompletedBatch out;
  out.samples.assign(samples.begin(), samples.end());
  std::vector<Sample*> completed;
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> logprobs;
  for (SamplePtr& s : out.samples) {
    if (!lacks_logprobs(*s)) continue;
    s = std::make_shared<Sample>(*s);
    s->logprobs.resize(static_cast<size_t>(s->generated()));
    s->mixed_kv.clear();
    completed.push_back(s.get());
    inputs.push_back(s.get());
    logprobs.emplace_back(s->logprobs);
    out.rows += make_pack_item(*s, 0, WantedTokens::kLoss).rows;
  }
  out.num_completed = static_cast<int64_t>(inputs.size());
  if (inputs.empty()) return out;
  const int64_t start = clock.now_ns();
  trainer.logprobs(inputs, logprobs);
  out.ns = clock.now_ns() - start;
  for (Sample* s : completed) {
    s->logprobs_sampled = s->logprobs;
    s->versions.assign(s->logprobs.size(), trainer.trained_version());
  }
  return out;
}

}  // namespace rl

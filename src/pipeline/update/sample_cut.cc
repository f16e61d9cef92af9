// A sample keeps its prompt, even one that is too long: then it has no response to train on.
#include "pipeline/update/sample_cut.h"

#include <algorithm>

namespace rl {
namespace {

bool has_matching_arrays(const Sample& s) {
  const auto tokens = static_cast<size_t>(s.generated());
  const auto fits = [&](size_t size) { return size == tokens; };
  const auto fits_or_empty = [&](size_t size) { return size == 0 || size == tokens; };
  return fits(s.versions.size()) && fits(s.loss_mask.size()) && fits_or_empty(s.logprobs.size()) &&
         fits_or_empty(s.logprobs_sampled.size()) && fits_or_empty(s.mixed_kv.size()) &&
         fits_or_empty(s.token_rewards.size()) &&
         fits_or_empty(s.top_ids.size() / std::max<size_t>(1, s.num_top)) &&
         s.top_ids.size() == s.top_logprobs.size();
}

template <typename T>
void shorten(std::vector<T>& values, size_t size) {
  if (values.size() > size) values.resize(size);
}

SamplePtr shortened(const Sample& sample, size_t tokens) {
  auto s = std::make_shared<Sample>(sample);
  shorten(s->ids, static_cast<size_t>(s->prompt_tokens) + tokens);
  shorten(s->logprobs, tokens);
  shorten(s->logprobs_sampled, tokens);
  shorten(s->versions, tokens);
  shorten(s->loss_mask, tokens);
  shorten(s->mixed_kv, tokens);
  shorten(s->token_rewards, tokens);
  shorten(s->top_ids, tokens * s->num_top);
  shorten(s->top_logprobs, tokens * s->num_top);
  return s;
}

}  // namespace

// The last token of a sample is no row.
SampleCut::SampleCut(const Settings& settings)
    : max_tokens_(settings.trainer.oversize == TrainerOversize::kCut ? settings.trainer.seq_len + 1
                                                                     : 0) {}

bool SampleCut::is_too_long(const SamplePtr& s) const {
  return max_tokens_ != 0 && s != nullptr && s->prompt_tokens >= 1 && s->generated() > 0 &&
         static_cast<int64_t>(s->ids.size()) > max_tokens_ && has_matching_arrays(*s);
}

ScoredSamples SampleCut::Batch::view() const {
  ScoredSamples all = whole;
  if (samples.empty()) return all;
  all.samples = samples;
  all.token_rewards = token_rewards;
  return all;
}

SampleCut::Batch SampleCut::apply(const ScoredSamples& batch) const {
  Batch out;
  out.whole = batch;
  if (std::ranges::none_of(batch.samples, [&](const SamplePtr& s) { return is_too_long(s); }))
    return out;
  out.samples.assign(batch.samples.begin(), batch.samples.end());
  out.token_rewards.assign(batch.token_rewards.begin(), batch.token_rewards.end());
  for (size_t i = 0; i < out.samples.size(); ++i) {
    const SamplePtr whole = out.samples[i];
    if (!is_too_long(whole)) continue;
    const auto left = static_cast<size_t>(std::max<int64_t>(0, max_tokens_ - whole->prompt_tokens));
    out.samples[i] = shortened(*whole, left);
    ++out.cut_samples;
    out.cut_tokens += whole->generated() - static_cast<int64_t>(left);
    if (!out.token_rewards.empty() &&
        out.token_rewards[i].size() == static_cast<size_t>(whole->generated()))
      out.token_rewards[i].resize(left);
  }
  return out;
}

void SampleCut::count(const Batch& batch, MetricList& metrics) const {
  if (max_tokens_ == 0) return;
  metrics.set("training/cut_samples", static_cast<double>(batch.cut_samples));
  metrics.set("training/cut_tokens", static_cast<double>(batch.cut_tokens));
}

}  // namespace rl

#include "rollout/sample_edit.h"

#include <cstddef>

namespace rl {
namespace {

// The array is empty until a flag is set; tokens before it then get 0.
void append_flag(Sample& sample, bool mixed_kv) {
  if (mixed_kv) sample.mixed_kv.resize(sample.versions.size() - 1);
  if (mixed_kv || !sample.mixed_kv.empty()) sample.mixed_kv.push_back(mixed_kv);
}

}  // namespace

void reserve_tokens(Sample& sample, size_t tokens) {
  sample.ids.reserve(tokens);
  const size_t num_generated = tokens - static_cast<size_t>(sample.prompt_tokens);
  sample.logprobs.reserve(num_generated);
  sample.logprobs_sampled.reserve(num_generated);
  sample.versions.reserve(num_generated);
  sample.mixed_kv.reserve(num_generated);
  sample.loss_mask.reserve(num_generated);
  sample.top_ids.reserve(num_generated * sample.num_top);
  sample.top_logprobs.reserve(num_generated * sample.num_top);
}

void append_sampled(Sample& sample, const TokenChoice& choice, uint64_t version, bool mixed_kv) {
  sample.ids.push_back(choice.id);
  sample.logprobs.push_back(choice.logprob);
  sample.logprobs_sampled.push_back(choice.logprob_sampled);
  sample.versions.push_back(version);
  append_flag(sample, mixed_kv);
  sample.loss_mask.push_back(1);
  const auto top = static_cast<ptrdiff_t>(sample.num_top);
  sample.top_ids.insert(sample.top_ids.end(), choice.top_ids.begin(), choice.top_ids.begin() + top);
  sample.top_logprobs.insert(sample.top_logprobs.end(), choice.top_logprobs.begin(),
                             choice.top_logprobs.begin() + top);
}

void append_given(Sample& sample, int32_t id) {
  sample.ids.push_back(id);
  sample.logprobs.push_back(0);
  sample.logprobs_sampled.push_back(0);
  sample.versions.push_back(kUnknownVersion);
  append_flag(sample, false);
  sample.loss_mask.push_back(0);
  sample.top_ids.insert(sample.top_ids.end(), sample.num_top, -1);
  sample.top_logprobs.insert(sample.top_logprobs.end(), sample.num_top, 0.0f);
}

void cut_back(Sample& sample, int64_t tokens) {
  const auto generated = static_cast<size_t>(tokens - sample.prompt_tokens);
  sample.ids.resize(static_cast<size_t>(tokens));
  sample.logprobs.resize(generated);
  sample.logprobs_sampled.resize(generated);
  sample.versions.resize(generated);
  if (sample.mixed_kv.size() > generated) sample.mixed_kv.resize(generated);
  sample.loss_mask.resize(generated);
  sample.top_ids.resize(generated * sample.num_top);
  sample.top_logprobs.resize(generated * sample.num_top);
}

}  // namespace rl

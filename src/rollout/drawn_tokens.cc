// A token with loss, drawn by weights of one version.
#include "rollout/drawn_tokens.h"

#include <cstddef>

namespace rl {

void append_token(Sample& sample, const TokenChoice& choice, uint64_t version) {
  sample.ids.push_back(choice.id);
  sample.logprobs.push_back(choice.logprob);
  sample.logprobs_sampled.push_back(choice.logprob_sampled);
  sample.versions.push_back(version);
  sample.loss_mask.push_back(1);
  const auto top = static_cast<ptrdiff_t>(sample.num_top);
  sample.top_ids.insert(sample.top_ids.end(), choice.top_ids.begin(),
                        choice.top_ids.begin() + top);
  sample.top_logprobs.insert(sample.top_logprobs.end(), choice.top_logprobs.begin(),
                             choice.top_logprobs.begin() + top);
}

}  // namespace rl

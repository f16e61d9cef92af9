// From a row of the head to a token and its two log-probs. The choice depends on the row, the
// parameters, the ids before it and one uniform number only. The stored log-prob and those of the
// most probable ids are head_logprob of the full temperature softmax, the routine the trainer uses
// too, without rules and filters.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "algo/sampling.h"
#include "model/head.h"

namespace rl {

// What the head multiplies a row with. Greedy rows are measured at temperature 1.
inline float inv_temperature(const SamplingParams& params) {
  return params.temperature == 0 ? 1.0f : inverse_temperature(params.temperature);
}

struct TokenChoice {
  int32_t id = -1;
  float logprob = 0;
  float logprob_sampled = 0;  // of the filtered distribution; greedy: 0
  bool finite = false;        // false: a logit of the row is not finite, and nothing else is set
  // The first params.top_logprobs of them are set, most probable first.
  std::array<int32_t, kMaxTopLogprobs> top_ids{};
  std::array<float, kMaxTopLogprobs> top_logprobs{};
};

struct TokenRequest {
  const SamplingParams& params;
  std::span<const int32_t> previous_ids;   // prompt, then generated, for the penalties
  size_t num_generated;                    // of previous_ids, its last ones
  std::span<const int32_t> forbidden_ids;  // never chosen here
  double u;                                // in [0, 1)
};

class Sampler {
 public:
  Sampler(int64_t vocab, int num_workers);
  // Makes the scratch that rows with these parameters need, so that choose() allocates nothing.
  // forbids: some of them come with forbidden ids.
  void prepare(const SamplingParams& params, bool forbids);
  // Chooses from a row after head_forward with inv_temperature(params). Calls with different
  // workers may run at once.
  TokenChoice choose(const HeadBuffers& head, int64_t row, const TokenRequest& request, int worker);

 private:
  bool choose_filtered(const HeadBuffers& head, int64_t row, const TokenRequest& request,
                       int worker, TokenChoice& choice);

  int64_t vocab_;
  std::vector<std::unique_ptr<TokenDistribution>> filtered_;  // by worker; null until prepared
};

}  // namespace rl

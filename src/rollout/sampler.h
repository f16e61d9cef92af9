// From a row of the head to a token and its two log-probs. The choice depends on the row, the
// parameters, the ids before it and one uniform number only. The stored log-prob and those of the
// most probable ids are head_logprob of the full temperature softmax, the routine the trainer uses
// too, without rules and filters.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <span>
#include <vector>

#include "algo/sampling/sampling.h"
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
  // scratch: scratch_bytes of the same numbers, 64-byte aligned, which outlive it. Others may write
  // to it between two calls.
  Sampler(int64_t vocab, int num_workers, std::byte* scratch);
  static uint64_t scratch_bytes(int64_t vocab, int num_workers);
  // Chooses from a row after head_forward with inv_temperature(params), without an allocation.
  // Calls with different workers may run at once.
  TokenChoice choose(const HeadBuffers& head, int64_t row, const TokenRequest& request, int worker);

 private:
  bool choose_filtered(const HeadBuffers& head, int64_t row, const TokenRequest& request,
                       int worker, TokenChoice& choice);

  // What a worker draws from when more than the temperature shapes the row.
  struct Filtered {
    Filtered(int64_t vocab, std::byte* scratch, uint64_t bytes)
        : room(scratch, bytes, std::pmr::null_memory_resource()),
          distribution(static_cast<size_t>(vocab), &room) {}
    std::pmr::monotonic_buffer_resource room;
    TokenDistribution distribution;
  };
  std::deque<Filtered> filtered_;  // by worker
};

}  // namespace rl

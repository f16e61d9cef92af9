// Samples a token from a row of the head, with its two log-probs. The choice depends only on the
// row, the parameters, the ids before it and one uniform number. The stored log-prob and those of
// the top ids are head_logprob of the full softmax at temperature, the routine the trainer also
// uses, without penalties and filters.
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

// The factor that the head multiplies a row by. Greedy rows are measured at temperature 1.
inline float inv_temperature(const SamplingParams& params) {
  return params.temperature == 0 ? 1.0f : inverse_temperature(params.temperature);
}

struct TokenChoice {
  int32_t id = -1;
  float logprob = 0;
  float logprob_sampled = 0;  // of the filtered distribution; greedy: 0
  bool finite = false;        // false: a logit of the row is not finite, and nothing else is set
  // The first params.top_logprobs entries are set, most probable first.
  std::array<int32_t, kMaxTopLogprobs> top_ids{};
  std::array<float, kMaxTopLogprobs> top_logprobs{};
};

struct TokenRequest {
  const SamplingParams& params;
  std::span<const int32_t> previous_ids;   // prompt, then generated, for the penalties
  size_t num_generated;                    // how many of previous_ids, at the end
  std::span<const int32_t> forbidden_ids;  // never sampled here
  double u;                                // in [0, 1)
};

class Sampler {
 public:
  // scratch: as many bytes as scratch_bytes() says, 64-byte aligned, in num_areas areas; they
  // outlive the sampler, and may be used for something else between two calls.
  Sampler(int64_t vocab, int num_areas, std::byte* scratch);
  static uint64_t scratch_bytes(int64_t vocab, int num_areas);
  // Samples from a row after head_forward with inv_temperature(params), without allocating. Calls
  // with different areas may run concurrently.
  TokenChoice choose(const HeadBuffers& head, int64_t row, const TokenRequest& request, int area);

 private:
  bool choose_filtered(const HeadBuffers& head, int64_t row, const TokenRequest& request, int area,
                       TokenChoice& choice);

  // What is sampled from when more than the temperature shapes the row.
  struct Filtered {
    Filtered(int64_t vocab, std::byte* scratch, uint64_t bytes)
        : room(scratch, bytes, std::pmr::null_memory_resource()),
          distribution(static_cast<size_t>(vocab), &room) {}
    std::pmr::monotonic_buffer_resource room;
    TokenDistribution distribution;
  };
  std::deque<Filtered> filtered_;  // by area
};

}  // namespace rl

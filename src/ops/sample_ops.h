// The op that samples a token from each of several rows of the head, with its two log-probs.
//
// Contract
// - A choice depends on its row, the parameters, the ids before it and one uniform number alone.
// - A row whose largest logit or sum is not finite has no choice. Penalties can make it so.
// - The id:
//   - if nothing but the temperature shapes the row, sample_token() of ops/logprob.h;
//   - if it is greedy and no rule changes logits, the lowest id with the largest logit;
//   - else that of a TokenDistribution (algo/sampling/sampling.h) over the row, already tempered.
// - The log-probs of the chosen id and of the top ids are log_prob() of ops/logprob.h, the routine
//   that training uses too: of the full softmax at temperature, without penalties and filters.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "algo/sampling/sampling.h"
#include "core/checked.h"
#include "ops/head_ops.h"

namespace rl {

// The factor that head_logits() multiplies a row by. Greedy rows are measured at temperature 1.
inline float inv_temperature(const SamplingParams& params) {
  return params.temperature == 0 ? 1.0f : inverse_temperature(params.temperature);
}

struct TokenChoice {
  int32_t id = -1;
  float logprob = 0;
  float logprob_sampled = 0;  // of the filtered distribution; greedy: 0
  bool finite = false;        // false: a logit of the row is not finite, and nothing else is set
  // The first SampleRow::top_logprobs entries are set, most probable first, ties by lower id.
  std::array<int32_t, kMaxTopLogprobs> top_ids{};
  std::array<float, kMaxTopLogprobs> top_logprobs{};
};

struct SampleRow {
  int64_t row;  // of the head; several may name the same
  const SamplingParams* params;
  double u;                                // in [0, 1)
  std::span<const int32_t> previous_ids;   // prompt, then generated, for the penalties
  size_t num_generated;                    // how many of previous_ids, at the end
  std::span<const int32_t> forbidden_ids;  // never sampled here
  int32_t top_logprobs;                    // how many of the most probable ids are wanted
};

// The rows of the head are those that head_logits() left, tempered by inv_temperature(params).
struct SampleRowsArgs {
  std::span<const SampleRow> rows;
  const float* z;          // (head rows, V)
  const TileStats* tiles;  // (head rows, tiles)
  const RowStats* stats;   // (head rows)
  int64_t vocab, tile_width;
  std::byte* scratch;              // sample_scratch_bytes(), 64-byte aligned
  std::span<TokenChoice> choices;  // one per row
};

// The part of the scratch that one thread uses.
inline uint64_t sample_scratch_bytes_of_thread(int64_t vocab) {
  constexpr uint64_t kAlignment = 64;
  return CheckedU64(TokenDistribution::scratch_bytes(static_cast<size_t>(vocab)))
      .align_up(kAlignment)
      .get();
}
inline uint64_t sample_scratch_bytes(int64_t vocab, int num_threads) {
  return (CheckedU64(sample_scratch_bytes_of_thread(vocab)) *
          CheckedU64(static_cast<uint64_t>(num_threads)))
      .get();
}

}  // namespace rl

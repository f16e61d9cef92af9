// Three ways to sample: by the tiles of the head when only the temperature shapes the row, by the
// largest logit when greedy, and through algo/sampling/sampling.h otherwise. The head has already
// applied the temperature.
#include "rollout/sampler.h"

#include <cmath>

#include "core/arena.h"
#include "core/error.h"
#include "ops/logprob.h"

namespace rl {
namespace {

enum class Path : uint8_t { kPlain, kGreedy, kFiltered };

Path path_of(const SamplingParams& params, bool forbids) {
  if (forbids) return Path::kFiltered;
  if (is_plain(params)) return Path::kPlain;
  return params.temperature == 0 && !has_logit_rules(params) ? Path::kGreedy : Path::kFiltered;
}

// A NaN logit has no mass in the sum, but its logarithm keeps it (combine_tiles).
bool is_finite(const RowStats& stats) {
  return std::isfinite(stats.max) && std::isfinite(stats.log_sum);
}

int32_t sample_unfiltered(const HeadBuffers& head, int64_t row, double u) {
  return static_cast<int32_t>(
      sample_token({head.z + row * head.vocab, head.vocab, head.tile_width,
                    head.tiles + row * head.num_tiles, head.stats[row], u}));
}

void measure_top(const HeadBuffers& head, int64_t row, int32_t count, TokenChoice& choice) {
  if (count == 0) return;
  const auto n = static_cast<size_t>(count);
  top_ids(
      {head.z + row * head.vocab, head.vocab, head.tile_width, head.tiles + row * head.num_tiles},
      std::span(choice.top_ids).first(n));
  for (size_t i = 0; i < n; ++i) {
    choice.top_logprobs[i] = head_logprob(head, row, choice.top_ids[i]);
  }
}

uint64_t bytes_of_area(int64_t vocab) {
  return CheckedU64(TokenDistribution::scratch_bytes(static_cast<size_t>(vocab)))
      .align_up(ArenaPlan::kAlignment)
      .get();
}

}  // namespace

Sampler::Sampler(int64_t vocab, int num_areas, std::byte* scratch) {
  const uint64_t each = bytes_of_area(vocab);
  for (int i = 0; i < num_areas; ++i, scratch += each) {
    filtered_.emplace_back(vocab, scratch, each);
  }
}

uint64_t Sampler::scratch_bytes(int64_t vocab, int num_areas) {
  return (CheckedU64(bytes_of_area(vocab)) * CheckedU64(static_cast<uint64_t>(num_areas))).get();
}

TokenChoice Sampler::choose(const HeadBuffers& head, int64_t row, const TokenRequest& request,
                            int area) {
  const SamplingParams& params = request.params;
  TokenChoice choice;
  if (!is_finite(head.stats[row])) return choice;
  const Path path = path_of(params, !request.forbidden_ids.empty());
  if (path == Path::kPlain) {
    choice.id = sample_unfiltered(head, row, request.u);
  } else if (path == Path::kGreedy) {
    choice.id = static_cast<int32_t>(argmax(head.z + row * head.vocab, head.vocab));
  } else if (!choose_filtered(head, row, request, area, choice)) {
    return choice;
  }
  choice.logprob = head_logprob(head, row, choice.id);
  if (path == Path::kPlain) choice.logprob_sampled = choice.logprob;
  measure_top(head, row, params.top_logprobs, choice);
  choice.finite = true;
  return choice;
}

bool Sampler::choose_filtered(const HeadBuffers& head, int64_t row, const TokenRequest& request,
                              int area, TokenChoice& choice) {
  TokenDistribution& distribution = filtered_[static_cast<size_t>(area)].distribution;
  try {
    distribution.assign(request.params,
                        {.logits = {head.z + row * head.vocab, static_cast<size_t>(head.vocab)},
                         .tempered = true,
                         .previous_ids = request.previous_ids,
                         .num_generated = request.num_generated,
                         .forbidden_ids = request.forbidden_ids});
  } catch (const Error& error) {
    if (error.code == Code::kNonFinite) return false;  // a penalty can overflow a finite row
    throw;
  }
  const SampledToken token = distribution.sample(request.u);
  choice.id = token.id;
  choice.logprob_sampled = token.log_prob;
  return true;
}

}  // namespace rl

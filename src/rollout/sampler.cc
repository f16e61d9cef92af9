// The filters see the tempered row z of the head at temperature 1: a repetition penalty scales a
// logit and keeps its sign, so penalty and temperature may change places.
#include "rollout/sampler.h"

#include <cmath>

#include "core/error.h"
#include "ops/logprob.h"

namespace rl {
namespace {

bool is_plain_greedy(const SamplingParams& params) {
  return params.temperature == 0 && params.repetition_penalty == 1;
}

// A NaN logit has no mass in the log-sum-exp, but it always reaches the entropy.
bool is_finite(const RowStats& stats) {
  return std::isfinite(stats.lse) && std::isfinite(stats.entropy);
}

SamplingParams for_tempered_row(const SamplingParams& params) {
  SamplingParams result = params;
  if (params.temperature != 0) result.temperature = 1.0f;
  return result;
}

}  // namespace

Sampler::Sampler(int64_t vocab, int num_workers) : vocab_(vocab) {
  filtered_.resize(static_cast<size_t>(num_workers));
}

void Sampler::prepare(const SamplingParams& params) {
  if (is_plain(params) || is_plain_greedy(params)) return;
  for (auto& distribution : filtered_) {
    if (distribution) continue;
    distribution = std::make_unique<TokenDistribution>(static_cast<size_t>(vocab_));
  }
}

TokenChoice Sampler::choose(const HeadBuffers& head, int64_t row, const TokenRequest& request,
                            int worker) {
  const float* z = head.z + row * head.vocab;
  const RowStats& stats = head.stats[row];
  const SamplingParams& params = request.params;
  TokenChoice choice;
  if (!is_finite(stats)) return choice;
  if (is_plain(params)) {
    choice.id = static_cast<int32_t>(draw_token(
        {z, head.vocab, head.tile_width, head.tiles + row * head.num_tiles, stats, request.u}));
  } else if (is_plain_greedy(params)) {
    choice.id = static_cast<int32_t>(argmax(z, head.vocab));
  } else if (!choose_filtered({z, static_cast<size_t>(head.vocab)}, request, worker, choice)) {
    return choice;
  }
  choice.logprob = head_logprob(head, row, choice.id);
  if (is_plain(params)) choice.logprob_sampled = choice.logprob;
  choice.finite = true;
  return choice;
}

bool Sampler::choose_filtered(std::span<const float> z, const TokenRequest& request, int worker,
                              TokenChoice& choice) {
  TokenDistribution& distribution = *filtered_[static_cast<size_t>(worker)];
  const bool penalised = request.params.repetition_penalty != 1;
  try {
    distribution.assign(for_tempered_row(request.params), z,
                        penalised ? request.previous_ids : std::span<const int32_t>());
  } catch (const Error& error) {
    if (error.code == Code::kNonFinite) return false;  // a penalty can overflow a finite row
    throw;
  }
  const TokenDraw draw = distribution.sample(request.u);
  choice.id = draw.id;
  choice.logprob_sampled = draw.log_prob;
  return true;
}

}  // namespace rl

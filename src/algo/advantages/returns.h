// Token advantages from token rewards: gae, reinforce_pp, remax, and the spreading of a sample's
// advantage over its tokens. Sequences are packed (algo/response_shape.h).
//
//   gae           d_t = r_t + gamma V_{t+1} - V_t,  A_t = d_t + gamma lambda A_{t+1},
//                 returns = A + V                                            arXiv 1506.02438
//   reinforce_pp  G_t = r_t + gamma G_{t+1}, whitened by algo/moments.h      arXiv 2501.03262
//   remax         G_t (gamma 1) minus the reward of a greedy response         arXiv 2310.10505
//
// masked: what a token with mask 0 does to the recursion (algo.gae_masked):
//   skip  it does not exist: t + 1 is the next token with mask 1 (verl)
//   zero  its reward and value are 0, but gamma and lambda are applied across it (OpenRLHF)
// In both a masked entry is never read, and its output is 0.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "algo/response_shape.h"

namespace rl {

enum class MaskedTokens : uint8_t { kSkip, kZero };
std::string_view masked_tokens_name(MaskedTokens v);
MaskedTokens parse_masked_tokens(std::string_view text);  // key algo.gae_masked

struct ReturnsParams {
  double gamma = 1.0;   // 0..1
  double lambda = 1.0;  // 0..1; used by gae
  MaskedTokens masked = MaskedTokens::kSkip;
};

// Throws Error(kOutOfRange) naming the option.
void validate(const ReturnsParams& params);

struct GaeInput {
  ResponseShape shape;
  std::span<const double> rewards;
  std::span<const double> values;
};
struct GaeOutput {
  std::span<double> advantages;
  std::span<double> returns;
};
void gae(const ReturnsParams& params, const GaeInput& in, const GaeOutput& out);

// G_t: reinforce_pp before whitening, and the reward-to-go of OpenRLHF's other estimators.
void discounted_returns(const ReturnsParams& params, const ResponseShape& shape,
                        std::span<const double> rewards, std::span<double> returns);

// baselines[i] is the reward of the greedy response to sample i's prompt.
void remax_advantages(const ResponseShape& shape, std::span<const double> rewards,
                      std::span<const double> baselines, std::span<double> advantages);

// Copies each sample's advantage to each of its tokens with mask 1.
void spread_over_tokens(const ResponseShape& shape, std::span<const double> per_sample,
                        std::span<double> advantages);

}  // namespace rl

// One weight per sequence, repeated over its tokens.
#include "algo/losses/loss_agg.h"

#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<LossAgg>, 5> kLossAggs{{
    {LossAgg::kTokenMean, "token_mean"},
    {LossAgg::kTokenSum, "token_sum"},
    {LossAgg::kSeqMeanTokenSum, "seq_mean_token_sum"},
    {LossAgg::kSeqMeanTokenMean, "seq_mean_token_mean"},
    {LossAgg::kSeqMeanTokenSumNorm, "seq_mean_token_sum_norm"},
}};

void require_denominator(std::string_view key, double value) {
  require_value(value > 0 && std::isfinite(value), key, value, "a finite value above 0");
}

}  // namespace

std::string_view loss_agg_name(LossAgg v) { return choice_name(kLossAggs, v); }
LossAgg parse_loss_agg(std::string_view text) {
  return parse_choice("algo.loss_agg", kLossAggs, text);
}

void validate(LossAgg agg, const LossDenominators& d) {
  const bool per_sequence = agg != LossAgg::kTokenMean && agg != LossAgg::kTokenSum;
  if (agg == LossAgg::kTokenMean) require_denominator("num_tokens", d.num_tokens);
  if (per_sequence) require_denominator("num_sequences", d.num_sequences);
  if (agg == LossAgg::kSeqMeanTokenSumNorm) {
    require_denominator("algo.loss_scale_factor", d.scale_factor);
  }
}

double token_weight(LossAgg agg, const LossDenominators& d, int64_t length) {
  switch (agg) {
    case LossAgg::kTokenMean:
      return 1.0 / d.num_tokens;
    case LossAgg::kTokenSum:
      return 1.0;
    case LossAgg::kSeqMeanTokenSum:
      return 1.0 / d.num_sequences;
    case LossAgg::kSeqMeanTokenMean:
      return 1.0 / (d.num_sequences * static_cast<double>(length));
    case LossAgg::kSeqMeanTokenSumNorm:
      return 1.0 / (d.num_sequences * d.scale_factor);
  }
  RL_CHECK(false && "unknown LossAgg");
  return 0;
}

void token_weights(LossAgg agg, const LossDenominators& denominators,
                   std::span<const int32_t> lengths, std::span<double> weights) {
  validate(agg, denominators);
  size_t next = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    require_value(lengths[i] >= 0, "lengths", lengths[i], "at least 0");
    const auto length = static_cast<size_t>(lengths[i]);
    if (length > weights.size() - next) {
      throw Error(Code::kInvalidArgument, str("lengths up to sequence ", i, " sum to more than ",
                                              weights.size(), ", the size of weights"))
          .with_key("lengths");
    }
    if (length == 0) continue;
    const double weight = token_weight(agg, denominators, lengths[i]);
    for (size_t t = 0; t < length; ++t) weights[next++] = weight;
  }
  require_same_size("weights", weights.size(), next);
}

}  // namespace rl

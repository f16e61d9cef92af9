// Aggregation of token losses as weights: loss = sum over tokens of w_t * l_t. The denominators
// are global inputs, the same for every micro-batch of an optimizer step, so any split into
// micro-batches sums to the same loss. T_i = loss-carrying tokens of sequence i, N = num_tokens, B
// = num_sequences, S = scale_factor.
//
//   token_mean               w = 1 / N
//   token_sum                w = 1
//   seq_mean_token_sum       w = 1 / B
//   seq_mean_token_mean      w = 1 / (B T_i)
//   seq_mean_token_sum_norm  w = 1 / (B S)        (Dr. GRPO with S = the largest response length)
//
// Names and formulas follow verl's loss_agg_mode, without the 1e-8 it adds to T_i. Whether empty
// sequences count in B is the caller's choice: verl and OpenRLHF leave them out, TRL counts them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rl {

enum class LossAgg : uint8_t {
  kTokenMean,
  kTokenSum,
  kSeqMeanTokenSum,
  kSeqMeanTokenMean,
  kSeqMeanTokenSumNorm,
};
std::string_view loss_agg_name(LossAgg v);
LossAgg parse_loss_agg(std::string_view text);  // key algo.loss_agg

// A denominator that the mode uses must be finite and above 0; the others are ignored.
struct LossDenominators {
  double num_tokens = 0;
  double num_sequences = 0;
  double scale_factor = 0;
};

// Throws Error(kOutOfRange) naming the denominator.
void validate(LossAgg agg, const LossDenominators& denominators);

// The weight of every token of a sequence with `length` loss tokens; length >= 1, arguments
// validated.
double token_weight(LossAgg agg, const LossDenominators& denominators, int64_t length);

// Weights of packed tokens: sequence 0's lengths[0] tokens, then sequence 1's, and so on. A length
// may be 0.
void token_weights(LossAgg agg, const LossDenominators& denominators,
                   std::span<const int32_t> lengths, std::span<double> weights);

}  // namespace rl

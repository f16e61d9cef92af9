// One backward scan per sequence.
#include "algo/advantages/returns.h"

#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<MaskedTokens>, 2> kMaskedTokens{
    {{MaskedTokens::kSkip, "skip"}, {MaskedTokens::kZero, "zero"}}};

}  // namespace

std::string_view masked_tokens_name(MaskedTokens v) { return choice_name(kMaskedTokens, v); }
MaskedTokens parse_masked_tokens(std::string_view text) {
  return parse_choice("algo.gae_masked", kMaskedTokens, text);
}

void validate(const ReturnsParams& p) {
  require_value(p.gamma >= 0 && p.gamma <= 1, "algo.gamma", p.gamma, "0..1");
  require_value(p.lambda >= 0 && p.lambda <= 1, "algo.lambda", p.lambda, "0..1");
}

void gae(const ReturnsParams& params, const GaeInput& in, const GaeOutput& out) {
  validate(params);
  const size_t n = in.rewards.size();
  check_shape(in.shape, n);
  require_same_size("values", in.values.size(), n);
  require_same_size("advantages", out.advantages.size(), n);
  require_same_size("returns", out.returns.size(), n);
  const bool skip = params.masked == MaskedTokens::kSkip;
  for_each_sequence(in.shape, [&](size_t, size_t begin, size_t end) {
    double next_value = 0;
    double running = 0;
    for (size_t t = end; t-- > begin;) {
      const bool counts = in.shape.mask[t] != 0;
      if (counts || !skip) {
        const double reward = counts ? in.rewards[t] : 0.0;
        const double value = counts ? in.values[t] : 0.0;
        const double delta = reward + params.gamma * next_value - value;
        running = delta + params.gamma * params.lambda * running;
        next_value = value;
      }
      out.advantages[t] = counts ? running : 0.0;
      out.returns[t] = counts ? running + in.values[t] : 0.0;
    }
  });
}

void discounted_returns(const ReturnsParams& params, const ResponseShape& shape,
                        std::span<const double> rewards, std::span<double> returns) {
  validate(params);
  check_shape(shape, rewards.size());
  require_same_size("returns", returns.size(), rewards.size());
  const bool skip = params.masked == MaskedTokens::kSkip;
  for_each_sequence(shape, [&](size_t, size_t begin, size_t end) {
    double running = 0;
    for (size_t t = end; t-- > begin;) {
      const bool counts = shape.mask[t] != 0;
      if (counts || !skip) running = (counts ? rewards[t] : 0.0) + params.gamma * running;
      returns[t] = counts ? running : 0.0;
    }
  });
}

void remax_advantages(const ResponseShape& shape, std::span<const double> rewards,
                      std::span<const double> baselines, std::span<double> advantages) {
  require_same_size("baselines", baselines.size(), shape.lengths.size());
  discounted_returns({}, shape, rewards, advantages);
  for_each_sequence(shape, [&](size_t i, size_t begin, size_t end) {
    for (size_t t = begin; t < end; ++t) {
      if (shape.mask[t] != 0) advantages[t] -= baselines[i];
    }
  });
}

void spread_over_tokens(const ResponseShape& shape, std::span<const double> per_sample,
                        std::span<double> advantages) {
  check_shape(shape, advantages.size());
  require_same_size("per_sample", per_sample.size(), shape.lengths.size());
  for_each_sequence(shape, [&](size_t i, size_t begin, size_t end) {
    for (size_t t = begin; t < end; ++t) advantages[t] = shape.mask[t] != 0 ? per_sample[i] : 0.0;
  });
}

}  // namespace rl

// The softmax of attention: maximum and sum of a pair over the keys seen so far, and how results of
// consecutive splits are merged. All kernels of the forward merge and finish by these functions.
//
// Values of a pair may differ in the sign of a zero, by whether steps without a key of it were
// computed; finished_value() gives all zeros one sign.
#pragma once
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"

namespace rl::cuda {

RL_DEVICE float no_score() { return -INFINITY; }

struct SoftmaxState {
  float max = no_score();
  float sum = 0;
};

// Factors of what was summed before and of what is added.
struct SoftmaxFactors {
  float before, added;
};

// exp(score - max); a maximum of minus infinity means that there is no score yet.
RL_DEVICE float weight_of(float score, float max) {
  return score == no_score() ? 0.0f : exp_of(score - max);
}

// Takes the result of the next split into the state of those before it.
RL_DEVICE SoftmaxFactors merge_state(SoftmaxState& total, const SoftmaxState& split) {
  const float max = max_of(total.max, split.max);
  const SoftmaxFactors factors{weight_of(total.max, max), weight_of(split.max, max)};
  total.sum = fma_rn(total.sum, factors.before, split.sum * factors.added);
  total.max = max;
  return factors;
}
RL_DEVICE float merge_value(float total, float split, const SoftmaxFactors& factors) {
  return fma_rn(total, factors.before, split * factors.added);
}

RL_DEVICE float log_sum_exp(const SoftmaxState& state) { return state.max + log_of(state.sum); }

// Factors of what earlier calls gave a pair, with this lse, and of what was summed in this one,
// where each call has some keys (ops/attention.h). lse becomes that of all.
RL_DEVICE SoftmaxFactors merge_call(float& lse, const SoftmaxState& call) {
  if (call.sum == 0) return {1.0f, 0.0f};
  const float own = log_sum_exp(call), max = max_of(lse, own);
  const float before = weight_of(lse, max), added = weight_of(own, max), all = before + added;
  lse = max + log_of(all);
  return {before / all, added / all / call.sum};
}

RL_DEVICE float finished_value(float value, const SoftmaxState& state) {
  return value / state.sum + 0.0f;
}

}  // namespace rl::cuda

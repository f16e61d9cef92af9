// What the sampling kernels share: their results, and masses in whole units.
//
// A mass is a probability relative to the row's largest one, or a sum of such. Masses are added as
// integers, in units of 2^-shift (truncated), so that no sum depends on an order and cumulative
// masses ascend strictly wherever a mass is at least a unit. The shift leaves room for a mass of 1
// at every id: 44 for 152k ids. Ids below a unit are never sampled.
//
// Drawing: of a total of T units and u in [0, 1), the target is floor(u T), at most T - 1, and the
// choice is the smallest id whose cumulative mass is above the target.
#pragma once
#include <cstdint>

namespace rl::cuda {

// What the host learns of a row.
struct SampledToken {
  int32_t id;
  float logprob;          // of the full softmax at temperature
  float logprob_sampled;  // of the distribution that was sampled; greedy: 0
  int32_t finite;         // 0: a logit of the row is not finite, and nothing else is valid
};

}  // namespace rl::cuda

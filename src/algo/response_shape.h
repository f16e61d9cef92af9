// The shape of packed responses: sequence i has the next lengths[i] tokens of every array, with
// mask 1 for tokens the policy generated and 0 for tokens of the environment or dropped ones.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "algo/choice.h"

namespace rl {

struct ResponseShape {
  std::span<const int32_t> lengths;
  std::span<const uint8_t> mask;
};

// Throws Error unless lengths and mask cover exactly num_tokens tokens.
inline void check_shape(const ResponseShape& shape, size_t num_tokens) {
  size_t sum = 0;
  for (const int32_t n : shape.lengths) {
    require_value(n >= 0, "lengths", n, "at least 0");
    sum += static_cast<size_t>(n);
  }
  require_same_size("each token array", num_tokens, sum);
  require_same_size("mask", shape.mask.size(), sum);
}

// Calls f(sequence, first token, one past the last).
template <typename F>
void for_each_sequence(const ResponseShape& shape, const F& f) {
  size_t begin = 0;
  for (size_t i = 0; i < shape.lengths.size(); ++i) {
    const size_t end = begin + static_cast<size_t>(shape.lengths[i]);
    f(i, begin, end);
    begin = end;
  }
}

}  // namespace rl

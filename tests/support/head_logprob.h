// The log-prob of an id in a row of the head, read from its buffers: for devices whose memory is
// the host's.
#pragma once
#include "model/head.h"

namespace rl::testing {

inline float head_logprob(const HeadBuffers& b, int64_t row, int64_t id) {
  return log_prob(b.z[row * b.vocab + id], b.stats[row]);
}

}  // namespace rl::testing

// What a drawn token adds to a sample. Invariant: the per-token arrays stay as long as
// data/sample.h says.
#pragma once
#include <cstdint>

#include "data/sample.h"
#include "rollout/sampler.h"

namespace rl {

// The sample has room: nothing is allocated.
void append_token(Sample& sample, const TokenChoice& choice, uint64_t version);

}  // namespace rl

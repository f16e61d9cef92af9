// Appends tokens to a sample and cuts them off; the sampler chooses them. Invariant: the per-token
// arrays keep the lengths that data/sample.h specifies.
#pragma once
#include <cstdint>

#include "data/sample.h"
#include "ops/sample_ops.h"

namespace rl {

// Reserves room for `tokens` ids, including the prompt: nothing is allocated up to that length.
void reserve_tokens(Sample& sample, size_t tokens);
// A token with loss, sampled by weights of `version`; mixed_kv: it attended to keys and values of
// other versions.
void append_sampled(Sample& sample, const TokenChoice& choice, uint64_t version, bool mixed_kv);
// A token that was not sampled: no loss, no version.
void append_given(Sample& sample, int32_t id);
// Keeps the first `tokens` ids and the entries that belong to them.
void cut_back(Sample& sample, int64_t tokens);

}  // namespace rl

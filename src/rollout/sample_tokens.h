// What is added to the end of a sample and taken from it. Invariant: the per-token arrays stay as
// long as data/sample.h says.
#pragma once
#include <cstdint>

#include "data/sample.h"
#include "rollout/sampler.h"

namespace rl {

// Room for so many ids in all, the prompt counted: up to there nothing is allocated.
void reserve_tokens(Sample& sample, size_t tokens);
// A token with loss, drawn by weights of `version`; mixed_kv: read keys and values of other ones.
void append_drawn(Sample& sample, const TokenChoice& choice, uint64_t version, bool mixed_kv);
// A token that was not drawn: no loss, no version.
void append_given(Sample& sample, int32_t id);
// Keeps the first ids and what belongs to them.
void cut_back(Sample& sample, int64_t tokens);

}  // namespace rl

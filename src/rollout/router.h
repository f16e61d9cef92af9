// Which engine a request goes to. The least loaded one, unless another one has a longer beginning
// of its ids in the prefix cache and has at most `slack` samples more. All samples of a request go
// to one engine, since they share its KV. A pure function: equal runs route alike.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace rl {

struct EngineLoad {
  int64_t samples = 0;        // unfinished, running or waiting
  int64_t cached_tokens = 0;  // of the request's ids, that the engine's prefix cache has
};

// The samples by which an engine with a cached prefix may exceed the least loaded one.
inline int64_t affinity_slack(int64_t max_num_seqs) {
  return max_num_seqs / 4 > 0 ? max_num_seqs / 4 : 1;
}

// Among equals the one with fewer samples, then the first.
size_t route(std::span<const EngineLoad> engines, int64_t slack);

}  // namespace rl

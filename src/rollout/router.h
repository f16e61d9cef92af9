// Chooses the engine of a request: the least loaded one, unless another has a longer prefix of its
// ids cached and at most `slack` samples more. All samples of a request go to one engine, since
// they share its KV. A pure function: equal runs route alike.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace rl {

struct EngineLoad {
  int64_t samples = 0;        // unfinished, running or waiting
  int64_t cached_tokens = 0;  // length of the request's prefix that the engine has cached
};

// How many samples more than the least loaded engine one with a cached prefix may have.
inline int64_t affinity_slack(int64_t max_num_seqs) {
  return max_num_seqs / 4 > 0 ? max_num_seqs / 4 : 1;
}

// Ties go to the engine with fewer samples, then to the first.
size_t route(std::span<const EngineLoad> engines, int64_t slack);

}  // namespace rl

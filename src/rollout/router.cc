// The least loaded engine is always a candidate, so there is always one to choose.
#include "rollout/router.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

size_t route(std::span<const EngineLoad> engines, int64_t slack) {
  RL_CHECK(!engines.empty());
  const auto fewer = [](const EngineLoad& a, const EngineLoad& b) { return a.samples < b.samples; };
  const int64_t least = std::min_element(engines.begin(), engines.end(), fewer)->samples;
  const auto in_reach = [&](const EngineLoad& e) { return e.samples - least <= slack; };
  const auto better = [&](const EngineLoad& a, const EngineLoad& b) {
    const int64_t cached_a = in_reach(a) ? a.cached_tokens : -1;
    const int64_t cached_b = in_reach(b) ? b.cached_tokens : -1;
    return cached_a != cached_b ? cached_a > cached_b : fewer(a, b);
  };
  size_t best = 0;
  for (size_t i = 1; i < engines.size(); ++i) {
    if (better(engines[i], engines[best])) best = i;
  }
  return best;
}

}  // namespace rl

// One check for rewards as they come and for a batch of them.
#include "pipeline/update/reward_parts.h"

#include "core/error.h"

namespace rl {

void require_reward_parts(size_t num_weights, std::string_view sample, size_t num_parts) {
  if (num_weights == 0 || num_parts == num_weights) return;
  throw Error(Code::kInvalidArgument,
              str("the reward of ", sample, " has ", num_parts,
                  " parts, but algo.gdpo_weights has ", num_weights, " entries"))
      .with_key("algo.gdpo_weights")
      .with_expected(str(num_weights, " parts"));
}

}  // namespace rl

// What a reward that has components must have.
#pragma once
#include <cstddef>
#include <string_view>

namespace rl {

// Error(kInvalidArgument) naming the sample unless its reward has a component for each weight of
// algo.gdpo_weights. Without weights it may have any number.
void require_reward_parts(size_t num_weights, std::string_view sample, size_t num_parts);

}  // namespace rl

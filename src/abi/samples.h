// Samples across the ABI: views of the library's samples, and samples made from a host's view.
#pragma once
#include "abi/handles.h"

namespace rl::abi {

// A result view, checked and clear but for the fields whose "nothing" is not 0.
void fill_sample(rl_sample_view& view, const Sample& sample);
// Rewards that are kept apart from the sample, in place of its own.
void fill_rewards(rl_sample_view& view, const SampleRewards& rewards);
// A sample of its own from what the host describes. Errors name the field.
SamplePtr sample_from(const rl_sample_view& view);
// The same for a sample that goes on: it may have no generated token.
SamplePtr resumable_sample(const rl_sample_view& view);

// Kinds of reward of a host, at most kMostRewardParts and finite.
inline constexpr size_t kMostRewardParts = 1024;
std::vector<double> reward_parts_arg(const double* parts, size_t count, const char* parameter);

}  // namespace rl::abi

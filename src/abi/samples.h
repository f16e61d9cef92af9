// Samples across the ABI: views of the library's samples, and samples made from a host's view.
#pragma once
#include "abi/handles.h"

namespace rl::abi {

// A result view, checked and cleared, except fields whose empty value is not 0.
void fill_sample(rl_sample_view& view, const Sample& sample);
// Rewards that are kept apart from the sample replace its own in the view.
void fill_rewards(rl_sample_view& view, const SampleRewards& rewards);
// A new sample from a host's view. Errors name the field.
SamplePtr sample_from(const rl_sample_view& view);
// The same for a sample to resume: it may have no generated token.
SamplePtr resumable_sample(const rl_sample_view& view);

// A host's reward components: at most kMaxRewardParts, all finite.
inline constexpr size_t kMaxRewardParts = 1024;
std::vector<double> reward_parts_arg(const double* parts, size_t count, const char* parameter);

}  // namespace rl::abi

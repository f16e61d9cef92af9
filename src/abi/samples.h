// Samples across the ABI: views of the library's samples, and samples made from a host's view.
#pragma once
#include "abi/handles.h"
#include "data/sample_error.h"

namespace rl::abi {

// A result view, checked and cleared, except fields whose empty value is not 0.
void fill_sample(rl_sample_view& view, const Sample& sample);
// Rewards that are kept apart from the sample replace its own in the view.
void fill_rewards(rl_sample_view& view, const SampleRewards& rewards);
// Sample `index` of an event: kFailedPrecondition if its kind has none.
const EventSample& event_sample(const Event& event, size_t index);
// A new sample from a host's view. Errors name the field.
SamplePtr sample_from(const rl_sample_view& view);
// The same for a sample to resume: it may have no generated token.
SamplePtr resumable_sample(const rl_sample_view& view);

// Copies of the samples of a batch, with their present rewards.
std::vector<SamplePtr> scored_copies(const BatchBox& batch);

// Names the place of the sample in the host's batch: the key becomes "name[i].field", and the
// message begins with "name[i]". No effect for a sample that is not in the batch.
void name_place(SampleError& error, const BatchBox& batch, const char* name);
// Runs call(), whose errors about a sample of the batch then name its place.
template <typename Call>
auto with_places(const BatchBox& batch, const char* name, Call&& call) {
  try {
    return call();
  } catch (SampleError& error) {
    name_place(error, batch, name);
    throw;
  }
}

// What a host calls `count` samples itself: ordinal UINT64_MAX and sample_id 0 are left open.
// kOutOfRange naming PARAMETER.sample_id.
EngineSession::Naming naming_from(uint64_t ordinal, uint64_t sample_id, uint64_t count,
                                  const char* parameter);

// A host's reward components: at most kMaxRewardParts, all finite.
inline constexpr size_t kMaxRewardParts = 1024;
std::vector<double> reward_parts_arg(const double* parts, size_t count, const char* parameter);
// A host's token rewards: none, or one for each token after the prompt, all finite.
std::vector<double> token_rewards_arg(const double* rewards, size_t count, const Sample& sample,
                                      const char* parameter);
std::vector<double> finite_arg(const double* values, size_t count, const char* parameter);

}  // namespace rl::abi

// Names of enum values and of samples.
#include "data/sample.h"

#include "core/error.h"

namespace rl {

std::string sample_name(const Sample& s) {
  return str("sample ", s.id, " (ordinal ", s.ordinal, ", slot ", s.slot, ")");
}

SampleRewards rewards_of(const Sample& s) {
  return {s.scored, s.reward, s.reward_parts, s.token_rewards};
}

SamplePtr with_rewards(const Sample& sample, const SampleRewards& rewards) {
  auto copy = std::make_shared<Sample>(sample);
  copy->scored = rewards.scored;
  copy->reward = rewards.reward;
  copy->reward_parts = rewards.parts;
  copy->token_rewards = rewards.token_rewards;
  return copy;
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAborted:
      return "aborted";
  }
  return "unknown";
}

const char* drop_reason_name(DropReason reason) {
  switch (reason) {
    case DropReason::kNone:
      return "none";
    case DropReason::kStale:
      return "stale";
    case DropReason::kAborted:
      return "aborted";
    case DropReason::kRewardError:
      return "reward_error";
    case DropReason::kRewardTimeout:
      return "reward_timeout";
    case DropReason::kNonFinite:
      return "nonfinite";
    case DropReason::kFiltered:
      return "filtered";
    case DropReason::kOverlong:
      return "overlong";
    case DropReason::kPoisoned:
      return "poisoned";
    case DropReason::kRollback:
      return "rollback";
    case DropReason::kCancelled:
      return "cancelled";
    case DropReason::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

}  // namespace rl

// What happens in a run that its bits may depend on, in order. An input comes from the host or the
// clock, at a time of its own; an outcome follows from the inputs before it, so that a replay which
// is given the inputs has every outcome again.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace rl {

enum class ScheduledKind : uint8_t {
  // Inputs.
  kScore = 1,   // sample, reward, number of parts, parts, token rewards
  kFail = 2,    // sample; the host's reason
  kExpire = 3,  // first sample of a group that missed its deadline; which sample it was
  kReply = 4,   // sample, tokens of the reply; without them the sample ends
  // What the host asked for, as an outcome where the loop takes it.
  kOptions = 16,    // the options of the next step
  kStop = 17,       // the run ends
  kOutOfTime = 18,  // within an update
  kRequest = 19,    // for an evaluation
  // Outcomes.
  kDraw = 32,      // first sample of the group, steps done, digest of the prompt
  kForward = 33,   // version, samples that have begun, tokens generated so far
  kSample = 34,    // sample, its tokens, digest of them
  kDrop = 35,      // first sample of the group, reason
  kBatch = 36,     // step, ordinals of its groups
  kPublish = 37,   // step, version, loss, norm of the gradient
  kEvaluate = 38,  // steps done, ordinal of the next evaluated group
  // Steps done, ordinal of the next group, of the next evaluated one, of those open; the options.
  kResume = 39,
  kEnd = 40,
};

struct ScheduledEvent {
  ScheduledKind kind = ScheduledKind::kEnd;
  uint64_t look = 0;              // how often the loop had looked before
  std::vector<uint64_t> numbers;  // doubles by their bits
  std::string text;

  bool operator==(const ScheduledEvent&) const = default;
};

inline uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

bool is_schedule_kind(uint8_t kind);
bool is_input(const ScheduledEvent& event);
// "batch (step 3, groups 8 9 11 12)".
std::string describe(const ScheduledEvent& event);

}  // namespace rl

// Passive records shared by rollout, buffer, trainer and pipeline: what a sample is and what it
// remembers. Invariant: per-token arrays of a Sample have one entry per generated (or appended)
// token, in order; ids holds the prompt first. Token ids are the currency; text is made at the ends
// only.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rl {

enum class FinishReason : uint8_t { kNone = 0, kStopToken, kStopString, kLength, kAborted };
enum class Purpose : uint8_t { kTrain = 0, kEval = 1 };
// Closed list of reasons why an attempt or its group was dropped (design: experience ledger).
enum class DropReason : uint8_t {
  kNone = 0,
  kStale,
  kAborted,
  kRewardError,
  kRewardTimeout,
  kNonFinite,
  kFiltered,
  kOverlong,
  kPoisoned,
  kRollback,
  kCancelled,
  kShutdown
};
const char* finish_reason_name(FinishReason reason);
const char* drop_reason_name(DropReason reason);

// Of a token that no known weights drew: equal to no version.
inline constexpr uint64_t kUnknownVersion = ~uint64_t{0};

struct Sample {
  uint64_t id = 0;       // unique in a run: the host scores by it
  uint64_t ordinal = 0;  // n-th prompt drawn in the run, epochs counted on
  uint32_t slot = 0;     // member of its group
  uint32_t attempt = 0;
  Purpose purpose = Purpose::kTrain;
  int64_t data_row = -1;  // row of the data file or feed, -1 for bare requests
  std::string tag;        // the row's host tag, handed back unread

  std::vector<int32_t> ids;  // prompt, then generated tokens
  int32_t prompt_tokens = 0;
  // Full temperature softmax: what ratios use (contract N2). With logprobs_sampled empty for a
  // sample that came from elsewhere without them.
  std::vector<float> logprobs;
  std::vector<float> logprobs_sampled;  // of the distribution really drawn from
  std::vector<uint64_t> versions;       // weight version that produced each token
  std::vector<uint8_t> loss_mask;       // 1 where the token carries loss
  // Empty, or 1 where the token was drawn with keys and values of older weights than its version:
  // no forward gives its log-prob again.
  std::vector<uint8_t> mixed_kv;
  // The most probable ids of each token's softmax and their log-probs, num_top per token, most
  // probable first; a token that was not drawn has ids of -1 and log-probs of 0.
  uint32_t num_top = 0;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
  float temperature = 1.0f;  // of the stored log-probs (greedy samples store 1)
  FinishReason finish = FinishReason::kNone;
  uint32_t num_aborts = 0;  // times that it was aborted; it may have gone on since

  bool scored = false;
  double reward = 0.0;
  std::vector<double> reward_parts;  // kinds of reward it has beside, for gdpo; often none
  // Of the request that it ended with, by a steady clock; 0 when unknown.
  int64_t submitted_ns = 0, admitted_ns = 0, first_token_ns = 0, finished_ns = 0;
  uint32_t preemptions = 0;  // of all requests that it went through

  bool has_mixed_kv(int64_t token) const {
    return !mixed_kv.empty() && mixed_kv[static_cast<size_t>(token)] != 0;
  }
  int64_t generated() const { return static_cast<int64_t>(ids.size()) - prompt_tokens; }
};
using SamplePtr = std::shared_ptr<Sample>;
std::string sample_name(const Sample& sample);  // "sample 7 (ordinal 3, slot 1)", for errors

struct Group {
  uint64_t ordinal = 0;
  std::vector<SamplePtr> samples;  // by slot
};

}  // namespace rl

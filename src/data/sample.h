// Passive records shared by rollout, buffer, trainer and pipeline: a sample and its history.
// Invariant: per-token arrays of a Sample have one entry per generated (or appended) token, in
// order; ids starts with the prompt. Everything works on token ids; text exists only at the edges.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rl {

enum class FinishReason : uint8_t { kNone = 0, kStopToken, kStopString, kLength, kAborted };
enum class Purpose : uint8_t { kTrain = 0, kEval = 1 };
// Closed list of reasons why an attempt or its group was dropped (see buffer/ledger.h).
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

// Version of a token whose weights are unknown; equals no real version.
inline constexpr uint64_t kUnknownVersion = ~uint64_t{0};

struct Sample {
  uint64_t id = 0;       // unique in a run: the host gives rewards by it
  uint64_t ordinal = 0;  // number of its group in the run, counted across epochs
  uint32_t slot = 0;     // index within its group
  uint32_t attempt = 0;
  Purpose purpose = Purpose::kTrain;
  int64_t data_row = -1;  // row of the data file or feed, -1 for bare requests
  std::string tag;        // the row's host tag, returned to the host unread

  std::vector<int32_t> ids;  // prompt, then generated tokens
  int32_t prompt_tokens = 0;
  // Under the full temperature softmax: what ratios use (contract N2). Empty, as is
  // logprobs_sampled, for an external sample that came without log-probs.
  std::vector<float> logprobs;
  std::vector<float> logprobs_sampled;  // under the distribution actually sampled from
  std::vector<uint64_t> versions;       // weight version that produced each token
  std::vector<uint8_t> loss_mask;       // 1 where the token carries loss
  // Empty, or 1 where the token was sampled with keys and values of older weights than its version:
  // no forward reproduces its log-prob.
  std::vector<uint8_t> mixed_kv;
  // The most probable ids of each token's softmax and their log-probs, num_top per token, most
  // probable first; a token that was not sampled has ids of -1 and log-probs of 0.
  uint32_t num_top = 0;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
  // Log-probs of the prompt's tokens, [prompt_tokens], at the same temperature; the first is 0.
  // Null: not measured. Shared by the samples of a request; buffer files do not keep it.
  std::shared_ptr<const std::vector<float>> prompt_logprobs;
  float temperature = 1.0f;  // of the stored log-probs (greedy samples store 1)
  FinishReason finish = FinishReason::kNone;
  uint32_t num_aborts = 0;  // how often it was aborted; it may have resumed since

  bool scored = false;
  double reward = 0.0;
  std::vector<double> reward_parts;  // components of the reward, for gdpo; often none
  // What each token after the prompt earns in addition to the reward; empty: nothing.
  std::vector<double> token_rewards;
  // Steady-clock times of its last request; 0 if unknown.
  int64_t submitted_ns = 0, admitted_ns = 0, first_token_ns = 0, finished_ns = 0;
  uint32_t preemptions = 0;  // over all its requests

  bool has_mixed_kv(int64_t token) const {
    return !mixed_kv.empty() && mixed_kv[static_cast<size_t>(token)] != 0;
  }
  int64_t generated() const { return static_cast<int64_t>(ids.size()) - prompt_tokens; }
};
using SamplePtr = std::shared_ptr<Sample>;

// The rewards of a sample, kept apart from it while others read it.
struct SampleRewards {
  bool scored = false;
  double reward = 0;
  std::vector<double> parts = {};
  std::vector<double> token_rewards = {};
};
SampleRewards rewards_of(const Sample& sample);
// A copy of the sample with these rewards in place of its own.
SamplePtr with_rewards(const Sample& sample, const SampleRewards& rewards);
std::string sample_name(const Sample& sample);  // "sample 7 (ordinal 3, slot 1)", for errors

struct Group {
  uint64_t ordinal = 0;
  std::vector<SamplePtr> samples;  // by slot
};

}  // namespace rl

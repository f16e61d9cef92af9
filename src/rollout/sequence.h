// A request while the engine works on it, and its sequences: one per sample.
// Invariants:
// 1. A block id in Sequence::blocks holds one reference, so a block's count is the number of
//    sequences that list it. Only a running sequence lists blocks, only a waiting one is swapped.
// 2. blocks cover the positions 0..computed - 1 and those that the current step writes.
// 3. kept is at most computed. Blocks of a sequence with kept positions enter no prefix cache.
// 4. A follower lists no blocks: it runs, but waits for the leader of its request to compute the
//    prompt they share.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "rollout/engine.h"
#include "rollout/kv_blocks.h"
#include "rollout/stop_matcher.h"

namespace rl {

struct ActiveRequest;

enum class SequenceState : uint8_t { kWaiting, kRunning, kFinished };

struct Sequence {
  ActiveRequest* request = nullptr;
  uint32_t index = 0;  // into request->sequences
  SequenceState state = SequenceState::kWaiting;
  bool follows = false;
  bool begun = false;            // it is running or has run
  SamplePtr sample;              // made when it first runs
  std::vector<int32_t> blocks;   // of positions 0.., block_size each
  std::vector<int32_t> swapped;  // places of their content in the swap space while it waits
  int64_t computed = 0;          // positions whose K and V are in blocks, or swapped
  int64_t kept = 0;              // of these, the first `kept` may be of older weights
  PrefixPlace place{};           // how much of it is in the prefix cache
  int64_t response_begin = 0;    // ids before the response being generated
  int64_t end = 0;               // length at which sampling.max_new_tokens is reached
  uint32_t preemptions = 0;
  bool admitted = false;        // its first run has been counted
  int64_t waits_since_ns = -1;  // start of the wait that a trace shows; -1 while it runs
  int32_t lane = -1;            // trace lane, counted from the engine's first; -1: none
  StopMatcher stop;

  int64_t length() const { return static_cast<int64_t>(sample->ids.size()); }
  int64_t response_tokens() const { return length() - response_begin; }
  bool is_leader() const;
};

struct ActiveRequest {
  Request request;
  uint64_t number = 0;  // in order of submission
  int64_t rank = 0;     // the lowest goes first
  int64_t submitted_ns = 0;
  std::vector<Sequence> sequences;
  int64_t unfinished = 0;
  bool has_lanes = false;  // of SampleLanes, all together
  // Log-probs of the prompt, filled while it is computed; null: nobody wants them, or the resumed
  // sample has them.
  std::shared_ptr<std::vector<float>> prompt_logprobs;
  bool prompt_measured = false;
  // The running sequence that computes the prompt for its followers.
  Sequence* leader = nullptr;

  // Whether an unfinished sample of it was aborted that many times; never for 0.
  bool was_aborted(int64_t times) const;
  // Whether the prompt has to be computed, also where it is cached.
  bool measures_prompt() const { return prompt_logprobs != nullptr && !prompt_measured; }
  // Number of ids before anything is sampled.
  int64_t first_tokens() const {
    return static_cast<int64_t>(request.resume ? request.resume->ids.size()
                                               : request.prompt.size());
  }
};

inline bool Sequence::is_leader() const { return request->leader == this; }

// Order of scheduling: rank, then submission, then slot. A strict total order of live sequences.
struct SchedulingOrder {
  bool operator()(const Sequence* a, const Sequence* b) const {
    const ActiveRequest &x = *a->request, &y = *b->request;
    if (x.rank != y.rank) return x.rank < y.rank;
    if (x.number != y.number) return x.number < y.number;
    return a->index < b->index;
  }
};

// A copy of the request, with one waiting sequence per sample.
std::unique_ptr<ActiveRequest> make_active(const Request& request, uint64_t number,
                                           SchedulingPolicy policy);
// The temperature of the log-probs that a sample stores; greedy ones are taken at 1.
inline float stored_temperature(const SamplingParams& params) {
  return params.temperature == 0 ? 1.0f : params.temperature;
}
// Positions whose K and V a sequence needs at full length: the last token is never fed.
int64_t positions_needed(const Request& request);
// Ids before the last response of a sample: its prompt, or everything up to an environment's last
// token.
int64_t response_begin(const Sample& sample);
// A sample before anything is sampled.
SamplePtr make_sample(const Sequence& sequence);
// Makes the sample, with room for every token and block it can get. Called once, before it first
// runs; after a failure, again.
void prepare_to_run(Sequence& sequence, const KvBlocks& blocks);

}  // namespace rl

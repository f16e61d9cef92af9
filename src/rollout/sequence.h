// A request while the engine works on it, and its sequences: one per sample. The first one
// carries the prefill of the prompt; fork() then gives its blocks to the others.
// Invariants:
// 1. A block id in Sequence::blocks holds one reference, so a block's count is the number of
//    sequences that list it.
// 2. ActiveRequest::reserved blocks of the pool are set aside for this request and cover all that
//    its live sequences can still ask for.
#pragma once
#include <cstdint>
#include <vector>

#include "rollout/block_pool.h"
#include "rollout/engine.h"
#include "rollout/stop_matcher.h"

namespace rl {

// The content of `from` goes to `to` before the next forward.
struct BlockCopy {
  int32_t from, to;
};

struct Sequence {
  SamplePtr sample;
  std::vector<int32_t> blocks;  // of positions 0.., block_size each
  int64_t computed = 0;         // positions whose K and V are in the pool
  StopMatcher stop;
  bool finished = false;  // holds no blocks any more

  int64_t length() const { return static_cast<int64_t>(sample->ids.size()); }
};

struct ActiveRequest {
  Request request;
  int64_t submitted_ns = 0;
  std::vector<Sequence> sequences;  // empty until start()
  int64_t reserved = 0;
  bool forked = false;  // the prompt is computed and every sequence lists its blocks

  int64_t prompt_tokens() const { return static_cast<int64_t>(request.prompt.size()); }
};

// Most blocks one sequence can list: the last generated token is never fed, so it needs no place.
int64_t blocks_per_sequence(const Request& request, int64_t block_size);
// Most blocks a request can hold at once. Whole blocks of the prompt are shared by all its samples.
// Error(kOutOfRange) when the number does not fit in 64 bits.
int64_t blocks_needed(const Request& request, int64_t block_size);

// Makes the samples, with room for every token they can get.
void start(ActiveRequest& active, int64_t block_size);
// Makes positions up to `end` (exclusive) of the sequence writable: adds blocks, and replaces a
// shared block at the first new position by one of its own. True when `copy` was filled in.
bool make_writable(BlockPool& pool, ActiveRequest& active, Sequence& sequence, int64_t end,
                   BlockCopy& copy);
// Gives the computed prompt of the first sequence to all others.
void fork(BlockPool& pool, ActiveRequest& active);
// Ends a sequence: its references and what it had reserved go back to the pool.
void finish(BlockPool& pool, ActiveRequest& active, Sequence& sequence);
bool all_finished(const ActiveRequest& active);

}  // namespace rl

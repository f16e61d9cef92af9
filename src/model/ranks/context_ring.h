// Attention of ranks that divide rows and pass their keys and values round (ring): a rank has its
// own, then in turn those of the rank before it, of the one before that, and so on. While it
// attends to some, the next are on their way, so it holds two ranks' at a time.
//
// Reduction order. What a row has of each rank's keys is merged in that order, its own rank's first
// (ops/attention.h). The gradients of a rank's keys and values go round behind them: the next rank
// begins the sum, each adds what it received to its own part, ((r + 1) + (r + 2)) + ..., and rank r
// adds its own part last. Both follow from the division alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/ranks/context_ranks.h"
#include "ops/attention_work.h"
#include "ops/backward_work.h"

namespace rl {

class Compute;

// In memory of the device. Null if nothing goes round.
struct RingRoom {
  std::byte* kv[2] = {};     // a layer's blocks of another rank: those at hand and the next
  float* partial = nullptr;  // (N, H, D) attention output so far
  float* lse = nullptr;      // (N, H), of a forward that keeps none
  static int64_t kv_count(int64_t ranks) { return ranks > 2 ? 2 : ranks - 1; }
};
struct RingGradients {
  // (rows of a rank, 2 KH D) each: this rank's part, what is on its way out, and what comes in.
  float* kv[3] = {};
  static int64_t count(int64_t ranks) { return ranks > 3 ? 3 : ranks; }
};

// One layer of a batch.
struct RingLayer {
  Compute& compute;
  const ContextBatch& context;
  std::span<const SequenceRows> sequences;  // of this rank
  const RingRoom& room;
  std::byte* workspace;  // of the attention, or of its backward
};

// Attention of this rank's rows. Its keys and values are in attention.pool.
void attend_ring(const RingLayer& layer, AttentionArgs attention, AttentionWork& work);
// Afterwards dqkv has the gradients of this rank's rows, but for what other ranks' rows give to its
// keys and values: these sums are those of `work`.
void attend_ring_backward(const RingLayer& layer, const AttentionBackwardArgs& attention,
                          const RingGradients& gradients, BackwardWork& work);

}  // namespace rl

// The trace lanes that show samples: one per place among the running samples, so that at most one
// sample is on a lane at a time. A stay in a place is a span "sample" with the sample's id. It is
// preceded by "sample.queued" or "sample.preempted", which begins no earlier than the lane became
// free and carries the whole wait in ns. Inside it are "sample.prefill", until a token is sampled,
// with the tokens found in the prefix cache, and "sample.decode" with the tokens sampled after
// that. Without a sink nothing is kept and each call costs a branch.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/trace.h"
#include "rollout/sequence.h"

namespace rl {

class SlotLanes {
 public:
  // tracer may be null. `engine` is the engine's number in the run.
  SlotLanes(const Tracer* tracer, int64_t engine)
      : tracer_(tracer),
        engine_(engine),
        first_(kFirstSampleLane + kLanesPerEngine * static_cast<uint32_t>(engine)) {}

  // A step is scheduled: sequences that began to run take a lane, preempted ones leave theirs.
  void scheduled(std::span<Sequence* const> running, int64_t now_ns);
  // The sequence has one more token.
  void sampled_token(const Sequence& sequence, int64_t now_ns);
  // Called for every sequence that ends, before it is removed.
  void ended(Sequence& sequence, int64_t now_ns);

 private:
  static constexpr uint32_t kLanesPerEngine = 1 << 16;  // engine.max_num_seqs is at most that
  struct Lane {
    Sequence* sequence = nullptr;  // null: empty
    int64_t begin_ns = 0;          // of the stay, or of being empty
    int64_t decode_ns = -1;        // first token of the stay; -1: not yet
    int64_t cached = 0;
    int64_t length = 0;  // of the sequence at decode_ns
  };
  bool traced() const { return tracer_ != nullptr && tracer_->sink() != nullptr; }
  void forget();
  void enter(Sequence& sequence, int64_t now_ns);
  void leave(Lane& lane, int64_t now_ns);
  uint32_t number(const Lane& lane) const;

  const Tracer* tracer_;
  const int64_t engine_;
  const uint32_t first_;
  std::vector<Lane> lanes_;  // those used so far; empty while nothing is traced
};

}  // namespace rl

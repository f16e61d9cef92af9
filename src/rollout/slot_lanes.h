// The lanes of a trace that show samples: one for each place among the running, so that at most one
// sample is on a lane at a time. A stay in a place is a span "sample" with the sample's id; before
// it stands "sample.queued" or "sample.preempted", as far back as the lane was empty, with the
// whole wait in ns, and inside it are "sample.prefill", until a token is drawn, with the tokens
// whose KV was found, and "sample.decode" with the tokens drawn after. Without a sink nothing is
// kept and each call costs a branch.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/trace.h"
#include "rollout/sequence.h"

namespace rl {

class SlotLanes {
 public:
  // tracer may be null. Each engine of a run has its number.
  SlotLanes(const Tracer* tracer, int64_t engine)
      : tracer_(tracer),
        engine_(engine),
        first_(kFirstSampleLane + kLanesPerEngine * static_cast<uint32_t>(engine)) {}

  // A step is scheduled: who began to run takes a lane, who waits again leaves one.
  void scheduled(std::span<Sequence* const> running, int64_t now_ns);
  // The sequence has one token more.
  void drew_token(const Sequence& sequence, int64_t now_ns);
  // Called for every sequence that ends, before it goes.
  void ended(Sequence& sequence, int64_t now_ns);

 private:
  static constexpr uint32_t kLanesPerEngine = 1 << 16;  // engine.max_num_seqs is at most that
  struct Lane {
    Sequence* sequence = nullptr;  // null: empty
    int64_t begin_ns = 0;          // of the stay, or since when it is empty
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

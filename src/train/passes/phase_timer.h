// One phase of a training step: a trace span, and its time added to a total. If others compute
// between two micro-batches, their time counts for a phase of several micro-batches.
#pragma once
#include "core/clock.h"
#include "core/trace.h"
#include "core/yield_point.h"

namespace rl {

class PhaseTimer {
 public:
  struct Place {
    const Tracer* tracer;
    uint32_t lane;
    const Clock* clock;
    YieldPoint* between = nullptr;  // of two micro-batches; null: nobody else computes

    // Called after each micro-batch, when the next one needs nothing of it but gradients and sums.
    void end_micro_batch() const {
      if (between != nullptr) between->yield();
    }
  };
  PhaseTimer(const Place& place, const char* name, int64_t& total_ns)
      : span_(place.tracer, name, place.lane),
        clock_(*place.clock),
        total_ns_(total_ns),
        start_ns_(clock_.now_ns()) {}
  ~PhaseTimer() { total_ns_ += clock_.now_ns() - start_ns_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  void set_tokens(int64_t tokens) { span_.set_arg("tokens", tokens); }

 private:
  ScopedSpan span_;
  const Clock& clock_;
  int64_t& total_ns_;
  int64_t start_ns_;
};

}  // namespace rl

// One phase of a training step: a trace span, and its time added to a total. If others compute
// between two micro-batches, their time counts for a phase of several micro-batches.
#pragma once
#include "core/clock.h"
#include "core/trace.h"
#include "train/passes/pass_context.h"

namespace rl {

class PhaseTimer {
 public:
  PhaseTimer(const PassContext& context, const char* name, int64_t& total_ns)
      : span_(context.tracer, name, context.lane),
        clock_(*context.clock),
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

// What all passes of a trainer or a critic share: the tracer and the clock that time them, and the
// point where others may compute between two micro-batches.
#pragma once
#include <cstdint>

#include "core/clock.h"
#include "core/trace.h"
#include "core/yield_point.h"

namespace rl {

struct PassContext {
  const Tracer* tracer;  // null: no spans
  uint32_t lane;
  const Clock* clock;
  YieldPoint* yield_point = nullptr;  // null: nobody else computes

  // Called after each micro-batch, when the next one needs nothing of it but gradients and sums.
  // Others may compute before it returns.
  void end_micro_batch() const {
    if (yield_point != nullptr) yield_point->yield();
  }
};

}  // namespace rl

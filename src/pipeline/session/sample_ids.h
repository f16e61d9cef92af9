// Ids of the samples of a runtime's engines. Invariant: an id that was handed out is never handed
// out again, nor one that was noted before. Bits 48 to 62 are runtime.instance, so that the ids of
// several processes differ; a pipeline counts its own from the same first id. Thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/error.h"

namespace rl {

class SampleIds {
 public:
  static constexpr int kInstanceBit = 48;

  // The first id of an instance.
  static constexpr uint64_t first_of(uint64_t instance) { return (instance << kInstanceBit) + 1; }

  explicit SampleIds(uint64_t instance)
      : next_(first_of(instance)), end_((instance + 1) << kInstanceBit) {}

  // The first of `count` ids in a row. kResourceExhausted when the instance has no more.
  uint64_t take(uint64_t count) {
    const std::lock_guard lock(mutex_);
    if (count > end_ - next_) {
      throw Error(Code::kResourceExhausted,
                  str("the sample ids of this runtime.instance end before ", end_));
    }
    next_ += count;
    return next_ - count;
  }
  // Ids that nothing came to use, unless later ones were taken meanwhile.
  void give_back(uint64_t first, uint64_t count) {
    const std::lock_guard lock(mutex_);
    if (next_ == first + count) next_ = first;
  }
  // Ids that a host has chosen.
  void note(uint64_t first, uint64_t count) {
    const std::lock_guard lock(mutex_);
    const uint64_t after = first + count;
    if (first >= end_ || after <= next_) return;
    next_ = std::min(after, end_);
  }

 private:
  std::mutex mutex_;
  uint64_t next_;
  const uint64_t end_;
};

}  // namespace rl

// Device memory for the length of an op, taken from the top of one reservation and given back in
// reverse order. Because all ops of a Compute go to one stream in order, memory that was given back
// may be taken again at once: what uses it next runs after what used it before.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/arena.h"

namespace rl::cuda {

class Scratch {
 public:
  static constexpr uint64_t kAlignment = 256;
  explicit Scratch(Arena arena) : arena_(std::move(arena)) {}

  // Error(kResourceExhausted), with the bytes taken, wanted and reserved, if they do not fit.
  std::byte* take(uint64_t bytes);
  uint64_t taken() const { return taken_; }
  uint64_t left() const { return arena_.bytes() - taken_; }
  // Gives back what was taken since taken() was `mark`.
  void give_back(uint64_t mark);

 private:
  Arena arena_;
  uint64_t taken_ = 0;
};

}  // namespace rl::cuda

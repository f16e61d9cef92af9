// Device memory for the length of an op, taken from the top of one range and given back in reverse
// order. Because all ops of a Compute go to one stream in order, memory that was given back
// may be taken again at once: what uses it next runs after what used it before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace rl::cuda {

class Scratch {
 public:
  static constexpr uint64_t kAlignment = 256;
  // The memory outlives it; it begins at a multiple of kAlignment.
  explicit Scratch(std::span<std::byte> memory) : memory_(memory) {}

  // Error(kResourceExhausted), with the bytes taken, wanted and there, if they do not fit.
  std::byte* take(uint64_t bytes);
  uint64_t taken() const { return taken_; }
  uint64_t left() const { return memory_.size() - taken_; }
  // The most that one piece may have.
  uint64_t room() const { return left() / kAlignment * kAlignment; }
  // Gives back what was taken since taken() was `mark`.
  void give_back(uint64_t mark);

 private:
  std::span<std::byte> memory_;
  uint64_t taken_ = 0;
};

}  // namespace rl::cuda

// How element-wise kernels divide an array: kBlockElements elements to a block. No element depends
// on another, so the division changes no bit.
#pragma once
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"

namespace rl::cuda {

inline constexpr int kElementThreads = 256;
inline constexpr int64_t kBlockElements = 4 * kElementThreads;

inline LaunchShape element_blocks(int64_t count) {
  return {(count + kBlockElements - 1) / kBlockElements, kElementThreads};
}

// Calls each(index) for the calling thread's elements of [0, count).
template <typename Each>
RL_DEVICE void for_each_element(int64_t count, const Each& each) {
  const int64_t first = block_x() * kBlockElements + thread_index();
  const int64_t end =
      count < (block_x() + 1) * kBlockElements ? count : (block_x() + 1) * kBlockElements;
  for (int64_t i = first; i < end; i += kElementThreads) each(i);
}

// The same for (rows, width) arrays, as each(row, column). A block has up to kBlockElements columns
// of one row.
inline LaunchShape row_blocks(int64_t rows, int64_t width) {
  return {rows * ((width + kBlockElements - 1) / kBlockElements), kElementThreads};
}
template <typename Each>
RL_DEVICE void for_each_in_row(int64_t width, const Each& each) {
  const int64_t blocks = (width + kBlockElements - 1) / kBlockElements;
  const int64_t row = block_x() / blocks, first = block_x() % blocks * kBlockElements;
  const int64_t end = width < first + kBlockElements ? width : first + kBlockElements;
  for (int64_t column = first + thread_index(); column < end; column += kElementThreads)
    each(row, column);
}

}  // namespace rl::cuda

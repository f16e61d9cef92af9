// Tiles of the operands of a product in shared memory. A tile has rows of kChunks times 16 bytes,
// each followed by 16 bytes that nothing uses, so that the rows spread over the banks. What lies
// outside the operand is zero in the tile and is not read.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/ptx.h"

namespace rl::cuda {

// A row-major operand. T is bf16 or float.
template <typename T>
struct Operand {
  const T* data;
  int64_t rows, columns;
  int64_t stride;  // elements from row to row
};

template <typename T>
inline constexpr int kChunkElements = static_cast<int>(16 / sizeof(T));

template <int kChunks>
inline constexpr int kTileRowBytes = kChunks * 16 + 16;

// Whether each row of the operand begins at, and has, whole chunks of 16 bytes.
inline bool has_whole_chunks(const void* data, int64_t columns, int64_t stride, size_t item) {
  const auto chunk = static_cast<int64_t>(16 / item);
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && columns % chunk == 0 && stride % chunk == 0;
}

RL_DEVICE void zero_chunk(std::byte* to) {
  auto* words = reinterpret_cast<uint32_t*>(to);
  for (int i = 0; i < 4; ++i) words[i] = 0;
}

// One chunk, element by element.
template <typename T>
RL_DEVICE void copy_elements(std::byte* to, const Operand<T>& from, int64_t row, int64_t column) {
  T* elements = reinterpret_cast<T*>(to);
  for (int i = 0; i < kChunkElements<T>; ++i) {
    elements[i] = row < from.rows && column + i < from.columns
                      ? from.data[row * from.stride + column + i]
                      : T{};
  }
}

// The threads of the block fill a tile of `tile_rows` rows from row row0 and column column0 on.
// With kWhole, which needs has_whole_chunks(), the copies are asynchronous.
template <typename T, int kChunks, bool kWhole>
RL_DEVICE void fill_tile(std::byte* tile, int tile_rows, const Operand<T>& from, int64_t row0,
                         int64_t column0) {
  for (int i = thread_index(); i < tile_rows * kChunks; i += block_threads()) {
    const int chunk = i % kChunks;
    std::byte* to = tile + (i / kChunks) * kTileRowBytes<kChunks> + chunk * 16;
    const int64_t row = row0 + i / kChunks, column = column0 + chunk * kChunkElements<T>;
    if constexpr (!kWhole) {
      copy_elements(to, from, row, column);
    } else if (row < from.rows && column < from.columns) {
      copy_async_16(to, from.data + row * from.stride + column);
    } else {
      zero_chunk(to);
    }
  }
}

}  // namespace rl::cuda

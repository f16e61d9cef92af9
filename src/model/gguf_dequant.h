// The element formats of stored tensors and their conversion to fp32. Each value is computed in
// fp32 with the operation order of the format's reference (one product, then one sum), so results
// are equal bit for bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/fs.h"

namespace rl {

// Formats that can be read. Formats that exist but cannot be read are known by their sizes only
// (gguf.cc).
enum class StoredType : uint8_t { kF32 = 0, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1 };

struct BlockLayout {
  int64_t elements;  // per block
  int64_t bytes;     // per block
};

constexpr BlockLayout block_layout(StoredType type) {
  switch (type) {
    case StoredType::kF32:
      return {1, 4};
    case StoredType::kF16:
      return {1, 2};
    case StoredType::kBf16:
      return {1, 2};
    case StoredType::kQ8_0:
      return {32, 34};
    case StoredType::kQ4_0:
      return {32, 18};
    case StoredType::kQ4_1:
      return {32, 20};
  }
  return {1, 4};
}

// "F32", "BF16", "Q4_1".
const char* stored_type_name(StoredType type);

// Converts out.size() elements, a whole number of blocks; blocks holds exactly their bytes, at any
// alignment.
void dequantize(StoredType type, std::span<const std::byte> blocks, std::span<float> out);

// Rows of one tensor inside a file that was checked to hold them.
struct StoredRows {
  const InputFile* file = nullptr;
  StoredType type = StoredType::kF32;
  uint64_t offset = 0;  // of row 0
  int64_t cols = 0;     // a whole number of blocks

  uint64_t row_bytes() const {
    const BlockLayout b = block_layout(type);
    return static_cast<uint64_t>(cols / b.elements) * static_cast<uint64_t>(b.bytes);
  }
  // Fills out with whole rows from first_row on. Reads about 1 MiB at a time; thread-safe.
  void read(int64_t first_row, std::span<float> out) const;
  // The same for a tensor whose rows come in heads of head_rows with their two halves interleaved:
  // stored row 2 j + h of a head is row h head_rows / 2 + j of the result, h in {0, 1}.
  void read_interleaved(int64_t first_row, int64_t head_rows, std::span<float> out) const;
};

}  // namespace rl

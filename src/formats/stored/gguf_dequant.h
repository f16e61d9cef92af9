// Converts stored tensors to fp32. Each value is computed in fp32 in the operation order of the
// format's reference (products, then one sum), so results are bit-identical to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/fs.h"
#include "formats/stored/stored_type.h"

namespace rl {

// Converts out.size() elements, a whole number of blocks; `blocks` holds exactly their bytes, at
// any alignment.
void dequantize(StoredType type, std::span<const std::byte> blocks, std::span<float> out);

// Rows of one tensor in a file that was checked to contain them.
struct StoredRows {
  const InputFile* file = nullptr;
  StoredType type = StoredType::kF32;
  uint64_t offset = 0;  // of row 0
  int64_t cols = 0;     // a whole number of blocks

  uint64_t row_bytes() const {
    const BlockLayout& b = block_layout(type);
    return static_cast<uint64_t>(cols / b.elements) * static_cast<uint64_t>(b.bytes);
  }
  // Fills out with whole rows from first_row on. Reads about 1 MiB at a time; thread-safe.
  void read(int64_t first_row, std::span<float> out) const;
  // Whether these columns are a whole number of blocks.
  bool can_read_columns(int64_t first, int64_t count) const;
  // Fills out with these columns of out.size() / count rows, and reads nothing else.
  void read_columns(int64_t first_row, int64_t first, int64_t count, std::span<float> out) const;
  // The same for a tensor whose rows form heads of head_rows with interleaved halves: stored row 2
  // j + h of a head is row h head_rows / 2 + j of the result, h in {0, 1}.
  void read_interleaved(int64_t first_row, int64_t head_rows, std::span<float> out) const;
};

}  // namespace rl

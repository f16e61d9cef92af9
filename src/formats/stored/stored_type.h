// The element formats of stored tensors, in one table: name, elements per block and bytes per
// block. Their arithmetic is in gguf_dequant.cc and gguf_k_quants.cc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace rl {

// Formats that can be read. Other GGUF formats are known by name and size only (gguf_formats.cc).
enum class StoredType : uint8_t {
  kF32 = 0,
  kF16,
  kBf16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
};

struct BlockLayout {
  const char* name;  // "F32", "BF16", "Q4_1"
  int64_t elements;  // per block
  int64_t bytes;     // per block
};

// In the order of StoredType.
inline constexpr BlockLayout kBlockLayouts[] = {
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},
    {"Q2_K", 256, 84},  {"Q3_K", 256, 110}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
};
static_assert(std::size(kBlockLayouts) == static_cast<size_t>(StoredType::kQ6K) + 1);

constexpr const BlockLayout& block_layout(StoredType type) {
  return kBlockLayouts[static_cast<size_t>(type)];
}
constexpr const char* stored_type_name(StoredType type) { return block_layout(type).name; }

}  // namespace rl

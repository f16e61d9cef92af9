// The K formats of GGUF: blocks of 256 elements, in groups of 16 or 32 that have small integer
// scales under one or two half-precision scales. A value is (d scale) q, or (d scale) q - (dmin
// minimum): the product of the scales first, each operation in fp32.
#pragma once
#include <cstddef>

namespace rl {

inline constexpr int kKBlock = 256;

// Each converts one block, of block_layout(type).bytes, to kKBlock values.
void q2_k_block(const std::byte* in, float* out);
void q3_k_block(const std::byte* in, float* out);
void q4_k_block(const std::byte* in, float* out);
void q5_k_block(const std::byte* in, float* out);
void q6_k_block(const std::byte* in, float* out);

}  // namespace rl

// Shared by the conversions of all block formats: unaligned loads and the half-precision scale.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rl {

static_assert(std::endian::native == std::endian::little, "tensor files are little endian");

// Exact for every input. A subnormal is rebuilt as a difference of two normals, which avoids slow
// subnormal operands.
inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t rebias = magnitude >= 0x7c00u ? uint32_t{224} << 23 : uint32_t{112} << 23;
  const uint32_t normal = (magnitude << 13) + rebias;
  const float small = std::bit_cast<float>(0x3f000000u | magnitude) - 0.5f;
  const uint32_t bits = magnitude < 0x400u ? std::bit_cast<uint32_t>(small) : normal;
  return std::bit_cast<float>(bits | sign);
}

template <typename T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline float load_half(const std::byte* p) { return half_to_float(load<uint16_t>(p)); }

}  // namespace rl

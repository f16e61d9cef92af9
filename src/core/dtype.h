// Element types of tensors, and bf16 conversion (round to nearest even; NaN stays NaN).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rl {

enum class Dtype : uint8_t { kF32 = 0, kBf16 = 1 };

constexpr size_t dtype_bytes(Dtype t) { return t == Dtype::kF32 ? 4 : 2; }
constexpr const char* dtype_name(Dtype t) { return t == Dtype::kF32 ? "fp32" : "bf16"; }

struct bf16 {
  uint16_t bits;
};

constexpr float to_float(bf16 v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
}
constexpr float to_float(float v) { return v; }

constexpr bf16 to_bf16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{static_cast<uint16_t>((u >> 16) | 0x40)};
  return bf16{static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// The value v has after rounding to dtype t.
constexpr float round_to(Dtype t, float v) { return t == Dtype::kF32 ? v : to_float(to_bf16(v)); }

}  // namespace rl

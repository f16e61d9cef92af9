// The bits of one element are spread over several arrays of its block. Each loop below walks the
// elements of one group, whose bits are at the same shift of consecutive bytes.
#include "formats/stored/gguf_k_quants.h"

#include "formats/stored/gguf_block.h"

namespace rl {
namespace {

struct ScaleAndMin {
  uint8_t scale[8], min[8];
};

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each are the low 6 bits
// of bytes 0..3 and 4..7; the others have 4 bits in bytes 8..11 and their upper 2 in the top bits
// of bytes 0..3 and 4..7.
ScaleAndMin unpack_scales(const uint8_t* s) {
  ScaleAndMin out;
  for (int j = 0; j < 4; ++j) {
    out.scale[j] = s[j] & 63;
    out.min[j] = s[j + 4] & 63;
    out.scale[j + 4] = static_cast<uint8_t>((s[j + 8] & 15) | (s[j] >> 6 << 4));
    out.min[j + 4] = static_cast<uint8_t>((s[j + 8] >> 4) | (s[j + 4] >> 6 << 4));
  }
  return out;
}

// 16 signed 6-bit scales in 12 bytes: 4 bits in bytes 0..7, low nibbles first, and the upper 2 bits
// in bytes 8..11, four at each shift.
void unpack_signed_scales(const uint8_t* s, int8_t* out) {
  for (int j = 0; j < 16; ++j) {
    const int low = s[j % 8] >> (j / 8 * 4) & 15;
    const int high = s[8 + j % 4] >> (j / 4 * 2) & 3;
    out[j] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

}  // namespace

// 16 bytes of scale and minimum nibbles, 64 bytes of 2-bit values, d, dmin.
void q2_k_block(const std::byte* in, float* out) {
  uint8_t scales[16], q[64];
  std::memcpy(scales, in, sizeof scales);
  std::memcpy(q, in + 16, sizeof q);
  const float d = load_half(in + 80), dmin = load_half(in + 82);
  for (int group = 0; group < 16; ++group) {
    const float dl = d * static_cast<float>(scales[group] & 15);
    const float ml = dmin * static_cast<float>(scales[group] >> 4);
    const uint8_t* bytes = q + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i)
      out[group * 16 + i] = dl * static_cast<float>(bytes[i] >> shift & 3) - ml;
  }
}

// 32 bytes of high bits (clear means 4 less), 64 bytes of 2-bit values, 12 bytes of scales, d.
void q3_k_block(const std::byte* in, float* out) {
  uint8_t high[32], q[64], packed[12];
  int8_t scales[16];
  std::memcpy(high, in, sizeof high);
  std::memcpy(q, in + 32, sizeof q);
  std::memcpy(packed, in + 96, sizeof packed);
  unpack_signed_scales(packed, scales);
  const float d = load_half(in + 108);
  for (int group = 0; group < 16; ++group) {
    const float dl = d * static_cast<float>(scales[group]);
    const uint8_t* bytes = q + group / 8 * 32 + group % 2 * 16;
    const uint8_t* high_bytes = high + group % 2 * 16;
    const int shift = group % 8 / 2 * 2, high_shift = group / 2;
    for (int i = 0; i < 16; ++i) {
      const int missing = ~high_bytes[i] >> high_shift & 1;
      out[group * 16 + i] = dl * static_cast<float>((bytes[i] >> shift & 3) - 4 * missing);
    }
  }
}

// d, dmin, 12 bytes of scales and minima, 128 bytes of nibbles.
void q4_k_block(const std::byte* in, float* out) {
  uint8_t packed[12], q[128];
  std::memcpy(packed, in + 4, sizeof packed);
  std::memcpy(q, in + 16, sizeof q);
  const float d = load_half(in), dmin = load_half(in + 2);
  const ScaleAndMin s = unpack_scales(packed);
  for (int group = 0; group < 8; ++group) {
    const float dl = d * static_cast<float>(s.scale[group]);
    const float ml = dmin * static_cast<float>(s.min[group]);
    const uint8_t* bytes = q + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i)
      out[group * 32 + i] = dl * static_cast<float>(bytes[i] >> shift & 15) - ml;
  }
}

// Like Q4_K, with 32 bytes of fifth bits, one shift per group, before the nibbles.
void q5_k_block(const std::byte* in, float* out) {
  uint8_t packed[12], high[32], q[128];
  std::memcpy(packed, in + 4, sizeof packed);
  std::memcpy(high, in + 16, sizeof high);
  std::memcpy(q, in + 48, sizeof q);
  const float d = load_half(in), dmin = load_half(in + 2);
  const ScaleAndMin s = unpack_scales(packed);
  for (int group = 0; group < 8; ++group) {
    const float dl = d * static_cast<float>(s.scale[group]);
    const float ml = dmin * static_cast<float>(s.min[group]);
    const uint8_t* bytes = q + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int v = (bytes[i] >> shift & 15) | (high[i] >> group & 1) << 4;
      out[group * 32 + i] = dl * static_cast<float>(v) - ml;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of upper 2 bits, 16 signed scales, d; values are offset by
// -32.
void q6_k_block(const std::byte* in, float* out) {
  uint8_t low[128], high[64];
  int8_t scales[16];
  std::memcpy(low, in, sizeof low);
  std::memcpy(high, in + 128, sizeof high);
  std::memcpy(scales, in + 192, sizeof scales);
  const float d = load_half(in + 208);
  for (int group = 0; group < 16; ++group) {
    const float dl = d * static_cast<float>(scales[group]);
    const int half = group / 8, quarter = group % 8 / 2;
    const uint8_t* low_bytes = low + half * 64 + quarter % 2 * 32 + group % 2 * 16;
    const uint8_t* high_bytes = high + half * 32 + group % 2 * 16;
    const int shift = quarter / 2 * 4, high_shift = quarter * 2;
    for (int i = 0; i < 16; ++i) {
      const int v = (low_bytes[i] >> shift & 15) | (high_bytes[i] >> high_shift & 3) << 4;
      out[group * 16 + i] = dl * static_cast<float>(v - 32);
    }
  }
}

}  // namespace rl

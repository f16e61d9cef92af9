// AdamW (adamw.h) whose moments are stored in bf16 or in 8 bits. A step decodes them to fp32,
// computes with them as adamw_update does, updates the parameter with the new moments before they
// are rounded, and stores them rounded stochastically (rounding.h): of the word of an element the
// lower 16 bits are for m, the upper ones for v.
//
// bf16: the element of index i, among all parameters, is element i % 256 of block i / 256 of random
// words. 8 bits, in blocks of 256 elements, each a block of random words and with two fp32 scales,
// the largest |m| and the largest v of the block, or 0 if that is denormal:
//
//   m = scale * sign(c) (c / 127)^4    c in -127..127
//   v = scale * (u / 255)^8            u in 0..255, and u >= 2 if v > 0
//
// Steps are 3% of the largest value and 18% of one that is 1e-3 of it, so small elements of a block
// keep their direction and size. The smallest |m| above 0 is 3.8e-9 of the scale, and so is the
// smallest sqrt(v), which divides it: an m that is rounded up from almost nothing moves its
// parameter by no more than one step of the largest element.
#pragma once
#include <cstdint>

#include "algo/optimizers/adamw.h"
#include "algo/optimizers/rounding.h"

namespace rl {

// Elements of indices `index` on.
struct AdamwBf16Arrays {
  float* param;
  uint16_t* m;
  uint16_t* v;
  const float* grad;
  int64_t count;
  uint64_t index;
};
void adamw_update_bf16(const AdamwStep& step, const RoundingKey& key, const AdamwBf16Arrays& a);

constexpr int64_t kInt8Block = kRoundingBlock;
constexpr int64_t num_int8_blocks(int64_t count) { return (count + kInt8Block - 1) / kInt8Block; }

// Blocks first_block on, of which the last may be shorter; scales have one number a block.
struct AdamwInt8Arrays {
  float* param;
  int8_t* m;
  float* m_scales;
  uint8_t* v;
  float* v_scales;
  const float* grad;
  int64_t count;
  uint64_t first_block;
};
void adamw_update_int8(const AdamwStep& step, const RoundingKey& key, const AdamwInt8Arrays& a);

}  // namespace rl

// y = a y + b x on fp32. Elements are independent: any split into spans gives the same bits.
#pragma once
#include <cstdint>

namespace rl {

struct ScaleAdd {
  float y_scale;
  float* y;  // with y_scale 0 written only
  float x_scale;
  const float* x;  // null: y = a y
};
// Each product is rounded, then their sum.
void scale_add(const ScaleAdd& a, int64_t count);

}  // namespace rl

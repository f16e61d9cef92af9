// A product of tiles on the emulation adds along k in one order. A GPU has its own.
#include <gtest/gtest.h>

#include <vector>

#include "core/dtype.h"
#include "cuda_host/device_array.h"
#include "cuda_host/emulator.h"
#include "cuda_host/language_kernels.h"
#include "support/random_values.h"

namespace rl::emulated {
namespace {

std::vector<uint16_t> random_bf16(int64_t count, unsigned seed) {
  std::vector<uint16_t> bits;
  for (const float v : testing::random_values(count, seed)) bits.push_back(to_bf16(v).bits);
  return bits;
}
float value_of(uint16_t bits) { return to_float(bf16{bits}); }

TEST(TileOrder, EachElementAddsAlongK) {
  constexpr size_t kDepth = 80;
  const std::vector<uint16_t> a = random_bf16(16 * kDepth, 1), b = random_bf16(8 * kDepth, 2);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    restart(seed);
    const DeviceArray<uint16_t> da(a), db(b);
    const DeviceArray<float> c(16 * 8);
    cuda::language::multiply_tiles(nullptr, {da.data(), db.data(), c.data(), 1, kDepth});
    const std::vector<float> got = c.values();
    for (size_t row = 0; row < 16; ++row)
      for (size_t column = 0; column < 8; ++column) {
        float sum = 0;
        for (size_t k = 0; k < kDepth; ++k)
          sum += value_of(a[row * kDepth + k]) * value_of(b[column * kDepth + k]);
        ASSERT_EQ(got[row * 8 + column], sum) << row << ", " << column;
      }
  }
}

}  // namespace
}  // namespace rl::emulated

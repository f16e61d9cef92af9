// The language of kernels computes what its headers say, for every seed of the emulation, and on a
// GPU, where tests/cuda_gpu runs these tests too. All sums are exact, so no order shows.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/dtype.h"
#include "cuda_host/device_array.h"
#include "cuda_host/emulator.h"
#include "cuda_host/language_kernels.h"

namespace rl::emulated {
namespace {

using namespace cuda::language;

constexpr uint64_t kSeeds = 12;

std::vector<float> ramp(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = step * static_cast<float>(i % 37) - 2;
  return values;
}
std::vector<uint16_t> bf16_ramp(size_t count, float step) {
  std::vector<uint16_t> values;
  for (const float v : ramp(count, step)) values.push_back(to_bf16(v).bits);
  return values;
}
float value_of(uint16_t bits) { return to_float(bf16{bits}); }

TEST(Language, ThreadsCoverAnArrayWithARaggedEnd) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    restart(seed);
    const std::vector<float> a = ramp(1001, 0.5f), b = ramp(1001, 0.25f);
    const DeviceArray<float> da(a), db(b), to(1001);
    scale(nullptr, {da.data(), db.data(), 3, to.data(), 1001});
    const std::vector<float> got = to.values();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], std::fma(a[i], 3.0f, b[i])) << i;
  }
}

TEST(Language, ABlockSumsByShufflesAndSharedMemory) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    restart(seed);
    const std::vector<float> a = ramp(5 * 256, 0.5f);
    const DeviceArray<float> from(a), to(5);
    sum_blocks(nullptr, {from.data(), to.data(), 5});
    const std::vector<float> got = to.values();
    for (size_t block = 0; block < 5; ++block) {
      double sum = 0;  // of multiples of 0.5, so exact in any order
      for (size_t i = 0; i < 256; ++i) sum += a[block * 256 + i];
      EXPECT_EQ(got[block], sum);
    }
  }
}

TEST(Language, TilesMultiply) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    restart(seed);
    constexpr size_t kRows = 48, kDepth = 80;
    const std::vector<uint16_t> a = bf16_ramp(kRows * kDepth, 0.25f),
                                b = bf16_ramp(8 * kDepth, 0.125f);
    const DeviceArray<uint16_t> da(a), db(b);
    const DeviceArray<float> c(kRows * 8);
    multiply_tiles(nullptr, {da.data(), db.data(), c.data(), 3, kDepth});
    const std::vector<float> got = c.values();
    for (size_t row = 0; row < kRows; ++row)
      for (size_t column = 0; column < 8; ++column) {
        float sum = 0;
        for (size_t k = 0; k < kDepth; ++k)
          sum += value_of(a[row * kDepth + k]) * value_of(b[column * kDepth + k]);
        ASSERT_EQ(got[row * 8 + column], sum) << row << ", " << column;
      }
  }
}

TEST(Language, LanesExchangeAsTheWrappersSay) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    restart(seed);
    const DeviceArray<uint32_t> to(9 * 32);
    show_lanes(nullptr, {to.data()});
    const std::vector<uint32_t> got = to.values();
    uint32_t thirds = 0;
    for (uint32_t lane = 0; lane < 32; lane += 3) thirds |= 1u << lane;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      EXPECT_EQ(got[lane], thirds);
      EXPECT_EQ(got[32 + lane], 100 + (lane + 5) % 32);
      EXPECT_EQ(got[64 + lane], 100 + (lane + 4 < 32 ? lane + 4 : lane));
      // Tile i has elements 64 i + 8 row + column.
      EXPECT_EQ(got[96 + lane], (64 + 8 * g + 2 * t) | (64 + 8 * g + 2 * t + 1) << 16);
      EXPECT_EQ(got[128 + lane], (128 + 8 * (2 * t) + g) | (128 + 8 * (2 * t + 1) + g) << 16);
      EXPECT_EQ(got[160 + lane] - got[160], 2 * lane);
      EXPECT_EQ(got[192 + lane], lane);
      EXPECT_EQ(got[224 + lane], lane);
      EXPECT_EQ(got[256 + lane], 32u);
    }
  }
}

}  // namespace
}  // namespace rl::emulated

// The optimizer's ops on the GPU: those of algo/optimizers have their bits, because their
// operations have one order; sums of squares are in double.
#include <gtest/gtest.h>

#include "cuda/device_data.h"

namespace rl::testing {
namespace {

TEST(OptimizerTwins, AdamwHasTheBitsOfTheCpu) {
  for (const int64_t count : {0, 1, 1023, 5000}) {
    TwoDevices devices(Dtype::kF32);
    OnBoth<float> param(random_values(count, 1)), m(random_values(count, 2, 0.1f)),
        grad(random_values(count, 3));
    std::vector<float> squares = random_values(count, 4, 0.1f);
    for (float& v : squares) v = v * v;
    OnBoth<float> v(squares);
    for (int64_t t = 1; t <= 3; ++t) {
      const AdamwStep step = adamw_step({.weight_decay = 0.1}, {1e-3, t, 0.37});
      const HostSide host;
      adamw_update(step, {host.all(param), host.all(m), host.all(v), host.all(grad)});
      const DeviceSide at;
      adamw(devices.gpu(), {step, at(param), at(m), at(v), at(grad), count});
    }
    expect_same(param);
    expect_same(m);
    expect_same(v);
  }
}

// 65536 squares and their order: a relative 65536 * 2^-53.
TEST(OptimizerTwins, SquaresAreSummedByChunks) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count :
       {int64_t{0}, int64_t{1}, kOptimizerChunk - 1, kOptimizerChunk, 2 * kOptimizerChunk + 77}) {
    OnBoth<float> values(random_values(count, 5, 100.0f));
    const auto chunks = static_cast<size_t>(num_optimizer_chunks(count));
    std::vector<double> want(chunks), got(chunks);
    double want_sum = -1, got_sum = -1;
    squared_norm(devices.reference(), {HostSide()(values), count, want, want_sum});
    squared_norm(devices.gpu(), {DeviceSide()(values), count, got, got_sum});
    EXPECT_NEAR(got_sum, want_sum, 1e-11 * want_sum);
    double in_order = 0;
    for (size_t i = 0; i < chunks; ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-11 * want[i]);
      in_order += got[i];
    }
    EXPECT_EQ(got_sum, in_order);
  }
}

// The sum of a chunk does not depend on the chunks around it.
TEST(OptimizerTwins, AChunkAloneHasTheSameSum) {
  TwoDevices devices(Dtype::kF32);
  OnBoth<float> values(random_values(kOptimizerChunk + 500, 6));
  std::vector<double> both(2);
  double sum = 0, alone = 0;
  const float* const all = DeviceSide()(values);
  squared_norm(devices.gpu(), {all, kOptimizerChunk + 500, both, sum});
  squared_norm(devices.gpu(), {all + kOptimizerChunk, 500, std::span(both).first(1), alone});
  EXPECT_EQ(alone, both[1]);
}

TEST(OptimizerTwins, AChunkOfTheHostHasTheSameSum) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1000}, kOptimizerChunk}) {
    const std::vector<float> host = random_values(count, 7);
    OnBoth<float> values(host);
    std::vector<double> sums(static_cast<size_t>(num_optimizer_chunks(count)));
    double sum = -1, of_host = -1, want = -1;
    squared_norm(devices.gpu(), {DeviceSide()(values), count, sums, sum});
    square_chunk(devices.gpu(), {host, of_host});
    square_chunk(devices.reference(), {host, want});
    EXPECT_EQ(of_host, sum);
    EXPECT_NEAR(of_host, want, 1e-11 * want);
  }
}

// Counts that end inside a block, first elements in the middle of one, and gradients that leave
// most moments of a block denormal.
constexpr RoundingKey kRounding = {{0x12345678u, 0x9abcdef0u}, 3, 1};

std::vector<float> gradients_of(int64_t count, uint64_t seed) {
  std::vector<float> grad = random_values(count, seed);
  for (size_t i = 0; i < grad.size(); ++i) {
    if (i % 7 == 0) grad[i] *= 1e-3f;
    if (i % 11 == 0) grad[i] = 0;
    if (i >= 512 && i < 768) grad[i] *= 1e-38f;
  }
  return grad;
}

TEST(OptimizerTwins, AdamwInBf16HasTheBitsOfTheCpu) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {0, 1, 255, 256, 1023, 3000}) {
    for (const uint64_t index : {uint64_t{0}, uint64_t{77}, uint64_t{5} << 40}) {
      const auto size = static_cast<size_t>(count);
      OnBoth<float> param(random_values(count, 1)), grad(gradients_of(count, 2));
      OnBoth<uint16_t> m(std::vector<uint16_t>(size, 0)), v(std::vector<uint16_t>(size, 0));
      for (int64_t t = 1; t <= 3; ++t) {
        const AdamwStep step = adamw_step({.weight_decay = 0.1}, {1e-3, t, 0.37});
        const HostSide host;
        adamw_update_bf16(step, kRounding,
                          {host(param), host(m), host(v), host(grad), count, index});
        const DeviceSide at;
        adamw_bf16(devices.gpu(),
                   {step, kRounding, {at(param), at(m), at(v), at(grad), count, index}});
      }
      expect_same(param);
      expect_same(m);
      expect_same(v);
    }
  }
}

TEST(OptimizerTwins, AdamwIn8BitsHasTheBitsOfTheCpu) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {0, 1, 255, 256, 257, 3000}) {
    for (const uint64_t first : {uint64_t{0}, uint64_t{5} << 40}) {
      const auto size = static_cast<size_t>(count),
                 blocks = static_cast<size_t>(num_int8_blocks(count));
      OnBoth<float> param(random_values(count, 1)), grad(gradients_of(count, 2)),
          m_scales(std::vector<float>(blocks, 0)), v_scales(std::vector<float>(blocks, 0));
      OnBoth<int8_t> m(std::vector<int8_t>(size, 0));
      OnBoth<uint8_t> v(std::vector<uint8_t>(size, 0));
      const auto all = [&](auto at) {
        return AdamwInt8Arrays{at(param),    at(m),    at(m_scales), at(v),
                               at(v_scales), at(grad), count,        first};
      };
      for (int64_t t = 1; t <= 3; ++t) {
        const AdamwStep step = adamw_step({.weight_decay = 0.1}, {1e-3, t, 0.37});
        adamw_update_int8(step, kRounding, all(HostSide()));
        adamw_int8(devices.gpu(), {step, kRounding, all(DeviceSide())});
      }
      expect_same(param);
      expect_same(m);
      expect_same(m_scales);
      expect_same(v);
      expect_same(v_scales);
    }
  }
}

// One rounding of each product and of the sum: the reference rounds once.
TEST(OptimizerTwins, ArraysAreScaledAndAdded) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {0, 1, 1024, 2500}) {
    for (const auto& [y_scale, x_scale] : {std::pair{0.5f, 3.0f}, {0.0f, 0.7f}}) {
      OnBoth<float> y(random_values(count, 1)), x(random_values(count, 2));
      devices.run([&](Compute& compute, auto at) {
        scale_add(compute, {{y_scale, at(y), x_scale, at(x)}, count});
        scale_add(compute, {{-1.5f, at(y), 0, nullptr}, count});
      });
      expect_near(y, {.absolute = 1e-6, .relative = 1e-6});
    }
  }
}

// With a scale of zero the array is written only.
TEST(OptimizerTwins, AScaleOfZeroReadsNothing) {
  TwoDevices devices(Dtype::kF32);
  OnBoth<float> y(int64_t{300}), x(random_values(300, 2));
  devices.run([&](Compute& compute, auto at) {
    scale_add(compute, {{0.0f, at(y), 2.0f, at(x)}, 300});
  });
  expect_same(y);
}

TEST(OptimizerTwins, RoundedSumsHaveTheBitsOfTheCpu) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {0, 1, 255, 1023, 3000}) {
    OnBoth<float> from(gradients_of(count, 2));
    OnBoth<uint16_t> to(std::vector<uint16_t>(static_cast<size_t>(count), 0x3c80));
    const RoundedSum sum{HostSide()(from), HostSide()(to), count, 77};
    add_rounded(kRounding, sum);
    const DeviceSide at;
    add_rounded(devices.gpu(), {kRounding, {at(from), at(to), count, 77}});
    expect_same(from);
    expect_same(to);
    OnBoth<float> wide(std::vector<float>(static_cast<size_t>(count), -1));
    widen_bf16(HostSide()(to), HostSide()(wide), count);
    widen_bf16(devices.gpu(), {at(to), at(wide), count});
    expect_same(wide);
  }
}

TEST(OptimizerTwins, RowsAreAddedWhereTheyBelong) {
  TwoDevices devices(Dtype::kF32);
  const std::vector<int32_t> rows = {9, 0, 4};
  for (const int64_t width : {1, 64, 1025}) {
    OnBoth<float> from(random_values(3 * width, 2));
    OnBoth<uint16_t> to(std::vector<uint16_t>(static_cast<size_t>(10 * width), 0x3c80));
    devices.run([&](Compute& compute, auto at) {
      add_rounded(compute, {kRounding, {at(from), at(to), 3 * width, 5}, rows, width});
    });
    expect_same(from);
    expect_same(to);
  }
}

TEST(OptimizerTwins, RowsAreTransposed) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    TwoDevices devices(dtype);
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 70}, {64, 32}, {33, 65}}) {
      OnBoth<float> from(random_values(rows * columns, 3));
      OnBoth<std::byte> to = elements_to_write(dtype, rows * columns);
      devices.run([&](Compute& compute, auto at) {
        transpose_rows(compute, {at(from), rows, columns, at(to)});
      });
      expect_same(to);
    }
  }
}

TEST(OptimizerTwins, AveragesHaveTheBitsOfTheCpu) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {0, 1, 1024, 2500}) {
    OnBoth<float> weights(random_values(count, 1)), averages(random_values(count, 2));
    ema_update(ema_weight(0.99), HostSide()(weights), HostSide()(averages), count);
    average_floats(devices.gpu(), {0.99, DeviceSide()(weights), DeviceSide()(averages), count});
    expect_same(averages);
  }
}

TEST(OptimizerTwins, ArraysTakeEachOthersContent) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count : {0, 1, 1024, 2500}) {
    OnBoth<float> a(random_values(count, 1)), b(random_values(count, 2));
    devices.run([&](Compute& compute, auto at) {
      exchange_floats(compute, {at(a), at(b), count});
    });
    expect_same(a);
    expect_same(b);
  }
}

}  // namespace
}  // namespace rl::testing

// Packing, reading and copying on the GPU: nothing is summed, so all bits are those of the
// reference device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cuda/device_data.h"

namespace rl::testing {
namespace {

class WeightsTwins : public ::testing::TestWithParam<Dtype> {
 protected:
  PackedShape plan(int64_t n, int64_t k, const SliceCut& cut = {}) const {
    return devices_.gpu_device().plan_packed({k, n, cut, 32}, dtype_);
  }

  const Dtype dtype_ = GetParam();
  TwoDevices devices_{dtype_};
};
INSTANTIATE_TEST_SUITE_P(Dtypes, WeightsTwins, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

struct Matrix {
  int64_t n, k;
  SliceCut cut = {};
};
const std::vector<Matrix>& matrices() {
  static const std::vector<Matrix> all = {{1, 8}, {48, 33}, {96, 40, {2, 16}}, {129, 1000}};
  return all;
}

// Zeros, so that a write behind the last element is seen.
OnBoth<std::byte> bytes_of(const PackedShape& shape) {
  return OnBoth<std::byte>(std::vector<std::byte>(shape.bytes));
}

TEST_P(WeightsTwins, RowsInMemoryArePacked) {
  for (const Matrix& m : matrices()) {
    const PackedShape shape = plan(m.n, m.k, m.cut);
    OnBoth<float> w(random_values(m.n * m.k, 1));
    OnBoth<std::byte> bytes = bytes_of(shape);
    devices_.run([&](Compute& compute, auto at) {
      PackedMatrix out;
      for (int again = 0; again < 2; ++again)
        pack_rows(compute, {shape, at(bytes), out, at(w), 0, nullptr, {}, 0});
      EXPECT_EQ(out.data(), at(bytes));
      EXPECT_EQ(out.shape().k, m.k);
    });
    expect_same(bytes);
  }
}

TEST_P(WeightsTwins, RowsOfAReaderArePacked) {
  constexpr int64_t kFrom = 70;
  for (const Matrix& m : matrices()) {
    const PackedShape shape = plan(m.n, m.k, m.cut);
    const std::vector<float> source = random_values(kFrom + m.n * m.k, 2);
    const auto copy = [&](int64_t from, std::span<float> out) {
      ASSERT_EQ((from - kFrom) % m.k, 0);
      ASSERT_EQ(static_cast<int64_t>(out.size()) % m.k, 0);
      std::copy_n(source.data() + from, out.size(), out.data());
    };
    const FloatReader read = copy;
    OnBoth<std::byte> bytes = bytes_of(shape);
    std::vector<float> staging(static_cast<size_t>(shape.slices.width * m.k));
    devices_.run([&](Compute& compute, auto at) {
      PackedMatrix out;
      pack_rows(compute, {shape, at(bytes), out, nullptr, kFrom, &read, staging,
                          static_cast<int64_t>(staging.size())});
    });
    expect_same(bytes);
  }
}

// A matrix larger than what is read at a time.
TEST_P(WeightsTwins, LargeMatricesAreReadInParts) {
  const Matrix m{17, 100'000};
  const PackedShape shape = plan(m.n, m.k);
  const auto make = [&](int64_t from, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>((from + static_cast<int64_t>(i)) % 65536);
  };
  const FloatReader read = make;
  OnBoth<std::byte> bytes = bytes_of(shape);
  std::vector<float> staging(static_cast<size_t>(m.n * m.k));
  devices_.run([&](Compute& compute, auto at) {
    PackedMatrix out;
    pack_rows(compute, {shape, at(bytes), out, nullptr, 0, &read, staging,
                        static_cast<int64_t>(staging.size())});
  });
  expect_same(bytes);
}

TEST_P(WeightsTwins, ColumnsArePacked) {
  for (const Matrix& m : matrices()) {
    const PackedShape shape = plan(m.n, m.k);
    OnBoth<float> w(random_values(m.n * m.k, 3));
    OnBoth<std::byte> bytes = bytes_of(shape);
    devices_.run([&](Compute& compute, auto at) {
      PackedMatrix out;
      pack_columns(compute, {shape, at(bytes), out, at(w)});
    });
    expect_same(bytes);
  }
}

TEST_P(WeightsTwins, PackedRowsAreUnpacked) {
  for (const Matrix& m : matrices()) {
    const PackedShape shape = plan(m.n, m.k, m.cut);
    const std::vector<float> values = random_values(m.n * m.k, 5);
    OnBoth<float> w(values), rows(std::vector<float>(values.size(), -1.0f));
    OnBoth<std::byte> bytes = bytes_of(shape);
    devices_.run([&](Compute& compute, auto at) {
      PackedMatrix out;
      pack_rows(compute, {shape, at(bytes), out, at(w), 0, nullptr, {}, 0});
      unpack_rows(compute, {out, at(rows)});
    });
    expect_same(rows);
    const std::vector<float> unpacked = rows.host();
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(unpacked[i], round_to(GetParam(), values[i])) << i;
  }
}

TEST_P(WeightsTwins, RunsAreRead) {
  const std::vector<float> source = random_values(3000, 4);
  const auto copy = [&](int64_t from, std::span<float> out) {
    std::copy_n(source.data() + from, out.size(), out.data());
  };
  OnBoth<float> to(std::vector<float>(3000, -1.0f));
  devices_.run([&](Compute& compute, auto at) {
    const std::vector<FloatRun> runs = {
        {5, at(to), 10}, {2000, at(to) + 10, 1000}, {0, at(to) + 2000, 1}, {70, at(to) + 2999, 1}};
    const FloatReader read = copy;
    read_floats(compute, {runs, &read, nullptr});
    read_floats(compute, {{}, &read, nullptr});
  });
  expect_same(to);
}

TEST_P(WeightsTwins, RunsOfTheDeviceAreCopied) {
  OnBoth<float> from(random_values(3000, 4)), to(std::vector<float>(3000, -1.0f));
  devices_.run([&](Compute& compute, auto at) {
    const std::vector<FloatRun> runs = {
        {5, at(to), 10}, {2000, at(to) + 10, 1000}, {0, at(to) + 2000, 0}, {70, at(to) + 2999, 1}};
    read_floats(compute, {runs, nullptr, at(from)});
  });
  expect_same(to);
}

TEST_P(WeightsTwins, FloatsAreRounded) {
  for (const int64_t count : {0, 1, 1024, 2500}) {
    OnBoth<float> from(random_values(count, 5));
    OnBoth<std::byte> to = elements_to_write(dtype_, count);
    devices_.run([&](Compute& compute, auto at) {
      round_floats(compute, {at(from), count, at(to)});
    });
    expect_same(to);
  }
}

TEST_P(WeightsTwins, FloatsBecomeZero) {
  OnBoth<float> to(random_values(2500, 6));
  devices_.run([&](Compute& compute, auto at) {
    zero_floats(compute, {at(to) + 3, 2000});
    zero_floats(compute, {at(to), 0});
  });
  expect_same(to);
}

// Between device and device, device and host, host and host.
TEST_P(WeightsTwins, BytesAreCopiedBetweenAllMemories) {
  const std::vector<float> source = random_values(700, 7);
  const uint64_t bytes = 699 * sizeof(float) - 1;
  OnBoth<float> first(std::vector<float>(700, 0.0f)), second(std::vector<float>(700, 0.0f));
  std::vector<float> back(700, 0.0f), copy(700, 0.0f);
  copy_bytes(devices_.gpu(), {source.data(), first.on_device(), bytes});
  copy_bytes(devices_.gpu(), {first.on_device(), second.on_device(), bytes});
  copy_bytes(devices_.gpu(), {second.on_device(), back.data(), bytes});
  copy_bytes(devices_.gpu(), {back.data(), copy.data(), bytes});
  copy_bytes(devices_.gpu(), {nullptr, nullptr, 0});
  EXPECT_EQ(std::memcmp(copy.data(), source.data(), bytes), 0);
  EXPECT_EQ(copy.back(), 0.0f);
  EXPECT_EQ(first.read_device().back(), 0.0f);
}

}  // namespace
}  // namespace rl::testing

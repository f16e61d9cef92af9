// Rows that the GPU copies, adds to others and turns into values, against the reference device.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/device_data.h"
#include "ops/cuda/kernels/rows/values_kernels.h"

namespace rl::testing {
namespace {

class RowsTwins : public ::testing::TestWithParam<Dtype> {
 protected:
  const Dtype dtype_ = GetParam();
  TwoDevices devices_{dtype_};
};
INSTANTIATE_TEST_SUITE_P(Dtypes, RowsTwins, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

constexpr int64_t kRows = 11;

// Rows of the batch in any order, some of them several times; none at index 4.
const std::vector<int32_t>& chosen() {
  static const std::vector<int32_t> rows = {10, 0, 3, 3, 7, 0, 10, 10, 3, 1, 2, 5, 6, 8, 9, 3};
  return rows;
}
int64_t count_of(const std::vector<int32_t>& rows) { return static_cast<int64_t>(rows.size()); }

// Widths whose rows are whole units of 8, of 4 and of 2 bytes.
TEST_P(RowsTwins, RowsAreGathered) {
  for (const int64_t width : {8, 2050, 34, 33}) {
    OnBoth<std::byte> from = elements_of(dtype_, random_values(kRows * width, 1));
    OnBoth<std::byte> to = elements_to_write(dtype_, count_of(chosen()) * width);
    devices_.run([&](Compute& compute, auto at) {
      gather_rows(compute,
                  {at(from), chosen(), static_cast<uint64_t>(width) * dtype_bytes(dtype_), at(to)});
    });
    expect_same(to);
  }
}

std::vector<std::byte> some_bytes(size_t count, unsigned seed) {
  std::vector<std::byte> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 37 + i / 251 + seed);
  return out;
}

// In units of 8, of 4 and of 1 byte, which each of the sizes and addresses decides; rows of one
// block of threads and of several. What lies beside the columns stays.
TEST_P(RowsTwins, ColumnsAreCopied) {
  struct Shape {
    uint64_t from_row, to_row, bytes, from, to;
  };
  const std::vector<Shape> shapes = {
      {24, 24, 24, 0, 0},  {24, 40, 16, 8, 24},       {40, 24, 16, 24, 0},
      {24, 40, 16, 4, 16}, {24, 40, 16, 8, 4},        {28, 40, 16, 8, 16},
      {24, 44, 16, 8, 16}, {24, 40, 12, 8, 16},       {24, 40, 5, 3, 16},
      {9, 7, 6, 2, 1},     {8208, 8192, 8192, 16, 0}, {9000, 20000, 8200, 8, 16},
      {24, 40, 8, 16, 0},  {5000, 4997, 4097, 1, 2}};
  for (const Shape& s : shapes) {
    SCOPED_TRACE(str(s.from_row, " to ", s.to_row, ", ", s.bytes));
    OnBoth<std::byte> from(some_bytes(kRows * s.from_row, 1)), to(some_bytes(kRows * s.to_row, 2));
    devices_.run([&](Compute& compute, auto at) {
      copy_columns(compute,
                   {at(from) + s.from, s.from_row, at(to) + s.to, s.to_row, kRows, s.bytes});
    });
    expect_same(to);
  }
}

TEST_P(RowsTwins, NoRowsAreNoWork) {
  OnBoth<float> to(random_values(8, 1));
  devices_.run([&](Compute& compute, auto at) {
    gather_rows(compute, {nullptr, {}, 8, nullptr});
    copy_columns(compute, {nullptr, 8, nullptr, 16, 0, 8});
    copy_columns(compute, {nullptr, 8, nullptr, 16, 4, 0});
    scatter_add_rows(compute, {nullptr, {}, 8, at(to)});
    value_rows(compute, {nullptr, {}, nullptr, 8, {}});
    value_rows_backward(compute, {nullptr, {}, nullptr, 8, {}, at(to), at(to)});
  });
  expect_same(to);
}

TEST_P(RowsTwins, RepeatedRowsAreAddedInOrder) {
  for (const int64_t width : {8, 33, 1500}) {
    OnBoth<float> from(random_values(count_of(chosen()) * width, 1)),
        to(random_values(kRows * width, 2));
    devices_.run([&](Compute& compute, auto at) {
      scatter_add_rows(compute, {at(from), chosen(), width, at(to)});
    });
    expect_same(to);
  }
}

// A scale of 1 leaves additions in order, which are exact on both devices; another rounds each
// product.
TEST_P(RowsTwins, GradientsOfTokensAreAddedInOrder) {
  constexpr int64_t kVocab = 13, kHidden = 40;
  std::vector<int32_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % kVocab);
  OnBoth<float> dx(random_values(count_of(ids) * kHidden, 1));
  for (const float scale : {1.0f, 11.3125f}) {
    OnBoth<float> grad(random_values(kVocab * kHidden, 2));
    devices_.run([&](Compute& compute, auto at) {
      embed_rows_backward(compute, {at(dx), ids, kHidden, scale, at(grad)});
    });
    if (scale == 1.0f) {
      expect_same(grad);
    } else {
      // Up to 60 tokens of a row: as many roundings of sums below 256.
      expect_near(grad, {60 * 256.0 / (1 << 24), 0});
    }
  }
}

TEST_P(RowsTwins, ValuesAreDotProducts) {
  for (const int64_t width : {8, 17, 100, 1030}) {
    OnBoth<std::byte> hidden = elements_of(dtype_, random_values(kRows * width, 1));
    OnBoth<float> w(random_values(width, 2));
    std::vector<float> want(chosen().size()), got(want.size());
    value_rows(devices_.reference(), {hidden.on_host(), chosen(), w.on_host(), width, want});
    value_rows(devices_.gpu(), {hidden.on_device(), chosen(), w.on_device(), width, got});
    // 65 terms in a lane, values below 128.
    expect_near(got, want, {65 * 128.0 / (1 << 24), 0});
    for (size_t i = 0; i < chosen().size(); ++i) {
      float alone = 0;
      value_rows(devices_.gpu(), {hidden.on_device(),
                                  std::span(chosen()).subspan(i, 1),
                                  w.on_device(),
                                  width,
                                  {&alone, 1}});
      EXPECT_EQ(alone, got[i]) << i;
    }
  }
}

// In arrays of their exact size: the op itself has them in scratch, where a write behind the last
// value would not be seen.
TEST_P(RowsTwins, ValuesAreWrittenForTheRowsAlone) {
  constexpr int64_t kWidth = 20, kCount = 11;
  DeviceArray<std::byte> hidden(
      std::span<const std::byte>(as_dtype(random_values(kRows * kWidth, 1), dtype_)));
  DeviceArray<float> w(std::span<const float>(random_values(kWidth, 2))), values(kCount);
  DeviceArray<int32_t> rows(std::span<const int32_t>(chosen()).first(kCount));
  auto& gpu = cuda::cuda_of(devices_.gpu());
  cuda::value_rows(gpu.stream(),
                   {hidden.data(), rows.data(), w.data(), dtype_, kCount, kWidth, values.data()});
  std::vector<float> want(kCount);
  value_rows(gpu, {hidden.data(), std::span(chosen()).first(kCount), w.data(), kWidth, want});
  EXPECT_EQ(values.read(), want);
}

TEST_P(RowsTwins, GradientsOfValuesAreAdded) {
  for (const int64_t width : {8, 1030}) {
    OnBoth<std::byte> hidden = elements_of(dtype_, random_values(kRows * width, 1));
    OnBoth<float> w(random_values(width, 2)), d_hidden(random_values(kRows * width, 3)),
        grad(random_values(width, 4));
    const std::vector<float> d_value = random_values(count_of(chosen()), 5);
    const auto backward = [&](bool trained) {
      devices_.run([&](Compute& compute, auto at) {
        value_rows_backward(compute, {at(hidden), chosen(), at(w), width, d_value, at(d_hidden),
                                      trained ? at(grad) : nullptr});
      });
    };
    backward(true);
    expect_near(grad, {16 * 16.0 / (1 << 24), 0});
    expect_near(d_hidden, {6 * 16.0 / (1 << 24), 0});
    const std::vector<float> before = grad.read_device();
    backward(false);
    EXPECT_EQ(grad.read_device(), before);
  }
}

}  // namespace
}  // namespace rl::testing

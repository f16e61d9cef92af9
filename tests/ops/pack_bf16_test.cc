// The packing of bf16 weights against oneDNN's reorder, byte for byte, over edge shapes and values.
#include "ops/cpu/pack_bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "ops/compute.h"
#include "ops/cpu/onednn_handles.h"
#include "support/random_values.h"

namespace rl::testing {
namespace {

// Random values, and between them what rounding treats in a way of its own.
std::vector<float> values_of(int64_t count) {
  const float odd[] = {0.0f,
                       -0.0f,
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::nanf("1"),
                       -std::nanf("77"),
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::min(),
                       std::numeric_limits<float>::denorm_min(),
                       1.00390625f,   // halfway between two bf16, the lower one even
                       1.01171875f};  // halfway, the upper one even
  std::vector<float> values = random_values(count, 7);
  for (size_t i = 0; i < values.size(); i += 13) values[i] = odd[i / 13 % std::size(odd)];
  return values;
}

std::vector<bf16> reordered(const std::vector<float>& w, const Bf16PackArgs& a) {
  std::vector<bf16> out(static_cast<size_t>(pack_bf16_elements(a.k, a.n)));
  OwnedEngine engine;
  OwnedStream stream;
  RL_DNNL(dnnl_engine_create(&engine.value, dnnl_cpu, 0));
  RL_DNNL(dnnl_stream_create(&stream.value, engine.value, dnnl_stream_default_flags));
  const dnnl_memory_desc_t from = plain_desc(a.k, a.n, a.k_stride, a.n_stride, dnnl_f32);
  const dnnl_dims_t dims = {a.k, a.n};
  dnnl_memory_desc_t to;
  RL_DNNL(dnnl_memory_desc_init_by_tag(&to, 2, dims, dnnl_bf16, dnnl_BA16a64b2a));
  EXPECT_EQ(dnnl_memory_desc_get_size(&to), out.size() * sizeof(bf16));
  OwnedMemory source, target;
  OwnedDesc desc;
  OwnedPrimitive reorder;
  RL_DNNL(dnnl_memory_create(&source.value, &from, engine.value, const_cast<float*>(w.data())));
  RL_DNNL(dnnl_memory_create(&target.value, &to, engine.value, out.data()));
  RL_DNNL(dnnl_reorder_primitive_desc_create(&desc.value, &from, engine.value, &to, engine.value,
                                             nullptr));
  RL_DNNL(dnnl_primitive_create(&reorder.value, desc.value));
  const std::array<dnnl_exec_arg_t, 2> args = {
      {{DNNL_ARG_FROM, source.value}, {DNNL_ARG_TO, target.value}}};
  RL_DNNL(dnnl_primitive_execute(reorder.value, stream.value, 2, args.data()));
  RL_DNNL(dnnl_stream_wait(stream.value));
  return out;
}

class Bf16Packing : public ::testing::TestWithParam<std::tuple<int64_t /*k*/, int64_t /*n*/>> {
 protected:
  void SetUp() override {
    if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  // The matrix is part of one that is longer by `rest` elements in its contiguous direction.
  void expect_equal(bool rows, int64_t rest) const {
    const auto [k, n] = GetParam();
    const int64_t stride = (rows ? n : k) + rest;
    const std::vector<float> w = values_of(stride * (rows ? k : n));
    std::vector<bf16> packed(static_cast<size_t>(pack_bf16_elements(k, n)), to_bf16(5));
    const Bf16PackArgs args{w.data(), k, n, rows ? stride : 1, rows ? 1 : stride, packed.data()};
    pack_bf16(args);
    const std::vector<bf16> want = reordered(w, args);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(packed[i].bits, want[i].bits)
          << k << " x " << n << (rows ? " rows, element " : " columns, element ") << i;
    }
  }
};

TEST_P(Bf16Packing, HasTheBytesOfOneDnnForContiguousRows) {
  expect_equal(true, 0);
  expect_equal(true, 37);
}

TEST_P(Bf16Packing, HasTheBytesOfOneDnnForContiguousColumns) {
  expect_equal(false, 0);
  expect_equal(false, 5);
}

TEST_P(Bf16Packing, OfRoundedRowsHasTheBytesOfRounding) {
  const auto [k, n] = GetParam();
  if (k % kBf16BlockRows != 0) return;
  const int64_t stride = n + 9;
  const std::vector<float> w = random_values(stride * k, 8);
  std::vector<bf16> rounded(w.size());
  std::ranges::transform(w, rounded.begin(), to_bf16);
  std::vector<bf16> want(static_cast<size_t>(pack_bf16_elements(k, n))),
      packed(want.size(), to_bf16(5));
  pack_bf16({w.data(), k, n, stride, 1, want.data()});
  pack_bf16_rows({rounded.data(), k, n, stride}, packed.data());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(packed[i].bits, want[i].bits) << i;
}

TEST_P(Bf16Packing, TransposesRows) {
  const auto [k, n] = GetParam();
  if (k % kBf16BlockRows != 0) return;
  const int64_t stride = n + 9;
  std::vector<bf16> rows(static_cast<size_t>(stride * k));
  for (size_t i = 0; i < rows.size(); ++i) rows[i].bits = static_cast<uint16_t>(i * 40503);
  std::vector<bf16> out(static_cast<size_t>(k * n + 1), bf16{});
  transpose_bf16_rows({rows.data(), k, n, stride}, out.data());
  for (int64_t c = 0; c < n; ++c)
    for (int64_t r = 0; r < k; ++r)
      ASSERT_EQ(out[c * k + r].bits, rows[r * stride + c].bits) << r << ", " << c;
  EXPECT_EQ(out.back().bits, 0) << "something was written behind the last column";
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Bf16Packing,
    ::testing::Combine(::testing::Values(1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 200, 576),
                       ::testing::Values(1, 8, 16, 24, 63, 64, 65, 80, 192, 320)));

}  // namespace
}  // namespace rl::testing

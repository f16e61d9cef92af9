// RoPE, the write of keys and values and the way back, on the GPU against the reference device.
//
// Tolerance: angles are the same fp32 values on both devices, so a rotated component differs by
// three roundings of values below 8; norms add those of norm_twins_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/device_data.h"
#include "ops/cuda/rope_cuda.h"
#include "reference/reference_elements.h"

namespace rl::testing {
namespace {

constexpr Tolerance kTolerance{4e-6, 4e-6};
constexpr int64_t kPositions = 200;

enum class Extra { kNone, kBias, kNorm, kNormMinusOne };
struct Case {
  int64_t heads, kv_heads, head_dim, block_size;
  Dtype dtype, kv_dtype;
  Extra extra;

  AttentionShape shape() const { return {heads, kv_heads, head_dim, block_size, dtype, kv_dtype}; }
  bool normed() const { return extra == Extra::kNorm || extra == Extra::kNormMinusOne; }
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
};
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  static const char* const names[] = {"plain", "bias", "norm", "norm_minus_one"};
  const Case& c = info.param;
  return str(c.heads, "_", c.kv_heads, "_", c.head_dim, "_", dtype_name(c.dtype), "_",
             dtype_name(c.kv_dtype), "_", names[static_cast<int>(c.extra)]);
}

class RopeTwins : public ::testing::TestWithParam<Case> {
 protected:
  const Case c_ = GetParam();
  TwoDevices devices_{c_.dtype};
  const RopeTable table_ = make_rope_table(c_.head_dim, kPositions, {.theta = 1e4});
  OnBoth<float> q_norm_{random_values(c_.head_dim, 1)}, k_norm_{random_values(c_.head_dim, 2)},
      bias_{random_values(c_.width(), 3)};

  template <typename At>
  HeadNorm norm(const At& at) {
    return {at(q_norm_), at(k_norm_), 1e-6f,
            c_.extra == Extra::kNorm ? NormWeight::kPlain : NormWeight::kMinusOne};
  }
  // What RoPE reads and writes for these places.
  struct Data {
    std::vector<RowPlace> places;
    OnBoth<float> qkv;
    OnBoth<std::byte> q, pool;
  };
  Data make(const std::vector<RowPlace>& places) const {
    const auto rows = static_cast<int64_t>(places.size());
    int32_t blocks = 0;
    for (const RowPlace& place : places) blocks = std::max(blocks, place.block + 1);
    const AttentionShape s = c_.shape();
    const auto pool_elements = static_cast<int64_t>(s.block_bytes() / dtype_bytes(s.kv_dtype));
    return {places, OnBoth<float>(random_values(rows * c_.width(), 4)),
            elements_to_write(s.dtype, rows * s.heads * s.padded_dim()),
            elements_of(s.kv_dtype, random_values(blocks * pool_elements, 5))};
  }
  template <typename At>
  RopeKvArgs args(Data& data, const HeadNorm& norm, const At& at) {
    return {.shape = c_.shape(),
            .qkv = at(data.qkv),
            .bias = c_.extra == Extra::kBias ? at(bias_) : nullptr,
            .norm = c_.normed() ? &norm : nullptr,
            .places = data.places.data(),
            .table = &table_,
            .q = at(data.q),
            .pool = at(data.pool),
            .rows = static_cast<int64_t>(data.places.size())};
  }
  void write_on_gpu(const RopeKvArgs& args) {
    auto& gpu = cuda::cuda_of(devices_.gpu());
    const cuda::ScratchScope scratch(gpu);
    cuda::rope_and_write_kv(gpu, args);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, RopeTwins,
    ::testing::Values(Case{1, 1, 8, 16, Dtype::kF32, Dtype::kF32, Extra::kNone},
                      Case{3, 1, 10, 16, Dtype::kBf16, Dtype::kBf16, Extra::kNorm},
                      Case{4, 2, 16, 16, Dtype::kF32, Dtype::kBf16, Extra::kBias},
                      Case{6, 3, 80, 32, Dtype::kBf16, Dtype::kF32, Extra::kBias},
                      Case{4, 2, 64, 16, Dtype::kF32, Dtype::kF32, Extra::kNormMinusOne},
                      Case{2, 2, 256, 128, Dtype::kBf16, Dtype::kBf16, Extra::kNone},
                      Case{2, 1, 130, 16, Dtype::kF32, Dtype::kF32, Extra::kNorm}),
    name_of);

// Rows at consecutive positions, as a prefill has them: angles are a range of the table.
std::vector<RowPlace> consecutive(int32_t rows, int32_t first, int64_t block_size) {
  std::vector<RowPlace> out;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t position = first + r;
    out.push_back({position, static_cast<int32_t>((position - first) / block_size) * 2 + 1});
  }
  return out;
}
// One row of each of several sequences far apart, as in decode.
std::vector<RowPlace> scattered() { return {{150, 2}, {3, 0}, {199, 5}, {64, 3}, {63, 1}}; }

TEST_P(RopeTwins, HeadsAreTurnedAndWritten) {
  for (const auto& places : {consecutive(21, 16, c_.block_size), scattered()}) {
    Data data = make(places);
    const HeadNorm on_host = norm(HostSide()), on_device = norm(DeviceSide());
    reference::write_heads(args(data, on_host, HostSide()));
    write_on_gpu(args(data, on_device, DeviceSide()));
    expect_near(c_.dtype, data.q, kTolerance);
    expect_near(c_.kv_dtype, data.pool, kTolerance);
  }
}

// N1, and ranges of heads: every row and every head alone.
TEST_P(RopeTwins, ARowAndAHeadAloneHaveTheSameBits) {
  const std::vector<RowPlace> places = scattered();
  Data together = make(places), alone = make(places);
  const HeadNorm norms = norm(DeviceSide());
  write_on_gpu(args(together, norms, DeviceSide()));
  const AttentionShape s = c_.shape();
  for (size_t row = 0; row < places.size(); ++row) {
    for (int64_t head = 0; head < s.heads + 2 * s.kv_heads; ++head) {
      RopeKvArgs one = args(alone, norms, DeviceSide());
      one.places += row;
      one.qkv += static_cast<int64_t>(row) * c_.width() + head * s.head_dim;
      one.q = alone.q.on_device() +
              row * static_cast<size_t>(s.heads * s.padded_dim()) * dtype_bytes(s.dtype);
      one.rows = 1;
      one.first_head = head;
      one.end_head = head + 1;
      write_on_gpu(one);
    }
  }
  EXPECT_EQ(alone.q.read_device(), together.q.read_device());
  EXPECT_EQ(alone.pool.read_device(), together.pool.read_device());
}

TEST_P(RopeTwins, PartialBlocksOfAPrefixAreCopied) {
  const AttentionShape s = c_.shape();
  const auto elements = static_cast<int64_t>(s.block_bytes() / dtype_bytes(s.kv_dtype));
  const auto size = static_cast<int32_t>(s.block_size);
  const std::vector<int32_t> prefix = {0, 1}, first = {0, 2}, second = {0, 3}, full = {4},
                             after = {4, 5};
  const int32_t prefix_rows = size + 7;
  const std::vector<SequenceRows> sequences = {{0, prefix_rows, 0, prefix.data()},
                                               {prefix_rows, 2, prefix_rows, first.data(), 0},
                                               {prefix_rows + 2, 3, prefix_rows, second.data(), 0},
                                               {prefix_rows + 5, size, 0, full.data()},
                                               {prefix_rows + 5 + size, 1, size, after.data(), 3}};
  OnBoth<std::byte> pool = elements_of(s.kv_dtype, random_values(6 * elements, 6));
  devices_.run([&](Compute& compute, auto at) {
    copy_partial_blocks(compute, {s, at(pool), sequences});
    copy_partial_blocks(compute, {s, at(pool), std::span(sequences).first(1)});
  });
  expect_same(pool);
}

// Two prompts with several parts each, one of them with more than a chunk of vector gradients.
struct PrefixBatch {
  std::vector<SequenceRows> sequences;
  std::vector<RowPlace> places;
  std::vector<int32_t> blocks = std::vector<int32_t>(kPositions, 0);  // not read

  void add(int32_t rows, int32_t first_position, int32_t prefix) {
    const auto first = static_cast<int32_t>(places.size());
    sequences.push_back({first, rows, first_position, blocks.data(), prefix});
    for (int32_t r = 0; r < rows; ++r) places.push_back({first_position + r, 0});
  }
  PrefixBatch() {
    add(70, 0, -1);
    add(50, 70, 0);
    add(90, 70, 0);
    add(3, 70, 0);
    add(9, 0, -1);
    add(4, 0, -1);
    for (int i = 0; i < 5; ++i) add(3, 4, 5);
  }
};

TEST_P(RopeTwins, GradientsGoBackThroughRotationAndNorms) {
  PrefixBatch batch;
  const auto rows = static_cast<int64_t>(batch.places.size());
  const AttentionShape s = c_.shape();
  const int64_t sum_width = 2 * s.kv_heads * s.head_dim;
  OnBoth<float> qkv(random_values(rows * c_.width(), 7)), dqkv(random_values(rows * c_.width(), 8)),
      sums(random_values(rows * sum_width, 9)), q_grad(random_values(s.head_dim, 10)),
      k_grad(random_values(s.head_dim, 11)), partial(row_sum_floats(rows, 2 * s.head_dim));
  OnBoth<std::byte> rounded = elements_to_write(s.dtype, rows * c_.width());
  devices_.run([&](Compute& compute, auto at) {
    BackwardWork work(rows, sum_width);
    work.cut(batch.sequences, at(sums));
    const HeadNorm norms = norm(at);
    const RopeBackwardArgs args{s,
                                at(dqkv),
                                batch.places.data(),
                                &table_,
                                at(rounded),
                                rows,
                                c_.normed() ? &norms : nullptr,
                                c_.normed() ? at(qkv) : nullptr,
                                nullptr};
    rope_rows_backward(compute,
                       {args, work, at(q_grad), c_.normed() ? nullptr : at(k_grad), at(partial)});
  });
  expect_near(dqkv, {2e-5, 1e-5});
  expect_near(s.dtype, rounded, {2e-5, 1e-5});
  // Every row and head of up to six: 67 + 64 * 5 roundings of sums below 256.
  expect_near(q_grad, {390 * 256.0 / (1 << 24), 0});
  expect_same(k_grad);
}

// Both weights' gradients, and none.
class HeadNormTwins : public RopeTwins {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, HeadNormTwins,
    ::testing::Values(Case{5, 1, 24, 16, Dtype::kF32, Dtype::kF32, Extra::kNorm},
                      Case{2, 2, 64, 16, Dtype::kBf16, Dtype::kBf16, Extra::kNormMinusOne}),
    name_of);

TEST_P(HeadNormTwins, GradientsOfHeadNormsAreThoseAskedFor) {
  const std::vector<RowPlace> places = consecutive(21, 16, c_.block_size);
  const auto rows = static_cast<int64_t>(places.size());
  const AttentionShape s = c_.shape();
  const std::vector<int32_t> blocks(kPositions, 0);
  const std::vector<SequenceRows> sequences = {{0, static_cast<int32_t>(rows), 0, blocks.data()}};
  OnBoth<float> qkv(random_values(rows * c_.width(), 7)), sums(int64_t{0}),
      k_grad(random_values(s.head_dim, 11)), partial(row_sum_floats(rows, 2 * s.head_dim));
  for (const bool asked : {false, true}) {
    OnBoth<float> dqkv(random_values(rows * c_.width(), 8));
    OnBoth<std::byte> rounded = elements_to_write(s.dtype, rows * c_.width());
    devices_.run([&](Compute& compute, auto at) {
      BackwardWork work(rows, 2 * s.kv_heads * s.head_dim);
      work.cut(sequences, at(sums));
      const HeadNorm norms = norm(at);
      const RopeBackwardArgs args{s,    at(dqkv), places.data(), &table_, at(rounded),
                                  rows, &norms,   at(qkv),       nullptr};
      rope_rows_backward(compute, {args, work, nullptr, asked ? at(k_grad) : nullptr, at(partial)});
    });
    expect_near(dqkv, {2e-5, 1e-5});
    if (!asked) expect_same(k_grad);
  }
  expect_near(k_grad, {64 * 64.0 / (1 << 24), 0});
}

}  // namespace
}  // namespace rl::testing

// Products and what follows them, on the GPU against the reference device.
//
// Tolerance: products of up to 200 terms of magnitude 1 have errors of at most 200 2^-24 times the
// sum of the magnitudes, 130 or so: 2e-3; what is seen is 2e-5 at most. Rounded gates may move by a
// step of bf16, which moves h by as much.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cuda/device_data.h"

namespace rl::testing {
namespace {

constexpr Tolerance kTolerance{1e-4, 1e-5};

class Projections : public ::testing::TestWithParam<Dtype> {
 protected:
  // W as the same bytes on both devices.
  struct Weight {
    PackedShape shape;
    OnBoth<std::byte> bytes;
    template <typename At>
    PackedMatrix at(const At& side) {
      PackedMatrix out;
      out.bind(shape, side(bytes));
      return out;
    }
  };
  Weight weight(int64_t n, int64_t k, unsigned seed, const SliceCut& cut = {}) const {
    const PackedShape shape = devices_.gpu_device().plan_packed({k, n, cut}, dtype_);
    std::vector<std::byte> bytes = as_dtype(random_values(n * k, seed), dtype_);
    bytes.resize(shape.bytes);
    return {shape, OnBoth<std::byte>(std::move(bytes))};
  }
  OnBoth<std::byte> input(int64_t rows, int64_t k, unsigned seed) const {
    return elements_of(dtype_, random_values(rows * k, seed));
  }

  const Dtype dtype_ = GetParam();
  TwoDevices devices_{dtype_};
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Projections, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(Projections, AProductIsStored) {
  for (const auto& [rows, n, k] :
       {std::array<int64_t, 3>{1, 48, 40}, {19, 70, 96}, {70, 33, 200}, {300, 8, 200}}) {
    Weight w = weight(n, k, 1);
    OnBoth<std::byte> x = input(rows, k, 2);
    OnBoth<float> y(rows * n);
    devices_.run([&, rows = rows](Compute& compute, auto at) {
      project(compute, {w.at(at), at(x), rows, at(y)});
    });
    expect_near(y, kTolerance);
  }
}

struct ResidualCase {
  bool sandwich, in_place, then;
};

TEST_P(Projections, AResidualGetsTheProductOrItsNorm) {
  constexpr int64_t kRows = 21, kHidden = 72, kInner = 56;
  Weight w = weight(kHidden, kInner, 3);
  OnBoth<std::byte> x = input(kRows, kInner, 4);
  OnBoth<float> product_norm(random_values(kHidden, 5)), next_norm(random_values(kHidden, 6));
  for (const ResidualCase& c : {ResidualCase{false, false, true}, ResidualCase{false, true, true},
                                ResidualCase{true, true, true}, ResidualCase{true, false, false}}) {
    OnBoth<float> residual(random_values(kRows * kHidden, 7)), sum(kRows * kHidden),
        product(kRows * kHidden);
    OnBoth<std::byte> y = elements_to_write(dtype_, kRows * kHidden);
    OnBoth<float>& to = c.in_place ? residual : sum;
    devices_.run([&](Compute& compute, auto at) {
      const RowNorm own{c.sandwich ? at(product_norm) : nullptr, 1e-6f, NormWeight::kMinusOne};
      const RowNorm next{c.then ? at(next_norm) : nullptr, 1e-5f, NormWeight::kPlain};
      // The reference norms always.
      const RowNorm of_reference{at(next_norm), 1e-5f, NormWeight::kPlain};
      const bool gpu = &compute == &devices_.gpu();
      project_residual(compute,
                       {.w = w.at(at),
                        .x = at(x),
                        .rows = kRows,
                        .residual = at(residual),
                        .sum = at(to),
                        .norm = own,
                        .product = c.sandwich ? at(product) : nullptr,
                        .then = {gpu ? next : of_reference, c.then || !gpu ? at(y) : nullptr},
                        .next = nullptr});
    });
    expect_near(to, kTolerance);
    if (c.sandwich) expect_near(product, kTolerance);
    if (c.then) expect_near(dtype_, y, kTolerance);
  }
}

TEST_P(Projections, AResidualGetsAProductThatIsThere) {
  constexpr int64_t kRows = 21, kHidden = 72;
  OnBoth<float> product(random_values(kRows * kHidden, 21));
  OnBoth<float> product_norm(random_values(kHidden, 22)), next_norm(random_values(kHidden, 23));
  for (const bool sandwich : {false, true}) {
    OnBoth<float> residual(random_values(kRows * kHidden, 24)), sum(kRows * kHidden);
    OnBoth<std::byte> y = elements_to_write(dtype_, kRows * kHidden);
    devices_.run([&](Compute& compute, auto at) {
      const RowNorm own{sandwich ? at(product_norm) : nullptr, 1e-6f, NormWeight::kMinusOne};
      add_residual(compute, {.product = at(product),
                             .rows = kRows,
                             .hidden = kHidden,
                             .residual = at(residual),
                             .sum = at(sum),
                             .norm = own,
                             .then = {{at(next_norm), 1e-5f, NormWeight::kPlain}, at(y)}});
    });
    expect_near(sum, kTolerance);
    expect_near(dtype_, y, kTolerance);
  }
}

TEST_P(Projections, GatesAreRoundedKeptAndApplied) {
  constexpr int64_t kRows = 18, kFfn = 48, kInner = 72;
  Weight w = weight(2 * kFfn, kInner, 8, {2, 16});
  OnBoth<std::byte> x = elements_of(dtype_, random_values(kRows * kInner, 9, 0.2f));
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    OnBoth<std::byte> h = elements_to_write(dtype_, kRows * kFfn),
                      again = elements_to_write(dtype_, kRows * kFfn),
                      gate_up = elements_to_write(dtype_, 2 * kRows * kFfn);
    devices_.run([&](Compute& compute, auto at) {
      project_gated(compute, {w.at(at), at(x), kRows, at(h), at(gate_up), activation, nullptr});
      project_gated(compute, {w.at(at), at(x), kRows, at(again), nullptr, activation, nullptr});
    });
    expect_near(dtype_, gate_up, kTolerance);
    // Both factors may be a step off.
    expect_near(dtype_, h, {1e-4, dtype_ == Dtype::kBf16 ? 3 * kBf16Step : 1e-4});
    EXPECT_EQ(again.read_device(), h.read_device());
  }
}

TEST_P(Projections, GradientsGoBackThroughTheGate) {
  constexpr int64_t kRows = 18, kFfn = 40, kHidden = 56;
  Weight w = weight(kFfn, kHidden, 10);
  OnBoth<std::byte> dy = input(kRows, kHidden, 11), gate_up = input(kRows, 2 * kFfn, 12),
                    d = elements_to_write(dtype_, 2 * kRows * kFfn),
                    h = elements_to_write(dtype_, kRows * kFfn),
                    again = elements_to_write(dtype_, kRows * kFfn);
  devices_.run([&](Compute& compute, auto at) {
    project_gated_backward(compute,
                           {w.at(at), at(dy), at(gate_up), at(d), kRows, Activation::kSilu, at(h)});
    glu_rows(compute, {at(gate_up), at(again), kRows, kFfn, Activation::kSilu});
  });
  expect_near(dtype_, d, {2e-4, 1e-4});
  EXPECT_EQ(h.read_device(), again.read_device());
}

TEST_P(Projections, AWeightGradientTakesSomeColumnsOfItsOutput) {
  constexpr int64_t kRows = 40, kN = 24, kStride = 72, kK = 56;
  const int64_t room = padded_gradient_rows(kRows);
  OnBoth<std::byte> dy = input(room, kStride, 13), x = input(room, kK, 14);
  OnBoth<float> grad(random_values(kN * kK, 15)), of_all(random_values(kStride * kK, 16));
  const int64_t skip = 2 * kN * static_cast<int64_t>(dtype_bytes(dtype_));
  devices_.run([&](Compute& compute, auto at) {
    prepare_gradient(compute, {kN, kK, kStride});
    weight_gradient(compute, {at(dy) + skip, kN, at(x), kK, kRows, at(grad), kStride});
    weight_gradient(compute, {at(dy), kStride, at(x), kK, kRows, at(of_all), 0});
  });
  expect_near(grad, kTolerance);
  expect_near(of_all, kTolerance);
}

// q, k and v of some rows, with bias, in all three forms.
class QkvProjections : public Projections {
 protected:
  static constexpr int64_t kInner = 72, kBlocks = 20, kAllRows = 300;
  const AttentionShape shape_{2, 1, 16, 16, dtype_};
  const int64_t width_ = 4 * 16;
  const RopeTable table_ = make_rope_table(16, 64, {.theta = 1e4});

  struct Result {
    OnBoth<float> qkv;
    OnBoth<std::byte> q, pool;
  };
  Result result(int64_t rows) const {
    const int64_t pool = kBlocks * static_cast<int64_t>(shape_.block_bytes());
    return {OnBoth<float>(rows * width_),
            elements_to_write(dtype_, rows * shape_.heads * shape_.padded_dim()),
            OnBoth<std::byte>(std::vector<std::byte>(static_cast<size_t>(pool)))};
  }
  static std::vector<RowPlace> places(int64_t rows) {
    std::vector<RowPlace> out;
    for (int32_t r = 0; r < rows; ++r) out.push_back({r % 64, r / 16});
    return out;
  }
  // Rows from `first` on, of places and of an x that begins at row 0.
  struct Rows {
    int64_t first, count;
    const std::vector<RowPlace>& places;
    QkvResult form;
  };
  template <typename At>
  void project_rows(Compute& compute, const At& at, const Rows& rows, Result& to) {
    project_qkv(compute, {.w = w_.at(at),
                          .x = at(x_) + rows.first * kInner * item_,
                          .result = rows.form,
                          .qkv = rows.form == QkvResult::kHeads ? nullptr : at(to.qkv),
                          .heads = {.shape = shape_,
                                    .qkv = rows.form == QkvResult::kHeads ? nullptr : at(to.qkv),
                                    .bias = at(bias_),
                                    .norm = nullptr,
                                    .places = rows.places.data() + rows.first,
                                    .table = &table_,
                                    .q = at(to.q),
                                    .pool = at(to.pool),
                                    .rows = rows.count},
                          .next = nullptr});
  }

  const int64_t item_ = static_cast<int64_t>(dtype_bytes(dtype_));
  Weight w_ = weight(width_, kInner, 17);
  OnBoth<std::byte> x_ = input(kAllRows, kInner, 18);
  OnBoth<float> bias_{random_values(width_, 19)};
};
INSTANTIATE_TEST_SUITE_P(Dtypes, QkvProjections, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(QkvProjections, HeadsAndProjectionMatchTheReference) {
  const std::vector<RowPlace> at_places = places(40);
  for (const QkvResult form : {QkvResult::kHeads, QkvResult::kProjection, QkvResult::kBoth}) {
    Result to = result(40);
    devices_.run([&](Compute& compute, auto at) {
      project_rows(compute, at, {0, 40, at_places, form}, to);
    });
    if (form != QkvResult::kHeads) expect_near(to.qkv, kTolerance);
    if (form == QkvResult::kProjection) continue;
    expect_near(dtype_, to.q, kTolerance);
    expect_near(dtype_, to.pool, kTolerance);
  }
}

// N1: one row at a time, the bits are those of all rows.
TEST_P(QkvProjections, BitsOfARowDependOnNoOtherRow) {
  const std::vector<RowPlace> at_places = places(40);
  Result all = result(40);
  Compute& gpu = devices_.gpu();
  project_rows(gpu, DeviceSide(), {0, 40, at_places, QkvResult::kBoth}, all);
  const std::vector<float> qkv = all.qkv.read_device();
  const std::vector<std::byte> q = all.q.read_device();
  for (int64_t row = 0; row < 40; row += 3) {
    Result one = result(1);
    project_rows(gpu, DeviceSide(), {row, 1, at_places, QkvResult::kBoth}, one);
    const std::vector<float> own = one.qkv.read_device();
    const std::vector<std::byte> own_q = one.q.read_device();
    EXPECT_TRUE(std::equal(own.begin(), own.end(), qkv.begin() + row * width_)) << row;
    EXPECT_TRUE(std::equal(own_q.begin(), own_q.end(),
                           q.begin() + row * static_cast<int64_t>(own_q.size())))
        << row;
  }
}

// A product that does not fit into scratch is taken in parts, with the same bits. There is room
// enough to check the order of the product.
TEST_P(QkvProjections, LittleScratchChangesNoBit) {
  constexpr int64_t kRows = kAllRows;
  TwoDevices little(dtype_, {.scratch_bytes = 96 << 10, .staging_bytes = 1 << 20});
  const std::vector<RowPlace> at_places = places(kRows);
  Result all = result(kRows), parts = result(kRows);
  project_rows(devices_.gpu(), DeviceSide(), {0, kRows, at_places, QkvResult::kHeads}, all);
  project_rows(little.gpu(), DeviceSide(), {0, kRows, at_places, QkvResult::kHeads}, parts);
  EXPECT_EQ(parts.q.read_device(), all.q.read_device());
  EXPECT_EQ(parts.pool.read_device(), all.pool.read_device());
}

}  // namespace
}  // namespace rl::testing

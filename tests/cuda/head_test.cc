// From hidden states to log-probs and back, on the GPU against the reference device, whose sums are
// in double.
//
// Tolerance: a logit is a product of 40 terms of magnitude 1; its error of about 2e-5 at most goes
// into every statistic. Sums of 512 exponentials in fp32 add relative errors of some 1e-6.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/device_data.h"
#include "ops/cuda/cuda_compute.h"

namespace rl::testing {
namespace {

constexpr Tolerance kTolerance{5e-5, 1e-5};

// Records as the floats they consist of.
template <typename T>
std::vector<float> fields_of(const std::vector<T>& records) {
  const auto* first = reinterpret_cast<const float*>(records.data());
  return {first, first + records.size() * (sizeof(T) / sizeof(float))};
}

struct Shape {
  int64_t rows, hidden, vocab;
};

class Head : public ::testing::TestWithParam<Dtype> {
 protected:
  static constexpr int64_t kTile = 512;

  // Logits and what is measured of them.
  struct Logits {
    explicit Logits(const Shape& s)
        : z(s.rows * s.vocab), tiles(s.rows * ((s.vocab + kTile - 1) / kTile)), stats(s.rows) {}
    OnBoth<float> z;
    OnBoth<TileStats> tiles;
    OnBoth<RowStats> stats;
  };
  static std::vector<float> temperatures(int64_t rows) {
    std::vector<float> out;
    for (int64_t r = 0; r < rows; ++r)
      out.push_back(1 / (0.5f + 0.25f * static_cast<float>(r % 5)));
    return out;
  }
  static std::vector<int32_t> some_ids(const Shape& s) {
    std::vector<int32_t> out;
    for (int64_t r = 0; r < s.rows; ++r) out.push_back(static_cast<int32_t>(r * 7919 % s.vocab));
    return out;
  }
  // Logits of both devices from one input.
  void measure(const Shape& s, unsigned seed, Logits& to) {
    const PackedShape shape =
        devices_.gpu_device().plan_packed({s.hidden, s.vocab, {}, kTile}, dtype_);
    std::vector<std::byte> bytes = as_dtype(random_values(s.vocab * s.hidden, seed), dtype_);
    bytes.resize(shape.bytes);
    OnBoth<std::byte> w(std::move(bytes)),
        x = elements_of(dtype_, random_values(s.rows * s.hidden, seed + 1, 0.5f));
    const std::vector<float> inv = temperatures(s.rows);
    devices_.run([&](Compute& compute, auto at) {
      PackedMatrix matrix;
      matrix.bind(shape, at(w));
      head_logits(compute, {matrix, at(x), inv, at(to.z), at(to.tiles), at(to.stats)});
    });
    cuda::cuda_of(devices_.gpu()).wait();  // before the inputs are freed
  }

  const Dtype dtype_ = GetParam();
  TwoDevices devices_{dtype_};
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Head, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(Head, LogitsAndStatisticsMatchTheReference) {
  for (const Shape& s : {Shape{1, 40, 100}, Shape{5, 33, 512}, Shape{3, 40, 513},
                         Shape{2, 24, 1537}, Shape{1, 8, 40 * 512 + 3}}) {
    Logits logits(s);
    measure(s, 1, logits);
    expect_near(logits.z, kTolerance);
    expect_near(fields_of(logits.tiles.read_device()), fields_of(logits.tiles.host()),
                {3e-4, 1e-4});
    expect_near(fields_of(logits.stats.read_device()), fields_of(logits.stats.host()),
                {3e-4, 1e-4});
  }
}

// Of tiles that came from elsewhere, as of those that were measured here.
TEST_P(Head, TilesAreCombinedAsWhereTheyAreMeasured) {
  const Shape s{9, 8, 40 * kTile - 100};
  Logits logits(s);
  measure(s, 8, logits);
  const int64_t count = logits.tiles.count() / s.rows;
  OnBoth<TileStats> tiles(logits.tiles.read_device());
  OnBoth<RowStats> stats(s.rows);
  devices_.run([&](Compute& compute, auto at) {
    combine_tiles(compute, {at(tiles), at(stats), s.rows, count});
    combine_tiles(compute, {at(tiles), at(stats), 0, count});
  });
  EXPECT_EQ(fields_of(stats.read_device()), fields_of(logits.stats.read_device()));
  expect_near(fields_of(stats.read_device()), fields_of(stats.host()), {1e-6, 1e-6});
}

// So ranks that divide a vocabulary have the logits of one rank with as many parts.
TEST_P(Head, APartHasTheBitsOfAHeadOfItsOwn) {
  const Shape all{37, 40, 3 * kTile - 100};
  const std::vector<int64_t> parts = {0, kTile, all.vocab};
  const DeviceArray<std::byte> w{
      std::span<const std::byte>(as_dtype(random_values(all.vocab * all.hidden, 5), dtype_))},
      x{std::span<const std::byte>(as_dtype(random_values(all.rows * all.hidden, 6), dtype_))};
  const std::vector<float> inv = temperatures(all.rows);
  // The logits of columns [first, end) of w.
  const auto logits = [&](int64_t first, int64_t end, std::span<const int64_t> bounds) {
    const PackedShape shape =
        devices_.gpu_device().plan_packed({all.hidden, end - first, {}, kTile}, dtype_);
    PackedMatrix matrix;
    matrix.bind(shape, w.data() + first * all.hidden * static_cast<int64_t>(dtype_bytes(dtype_)));
    DeviceArray<float> z(all.rows * (end - first));
    DeviceArray<TileStats> tiles(all.rows * shape.slices.count());
    DeviceArray<RowStats> stats(all.rows);
    head_logits(devices_.gpu(),
                {matrix, x.data(), inv, z.data(), tiles.data(), stats.data(), bounds});
    return z.read();
  };
  const std::vector<float> together = logits(0, all.vocab, parts);
  for (size_t p = 0; p + 1 < parts.size(); ++p) {
    const int64_t first = parts[p], n = parts[p + 1] - first;
    const std::vector<float> alone = logits(first, parts[p + 1], {});
    for (int64_t row = 0; row < all.rows; ++row) {
      EXPECT_TRUE(std::equal(alone.begin() + row * n, alone.begin() + (row + 1) * n,
                             together.begin() + row * all.vocab + first))
          << "part " << p << ", row " << row;
    }
  }
}

// N1 and N2: a row alone and among others, and its log-prob in any batch.
TEST_P(Head, BitsOfARowDependOnNoOtherRow) {
  const Shape all{37, 40, 700};
  const PackedShape shape =
      devices_.gpu_device().plan_packed({all.hidden, all.vocab, {}, kTile}, dtype_);
  std::vector<std::byte> bytes = as_dtype(random_values(all.vocab * all.hidden, 3), dtype_);
  bytes.resize(shape.bytes);
  const DeviceArray<std::byte> w{std::span<const std::byte>(bytes)},
      x{std::span<const std::byte>(as_dtype(random_values(all.rows * all.hidden, 4), dtype_))};
  const std::vector<float> inv = temperatures(all.rows);
  const std::vector<int32_t> ids = some_ids(all);
  PackedMatrix matrix;
  matrix.bind(shape, w.data());
  struct Row {
    std::vector<float> z, logprobs, entropies;
  };
  const auto run = [&](int64_t first, int64_t rows) {
    DeviceArray<float> z(rows * all.vocab);
    DeviceArray<TileStats> tiles(rows * 2);
    DeviceArray<RowStats> stats(rows);
    const std::byte* from =
        x.data() + first * all.hidden * static_cast<int64_t>(dtype_bytes(dtype_));
    const auto of_rows = [&](const auto& values) {
      return std::span(values).subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
    };
    head_logits(devices_.gpu(), {matrix, from, of_rows(inv), z.data(), tiles.data(), stats.data()});
    Row out;
    out.logprobs.resize(static_cast<size_t>(rows));
    out.entropies.resize(static_cast<size_t>(rows));
    head_logprobs(devices_.gpu(),
                  {z.data(), stats.data(), all.vocab, of_rows(ids), out.logprobs, out.entropies});
    out.z = z.read();
    return out;
  };
  const Row together = run(0, all.rows);
  for (int64_t first = 0; first < all.rows; first += 5) {
    const int64_t rows = std::min<int64_t>(1 + first % 3, all.rows - first);
    const Row some = run(first, rows);
    EXPECT_TRUE(std::equal(some.z.begin(), some.z.end(), together.z.begin() + first * all.vocab));
    EXPECT_TRUE(
        std::equal(some.logprobs.begin(), some.logprobs.end(), together.logprobs.begin() + first));
    EXPECT_TRUE(std::equal(some.entropies.begin(), some.entropies.end(),
                           together.entropies.begin() + first));
  }
}

TEST_P(Head, LogprobsAreTheTwoDifferencesInFp32) {
  const Shape s{6, 24, 600};
  Logits logits(s);
  measure(s, 5, logits);
  const std::vector<int32_t> ids = some_ids(s);
  std::vector<float> logprobs(6), entropies(6), without(6);
  head_logprobs(devices_.gpu(), {logits.z.on_device(), logits.stats.on_device(), s.vocab, ids,
                                 logprobs, entropies});
  head_logprobs(devices_.gpu(),
                {logits.z.on_device(), logits.stats.on_device(), s.vocab, ids, without, {}});
  const std::vector<float> z = logits.z.read_device();
  const std::vector<RowStats> stats = logits.stats.read_device();
  for (size_t r = 0; r < ids.size(); ++r) {
    EXPECT_EQ(logprobs[r], log_prob(z[r * 600 + static_cast<size_t>(ids[r])], stats[r]));
    EXPECT_EQ(entropies[r], stats[r].entropy);
  }
  EXPECT_EQ(without, logprobs);
}

TEST_P(Head, ARowWithNanIsNotFinite) {
  const Shape s{3, 8, 600};
  std::vector<float> x = random_values(s.rows * s.hidden, 6);
  x[8 + 3] = std::numeric_limits<float>::quiet_NaN();
  const PackedShape shape =
      devices_.gpu_device().plan_packed({s.hidden, s.vocab, {}, kTile}, dtype_);
  std::vector<std::byte> bytes = as_dtype(random_values(s.vocab * s.hidden, 7), dtype_);
  bytes.resize(shape.bytes);
  const DeviceArray<std::byte> w{std::span<const std::byte>(bytes)},
      input{std::span<const std::byte>(as_dtype(x, dtype_))};
  PackedMatrix matrix;
  matrix.bind(shape, w.data());
  DeviceArray<float> z(s.rows * s.vocab);
  DeviceArray<TileStats> tiles(s.rows * 2);
  DeviceArray<RowStats> stats(s.rows);
  head_logits(devices_.gpu(), {matrix, input.data(), std::vector<float>{1, 1, 1}, z.data(),
                               tiles.data(), stats.data()});
  const std::vector<RowStats> got = stats.read();
  EXPECT_TRUE(std::isfinite(got[0].log_sum));
  EXPECT_TRUE(std::isnan(got[1].log_sum));
  EXPECT_TRUE(std::isfinite(got[2].log_sum));
}

// Statistics and logits are the same numbers on both devices, so only the gradient's own roundings
// differ.
TEST_P(Head, GradientsOfLogitsMatchTheReference) {
  const Shape s{5, 16, 1100};
  Logits logits(s);
  measure(s, 8, logits);
  logits.z.write(logits.z.read_device());
  logits.stats.write(logits.stats.read_device());
  const std::vector<int32_t> ids = some_ids(s);
  const std::vector<float> d_logprob = random_values(s.rows, 9),
                           d_entropy = random_values(s.rows, 10), inv = temperatures(s.rows);
  OnBoth<float> more(random_values(s.rows * s.vocab, 11, 0.1f));
  for (const bool with_more : {false, true}) {
    OnBoth<std::byte> d = elements_to_write(dtype_, s.rows * s.vocab);
    devices_.run([&](Compute& compute, auto at) {
      head_logits_backward(compute, {at(logits.z), at(logits.stats), s.vocab, ids, d_logprob,
                                     d_entropy, inv, with_more ? at(more) : nullptr, at(d)});
    });
    expect_near(dtype_, d, {2e-6, 1e-4});
  }
}

// A part begins and ends anywhere; ids are before it, in it and behind it.
TEST_P(Head, GradientsOfSomeLogitsAreThoseOfAll) {
  const Shape s{5, 16, 1100};
  constexpr int64_t kFirst = 300, kTokens = 401;
  Logits logits(s);
  measure(s, 8, logits);
  const std::vector<int32_t> ids{0, 299, 300, 700, 1099};
  const std::vector<float> d_logprob = random_values(s.rows, 9),
                           d_entropy = random_values(s.rows, 10), inv = temperatures(s.rows);
  OnBoth<float> more(random_values(s.rows * s.vocab, 11, 0.1f));
  OnBoth<std::byte> all = elements_to_write(dtype_, s.rows * s.vocab),
                    some = elements_to_write(dtype_, s.rows * kTokens);
  devices_.run([&](Compute& compute, auto at) {
    head_logits_backward(compute, {at(logits.z), at(logits.stats), s.vocab, ids, d_logprob,
                                   d_entropy, inv, at(more), at(all)});
    head_logits_backward(compute, {at(logits.z), at(logits.stats), s.vocab, ids, d_logprob,
                                   d_entropy, inv, at(more), at(some), kFirst, kTokens});
  });
  const auto item = static_cast<int64_t>(dtype_bytes(dtype_));
  for (const auto& [whole, part] :
       {std::pair{all.host(), some.host()}, std::pair{all.read_device(), some.read_device()}}) {
    for (int64_t r = 0; r < s.rows; ++r)
      EXPECT_EQ(std::memcmp(whole.data() + (r * s.vocab + kFirst) * item,
                            part.data() + r * kTokens * item, kTokens * item),
                0)
          << r;
  }
}

struct DistillCase {
  DistillParams params;
  const char* name;
};

TEST_P(Head, DivergencesMatchTheReference) {
  const Shape s{4, 16, 1100};
  Logits student(s), teacher(s);
  measure(s, 12, student);
  measure(s, 14, teacher);
  for (OnBoth<float>* z : {&student.z, &teacher.z}) z->write(z->read_device());
  for (OnBoth<RowStats>* stats : {&student.stats, &teacher.stats})
    stats->write(stats->read_device());
  const std::vector<double> weight{1, 0, 0.25, 2};
  const std::vector<float> of_teacher = teacher.z.host();
  for (const DistillParams& params :
       {DistillParams{DistillKl::kForward}, DistillParams{DistillKl::kReverse},
        DistillParams{DistillKl::kMixed, 0.3}, DistillParams{DistillKl::kMixed, 0.5}}) {
    teacher.z.write(of_teacher);
    std::vector<double> got(4), want(4);
    devices_.run([&](Compute& compute, auto at) {
      distill_rows(compute,
                   {params, 0.7, weight, s.vocab, at(student.z), at(student.stats), at(teacher.z),
                    at(teacher.stats), &compute == &devices_.gpu() ? got : want});
    });
    // Sums in double in another order; exponentials and logarithms within 2^-52.
    for (size_t r = 0; r < 4; ++r) EXPECT_NEAR(got[r], want[r], 1e-12 * (1 + std::abs(want[r])));
    EXPECT_EQ(got[1], 0);
    expect_near(teacher.z, {1e-12, 1e-6});
  }
}

TEST_P(Head, EqualRowsDivergeByNothing) {
  const Shape s{2, 8, 600};
  Logits logits(s);
  measure(s, 16, logits);
  const std::vector<double> weight{1, 1};
  for (const DistillKl kind : {DistillKl::kForward, DistillKl::kReverse, DistillKl::kMixed}) {
    const DeviceArray<float> teacher{std::span<const float>(logits.z.read_device())};
    std::vector<double> value(2, -1);
    distill_rows(devices_.gpu(),
                 {DistillParams{kind}, 1, weight, s.vocab, logits.z.on_device(),
                  logits.stats.on_device(), teacher.data(), logits.stats.on_device(), value});
    EXPECT_EQ(value, std::vector<double>(2, 0));
    for (const float d : teacher.read()) ASSERT_EQ(d, 0);
  }
}

}  // namespace
}  // namespace rl::testing

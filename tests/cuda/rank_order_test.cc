// Sums over ranks on the GPU have the bits of those on the host.
#include "comm/rank_order.h"

#include <gtest/gtest.h>

#include <limits>

#include "comm/collective_checks.h"
#include "cuda/device_data.h"
#include "ops/cuda/kernels/rows/rank_order_kernels.h"

namespace rl::testing {
namespace {

constexpr int64_t kSlot = 3001;  // values from one rank's to the next's
constexpr uint64_t kValues = 2500;

template <typename T>
void expect_host_bits(int rank, int size, bool largest, const std::vector<std::vector<T>>& ranks) {
  std::vector<T> want = ranks[static_cast<size_t>(rank)], slots;
  std::vector<const std::byte*> parts;
  for (int r = 0; r < size; ++r) {
    const std::vector<T>& values = ranks[static_cast<size_t>(r)];
    parts.push_back(reinterpret_cast<const std::byte*>(values.data()));
    if (r == rank) continue;
    slots.insert(slots.end(), values.begin(), values.end());
    slots.resize(slots.size() + static_cast<size_t>(kSlot) - values.size());
  }
  reduce_in_rank_order(largest ? Reduction::kMax : Reduction::kSum, parts, of(want));

  slots.resize(std::max<size_t>(1, slots.size()));
  const DeviceArray<T> others{std::span<const T>(slots)};
  const DeviceArray<T> own{std::span<const T>(ranks[static_cast<size_t>(rank)])};
  const cuda::Stream stream(0);
  if constexpr (std::is_same_v<T, int32_t>) {
    cuda::reduce_words(stream.get(),
                       {others.data(), kSlot, own.data(), rank, size, largest, own.count()});
  } else {
    const Dtype dtype = std::is_same_v<T, float> ? Dtype::kF32 : Dtype::kBf16;
    cuda::reduce_ranks(stream.get(),
                       {others.data(), kSlot, own.data(), dtype, rank, size, largest, own.count()});
  }
  stream.wait();
  EXPECT_TRUE(same_bits(own.read(), want)) << "rank " << rank << " of " << size;
}

template <typename T>
void expect_host_bits_everywhere() {
  for (int size = 1; size <= 5; ++size) {
    std::vector<std::vector<T>> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back(values_at<T>(r, kValues));
    for (int rank = 0; rank < size; ++rank) {
      for (const bool largest : {false, true}) expect_host_bits(rank, size, largest, ranks);
    }
  }
}

TEST(RankOrder, SumsOfFp32HaveTheBitsOfTheHost) { expect_host_bits_everywhere<float>(); }
TEST(RankOrder, SumsOfBf16HaveTheBitsOfTheHost) { expect_host_bits_everywhere<bf16>(); }
TEST(RankOrder, SumsOfInt32HaveTheBitsOfTheHost) { expect_host_bits_everywhere<int32_t>(); }

TEST(RankOrder, SumsOfInt32WrapAround) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  for (int rank = 0; rank < 2; ++rank)
    expect_host_bits<int32_t>(rank, 2, false, {{most, -most, 7}, {1, -2, -most}});
}

TEST(RankOrder, TheLargestOfNumbersAndNanIsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> ranks = {
      {1, nan, -2, -0.0f, 3}, {nan, 5, -3, 0.0f, 4}, {2, 6, -1, -0.0f, nan}};
  for (int rank = 0; rank < 3; ++rank) expect_host_bits(rank, 3, true, ranks);
}

TEST(RankOrder, NoValuesAreNoWork) {
  const cuda::Stream stream(0);
  cuda::reduce_ranks(stream.get(), {nullptr, 0, nullptr, Dtype::kF32, 0, 2, false, 0});
  cuda::reduce_words(stream.get(), {nullptr, 0, nullptr, 0, 2, false, 0});
  stream.wait();
}

}  // namespace
}  // namespace rl::testing

// Sums over groups of ranks have the bits of those over one group of all, and move the bytes of
// their formula.
#include "comm/grouped_sum.h"

#include <chrono>

#include "comm/device_arrays.h"
#include "comm/local_ranks.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::GroupedSum;

constexpr uint64_t kChunk = 256;  // bytes: sums of these tests take several

struct Sizes {
  int group, groups;
};
constexpr Sizes kSizes[] = {{2, 2}, {2, 4}, {3, 2}, {4, 2}, {1, 3}, {3, 1}};

// Two tensor-parallel ranks, if so many are asked for, sum with two sets of partners.
Mesh mesh_of(Sizes sizes, int rank, int tensor = 1) {
  return Mesh({.tensor = tensor, .context = sizes.group, .data = sizes.groups},
              sizes.group * sizes.groups * tensor, rank);
}

void on_groups(const Backend& backend, Sizes sizes,
               const std::function<void(GroupedSum&, int rank)>& body) {
  run_ranks(backend, sizes.group * sizes.groups, [&](std::shared_ptr<Transport> transport) {
    const int rank = transport->rank();
    GroupedSum sums(transport, mesh_of(sizes, rank), {kLongNs, kChunk});
    EXPECT_EQ(sums.group() * sums.size() + sums.rank(), rank);
    body(sums, rank);
  });
}

// Two of different sizes; more are empty.
Pieces uneven_pieces(uint64_t count, int parts) {
  Pieces out{{0}};
  if (parts > 1) out.bounds.push_back(count * 2 / 5);
  while (out.parts() < parts) out.bounds.push_back(count);
  return out;
}

template <typename T>
std::vector<T> sums_of(int ranks, uint64_t count) {
  std::vector<T> out(count);
  for (uint64_t i = 0; i < count; ++i) out[i] = sum_at<T>(ranks, i);
  return out;
}

template <typename T>
void expect_own_sums(const std::vector<T>& values, const std::vector<T>& sums, Piece own) {
  const auto part = [&](const std::vector<T>& of) {
    return std::vector<T>(of.begin() + static_cast<std::ptrdiff_t>(own.begin),
                          of.begin() + static_cast<std::ptrdiff_t>(own.end));
  };
  EXPECT_TRUE(same_bits(part(values), part(sums)));
}

template <typename T>
class GroupedSums : public ::testing::Test {};
using Summed = ::testing::Types<float, bf16>;
TYPED_TEST_SUITE(GroupedSums, Summed);

TYPED_TEST(GroupedSums, HaveTheBitsOfOneGroup) {
  using T = TypeParam;
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    for (const Sizes sizes : kSizes) {
      for (const uint64_t count : {0u, 1u, 3u, 64u, 257u, 1000u, 3001u}) {
        SCOPED_TRACE(str(count, " values, ", sizes.groups, " groups of ", sizes.group));
        const std::vector<T> expected = sums_of<T>(sizes.group * sizes.groups, count);
        on_groups(backend, sizes, [&](GroupedSum& sums, int rank) {
          std::vector<T> all = values_at<T>(rank, count), later = all;
          sums.all_reduce(of(all));
          EXPECT_TRUE(same_bits(all, expected));
          sums.start_all_reduce(of(later)).wait();
          EXPECT_TRUE(same_bits(later, expected));
          for (const Pieces& pieces :
               {even_pieces(count, sizes.group), uneven_pieces(count, sizes.group)}) {
            std::vector<T> own = values_at<T>(rank, count);
            sums.reduce_scatter(of(own), pieces);
            expect_own_sums(own, expected, pieces[sums.rank()]);
          }
        });
      }
    }
  }
}

// The windows that values of a device pass in begin within chunks.
TYPED_TEST(GroupedSums, OfADeviceHaveTheSameBits) {
  using T = TypeParam;
  constexpr uint64_t kWindowBytes = 640;
  for (const Sizes sizes : kSizes) {
    run_ranks(copying_backend, sizes.group * sizes.groups, [&](auto transport) {
      const int rank = transport->rank();
      GroupOptions options{kLongNs, kChunk};
      options.staging =
          std::make_shared<StagedValues>(std::make_unique<ArrayCopies>(), nullptr, kWindowBytes);
      GroupedSum sums(transport, mesh_of(sizes, rank), options);
      for (const uint64_t count : {0u, 1u, 257u, 3001u}) {
        const std::vector<T> expected = sums_of<T>(sizes.group * sizes.groups, count);
        DeviceArray<T> all(values_at<T>(rank, count)), own(values_at<T>(rank, count));
        sums.all_reduce(all.values());
        EXPECT_TRUE(same_bits(all.host(), expected)) << count;
        const Pieces pieces = uneven_pieces(count, sizes.group);
        sums.start_reduce_scatter(own.values(), pieces).wait();
        expect_own_sums(own.host(), expected, pieces[sums.rank()]);
      }
    });
  }
}

// A sum that each group rounded would have other bits than one which is rounded once.
TEST(GroupedSum, TestsCouldShowARoundedSumOfAGroup) {
  int differ = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    float sum = to_float(sum_at<bf16>(2, i));
    for (int r = 2; r < 4; ++r) sum += to_float(value_at<bf16>(r, i));
    differ += to_bf16(sum).bits != sum_at<bf16>(4, i).bits;
  }
  EXPECT_GT(differ, 20);
}

// Ranks come at times of their own, with several sums under way.
TEST(GroupedSum, NeitherTimeNorOverlapMovesABit) {
  constexpr uint64_t kCount = 2000;
  const Sizes sizes{2, 3};
  const std::vector<float> expected = sums_of<float>(6, kCount);
  for (uint32_t round = 0; round < 10; ++round) {
    on_groups(round % 2 == 0 ? Backend(local_backend) : Backend(copying_backend), sizes,
              [&](GroupedSum& sums, int rank) {
                const auto word = philox4x32_10({round, static_cast<uint32_t>(rank), 4, 0}, {5, 6});
                std::vector<std::vector<float>> values(3, values_at<float>(rank, kCount));
                std::vector<StartedCall> started;
                for (std::vector<float>& each : values) {
                  std::this_thread::sleep_for(std::chrono::microseconds(word[0] % 2000));
                  started.push_back(sums.start_all_reduce(of(each)));
                }
                std::vector<float> called = values_at<float>(rank, kCount);
                sums.all_reduce(of(called));  // after those
                for (StartedCall& each : started) each.wait();
                for (const std::vector<float>& each : values)
                  EXPECT_TRUE(same_bits(each, expected));
                EXPECT_TRUE(same_bits(called, expected));
              });
  }
}

TEST(GroupedSum, OfAMeshIsThatOfItsRanks) {
  const Sizes sizes{2, 2};
  run_local_ranks(8, [&](std::shared_ptr<Transport> transport) {
    const int rank = transport->rank();
    GroupedSum sums(transport, mesh_of(sizes, rank, 2), {kLongNs, kChunk});
    std::vector<float> value{static_cast<float>(1 << rank)};
    sums.all_reduce(of(value));
    EXPECT_EQ(value[0], rank % 2 == 0 ? 0b01010101 : 0b10101010);
  });
}

template <typename T>
void expect_bytes(Sizes sizes) {
  constexpr uint64_t kCount = 1001, kWide = sizeof(float);
  on_groups(copying_backend, sizes, [&](GroupedSum& sums, int rank) {
    std::vector<T> values = values_at<T>(rank, kCount);
    const Pieces pieces = uneven_pieces(kCount, sizes.group);
    sums.start_reduce_scatter(of(values), pieces).wait();
    const uint64_t own = pieces[sums.rank()].count(), each = sizeof(T);
    const bool first = sums.group() == 0, last = sums.group() + 1 == sums.groups();
    TrafficBytes between;
    if (!last) between += {kWide * own, each * own};
    if (!first) between += {each * own, kWide * own};
    const auto others = static_cast<uint64_t>(sizes.group - 1);
    TrafficBytes all{each * (kCount - own), each * others * own};
    all += between;
    const Traffic traffic = sums.traffic();
    EXPECT_EQ(traffic.between, between);
    EXPECT_EQ(traffic.total(), all);
    EXPECT_EQ(traffic.of(TrafficUse::kGradients), all);
    EXPECT_EQ(traffic.overlapped, all);
    sums.all_reduce(of(values));
    EXPECT_EQ(sums.traffic().overlapped, all);
    EXPECT_GT((sums.traffic() - traffic).between.sent, 0u);
  });
}

TEST(GroupedSum, MovesTheBytesOfItsFormula) {
  for (const Sizes sizes : {Sizes{2, 2}, Sizes{2, 3}, Sizes{3, 2}}) {
    SCOPED_TRACE(str(sizes.groups, " groups of ", sizes.group));
    expect_bytes<float>(sizes);
    expect_bytes<bf16>(sizes);
  }
}

class SomeMemory final : public FreeMemory {
 public:
  uint64_t bytes() const override { return 12345; }
  void release_caches() override {}
};

// The last group waits for the one before it, whose rank ends. The error has the memory of the sum
// once.
TEST(GroupedSum, NamesARankThatEnds) {
  const Sizes sizes{2, 2};
  const MemoryCheck memory{std::make_shared<SomeMemory>(), 0};
  const auto thrown = try_local_ranks(4, [&](std::shared_ptr<Transport> transport) {
    const int rank = transport->rank();
    GroupedSum sums(transport, mesh_of(sizes, rank), {kLongNs, kChunk, memory});
    if (rank == 1) return;
    std::vector<float> values = values_at<float>(rank, 500);
    sums.start_all_reduce(of(values)).wait();
  });
  expect_named(thrown, 1);
  try {
    std::rethrow_exception(thrown[3]);
  } catch (const RankError& error) {
    const size_t first = error.message.find("12345 before the call");
    ASSERT_NE(first, std::string::npos) << error.message;
    EXPECT_EQ(error.message.find("12345 before the call", first + 1), std::string::npos);
  }
}

TEST(GroupedSum, IsOfNumbersInFp32OrBf16) {
  on_groups(local_backend, {1, 1}, [](GroupedSum& sums, int) {
    std::vector<int32_t> values{1, 2};
    const Error e = expect_error(Code::kUnsupported, [&] { sums.all_reduce(of(values)); });
    EXPECT_TRUE(contains(e.message, "int32")) << e.message;
  });
}

}  // namespace
}  // namespace rl

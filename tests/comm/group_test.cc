// Every collective against its definition, over local ranks.
#include "comm/group.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "comm/local_ranks.h"
#include "core/clock.h"
#include "core/rng.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::Group;

constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 64, 1000, 1025};
constexpr int kMaxRanks = 8;

// Value i of a rank: of very different sizes, so that another order of additions has other bits.
template <typename T>
T value_at(int rank, uint64_t i) {
  const PhiloxBlock r =
      philox4x32_10({static_cast<uint32_t>(i), static_cast<uint32_t>(rank), 0, 0}, {1, 2});
  const float number =
      std::ldexp(static_cast<float>(static_cast<int32_t>(r[0])), static_cast<int>(r[1] % 24) - 40);
  if constexpr (std::is_same_v<T, float>) return number;
  if constexpr (std::is_same_v<T, bf16>) return to_bf16(number);
  if constexpr (std::is_same_v<T, std::byte>) return static_cast<std::byte>(r[2]);
  if constexpr (std::is_same_v<T, int32_t>) return static_cast<int32_t>(r[2]);
  if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<int64_t>(uint64_t{r[2]} << 32 | r[3]);
}

template <typename T>
std::vector<T> values_at(int rank, uint64_t count) {
  std::vector<T> out(count);
  for (uint64_t i = 0; i < count; ++i) out[i] = value_at<T>(rank, i);
  return out;
}

template <typename T>
Values of(std::vector<T>& v) {
  return values_of(std::span<T>(v));
}
template <typename T>
ConstValues of_const(const std::vector<T>& v) {
  return const_values_of(std::span<const T>(v));
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// The definition of a sum: rank by rank, from 0 on.
template <typename T>
T sum_at(int size, uint64_t i) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>) {
    float sum = to_float(value_at<T>(0, i));
    for (int r = 1; r < size; ++r) sum += to_float(value_at<T>(r, i));
    if constexpr (std::is_same_v<T, float>) return sum;
    if constexpr (std::is_same_v<T, bf16>) return to_bf16(sum);
  } else {
    uint64_t sum = 0;
    for (int r = 0; r < size; ++r) sum += static_cast<uint64_t>(value_at<T>(r, i));
    return static_cast<T>(sum);
  }
}

template <typename T>
T max_at(int size, uint64_t i) {
  T largest = value_at<T>(0, i);
  for (int r = 1; r < size; ++r) {
    const T next = value_at<T>(r, i);
    if constexpr (std::is_same_v<T, bf16>) {
      if (to_float(next) > to_float(largest)) largest = next;
    } else if (next > largest) {
      largest = next;
    }
  }
  return largest;
}

template <typename T>
void expect_reductions(Group& group, uint64_t count) {
  std::vector<T> sums(count), largest(count);
  for (uint64_t i = 0; i < count; ++i) {
    sums[i] = sum_at<T>(group.size(), i);
    largest[i] = max_at<T>(group.size(), i);
  }
  const std::vector<T> own = values_at<T>(group.rank(), count);
  std::vector<T> values = own;
  group.all_reduce(of(values));
  EXPECT_TRUE(same_bits(values, sums)) << element_name(kElementOf<T>) << " x " << count;
  values = own;
  group.all_reduce(of(values), Reduction::kMax);
  EXPECT_TRUE(same_bits(values, largest)) << element_name(kElementOf<T>) << " x " << count;

  values = own;
  group.reduce_scatter(of(values));
  std::vector<T> expected = own;
  const Piece piece = group.own_piece(count);
  for (uint64_t i = piece.begin; i < piece.end; ++i) expected[i] = sums[i];
  EXPECT_TRUE(same_bits(values, expected)) << element_name(kElementOf<T>) << " x " << count;
}

template <typename T>
void expect_moves(Group& group, uint64_t count) {
  std::vector<T> values = values_at<T>(group.rank(), count), expected(count);
  for (int r = 0; r < group.size(); ++r) {
    const Piece piece = piece_of(count, r, group.size());
    for (uint64_t i = piece.begin; i < piece.end; ++i) expected[i] = value_at<T>(r, i);
  }
  group.all_gather(of(values));
  EXPECT_TRUE(same_bits(values, expected));

  for (int root = 0; root < group.size(); ++root) {
    values = values_at<T>(group.rank(), count);
    group.broadcast(of(values), root);
    EXPECT_TRUE(same_bits(values, values_at<T>(root, count)));
  }

  const uint64_t all = count * static_cast<uint64_t>(group.size());
  const std::vector<T> from = values_at<T>(group.rank(), all);
  std::vector<T> to(all), exchanged;
  group.all_to_all(of_const(from), of(to));
  for (int r = 0; r < group.size(); ++r) {
    const uint64_t begin = count * static_cast<uint64_t>(group.rank());
    for (uint64_t i = begin; i < begin + count; ++i) exchanged.push_back(value_at<T>(r, i));
  }
  EXPECT_TRUE(same_bits(to, exchanged));
}

// Each rank sends to the next; even ranks send first.
template <typename T>
void expect_messages(Group& group, uint64_t count) {
  if (group.size() % 2 != 0) return;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const std::vector<T> own = values_at<T>(group.rank(), count);
  std::vector<T> got(count);
  if (group.rank() % 2 == 0) group.send(of_const(own), next);
  group.receive(of(got), previous);
  if (group.rank() % 2 == 1) group.send(of_const(own), next);
  EXPECT_TRUE(same_bits(got, values_at<T>(previous, count)));
}

template <typename T>
class Collectives : public ::testing::Test {};
using Types = ::testing::Types<float, bf16, int32_t, int64_t, std::byte>;
TYPED_TEST_SUITE(Collectives, Types);

TYPED_TEST(Collectives, DoWhatTheirDefinitionsSay) {
  const int64_t begin = real_clock().now_ns();
  for (int size = 1; size <= kMaxRanks; ++size) {
    // Small chunks, so that a reduction takes several steps.
    run_local_groups(size,
                     [](Group& group) {
                       for (const uint64_t count : kCounts) {
                         if constexpr (!std::is_same_v<TypeParam, std::byte>)
                           expect_reductions<TypeParam>(group, count);
                         expect_moves<TypeParam>(group, count);
                         expect_messages<TypeParam>(group, count);
                         group.barrier();
                       }
                     },
                     {kLongNs, 256});
  }
  EXPECT_LT(real_clock().now_ns() - begin, kLongNs / 2) << "a wake-up was lost";
}

TEST(RankOrder, AnotherOrderHasOtherBits) {
  int differ = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    float sum = value_at<float>(7, i);
    for (int r = 6; r >= 0; --r) sum += value_at<float>(r, i);
    differ += sum != sum_at<float>(8, i);
  }
  EXPECT_GT(differ, 100) << "the values of these tests could not show a wrong order";
}

TEST(RankOrder, NeitherTimeNorChunksMoveABit) {
  constexpr uint64_t kCount = 5000;
  std::vector<float> expected(kCount);
  for (uint64_t i = 0; i < kCount; ++i) expected[i] = sum_at<float>(5, i);
  for (uint32_t round = 0; round < 12; ++round) {
    const uint64_t chunk_bytes = uint64_t{8} << (2 * (round % 6));
    run_local_groups(5,
                     [&](Group& group) {
                       const auto word = philox4x32_10(
                           {round, static_cast<uint32_t>(group.rank()), 3, 0}, {5, 6});
                       std::this_thread::sleep_for(std::chrono::microseconds(word[0] % 3000));
                       std::vector<float> values = values_at<float>(group.rank(), kCount);
                       group.all_reduce(of(values));
                       EXPECT_TRUE(same_bits(values, expected)) << chunk_bytes;
                     },
                     {kLongNs, chunk_bytes});
  }
}

TEST(RankOrder, AMaximumWithANanIsNan) {
  run_local_groups(3, [](Group& group) {
    for (int with_nan = 0; with_nan < 3; ++with_nan) {
      std::vector<float> value{group.rank() == with_nan ? NAN : 1.0f};
      group.all_reduce(of(value), Reduction::kMax);
      EXPECT_TRUE(std::isnan(value[0])) << with_nan;
    }
  });
}

TEST(Piece, PiecesCoverAllValuesOnce) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{5}, uint64_t{17}, UINT64_MAX - 3}) {
    uint64_t end = 0;
    for (int i = 0; i < 8; ++i) {
      const Piece piece = piece_of(count, i, 8);
      EXPECT_EQ(piece.begin, end);
      EXPECT_LE(piece.count() - count / 8, 1u);
      end = piece.end;
    }
    EXPECT_EQ(end, count);
  }
}

TEST(GroupArguments, AreChecked) {
  run_local_groups(1, [](Group& group) {
    std::vector<float> a(3), b(4);
    std::vector<std::byte> bytes(3);
    Values away = of(a);
    away.space = MemorySpace::kDevice;
    EXPECT_TRUE(contains(expect_error(Code::kUnsupported, [&] { group.all_reduce(away); }).message,
                         "host's memory"));
    EXPECT_TRUE(contains(
        expect_error(Code::kUnsupported, [&] { group.all_reduce(of(bytes)); }).message, "bytes"));
    EXPECT_TRUE(contains(
        expect_error(Code::kInvalidArgument, [&] { group.all_to_all(of_const(a), of(b)); }).message,
        "3 fp32 to 4 fp32"));
    expect_error(Code::kInvalidArgument, [&] { group.all_to_all(of_const(a), of(a)); });
    EXPECT_TRUE(contains(
        expect_error(Code::kOutOfRange, [&] { group.broadcast(of(a), 1); }).message, "0..0"));
    expect_error(Code::kInvalidArgument, [&] { group.send(of_const(a), 0); });
    expect_error(Code::kOutOfRange, [&] { group.receive(of(a), -1); });
    expect_error(Code::kInvalidArgument, [&] { group.all_gather({nullptr, 1, Element::kF32}); });
    expect_error(Code::kInvalidArgument, [&] {
      group.all_gather({reinterpret_cast<std::byte*>(a.data()) + 1, 1, Element::kF32});
    });
  });
}

TEST(Group, GroupsOfAMeshDoNotMeet) {
  const MeshSizes sizes{.tensor = 2, .context = 1, .data = 2, .pipeline = 2};
  run_local_ranks(8, [&](std::shared_ptr<Transport> transport) {
    const Mesh mesh(sizes, 8, transport->rank());
    for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kData, Axis::kPipeline}) {
      Group group(transport, mesh, axis, {kLongNs});
      EXPECT_EQ(group.axis(), axis_name(axis));
      EXPECT_EQ(group.rank(), mesh.index(axis));
      std::vector<int32_t> bit{1 << transport->rank()};
      group.all_reduce(of(bit));
      int32_t expected = 0;
      for (const int rank : mesh.ranks(axis)) expected |= 1 << rank;
      EXPECT_EQ(bit[0], expected) << axis_name(axis);
    }
  });
}

}  // namespace
}  // namespace rl

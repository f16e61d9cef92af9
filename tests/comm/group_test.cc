// Every collective against its definition, over local ranks.
#include "comm/group.h"

#include <chrono>
#include <cmath>

#include "comm/collective_checks.h"
#include "comm/local_ranks.h"
#include "core/clock.h"
#include "core/rng.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::Group;

constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 64, 1000, 1025};
constexpr int kMaxRanks = 8;

template <typename T>
class Collectives : public ::testing::Test {};
using Types = ::testing::Types<float, bf16, int32_t, int64_t, std::byte>;
TYPED_TEST_SUITE(Collectives, Types);

TYPED_TEST(Collectives, DoWhatTheirDefinitionsSay) {
  const int64_t begin = real_clock().now_ns();
  const Backend backends[] = {local_backend, copying_backend};
  for (const Backend& backend : backends) {
    for (int size = 1; size <= kMaxRanks; ++size) {
      // Small chunks, so that a reduction with copies takes several steps.
      run_groups(backend, size,
                 [](Group& group) {
                   for (const uint64_t count : kCounts) expect_collectives<TypeParam>(group, count);
                 },
                 {kLongNs, 256});
    }
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

TEST(RankOrder, NeitherTimeNorChunksNorCopiesMoveABit) {
  constexpr uint64_t kCount = 5000;
  std::vector<float> expected(kCount);
  for (uint64_t i = 0; i < kCount; ++i) expected[i] = sum_at<float>(5, i);
  for (uint32_t round = 0; round < 12; ++round) {
    const uint64_t chunk_bytes = uint64_t{8} << (2 * (round % 6));
    run_groups(round % 4 == 3 ? Backend(local_backend) : copying_backend, 5,
               [&](Group& group) {
                 const auto word =
                     philox4x32_10({round, static_cast<uint32_t>(group.rank()), 3, 0}, {5, 6});
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

// Some of them empty.
const Pieces kUneven{{0, 5, 5, 400, 1000}};

TEST(Pieces, MayBeOfAnySize) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    run_groups(backend, 4,
               [](Group& group) {
                 const Piece own = kUneven[group.rank()];
                 std::vector<float> values = values_at<float>(group.rank(), kUneven.count());
                 const std::vector<float> before = values;
                 group.reduce_scatter(of(values), kUneven);
                 for (uint64_t i = 0; i < values.size(); ++i) {
                   const bool reduced = i >= own.begin && i < own.end;
                   EXPECT_EQ(values[i], reduced ? sum_at<float>(4, i) : before[i]) << i;
                 }
                 group.start_all_gather(of(values), kUneven).wait();
                 for (uint64_t i = 0; i < values.size(); ++i)
                   EXPECT_EQ(values[i], sum_at<float>(4, i)) << i;
               },
               {kLongNs, 256});
  }
}

// Of rank r rank s has r + 2 s values, so some have none.
TEST(Pieces, GoFromAllToAll) {
  const auto length = [](int from, int to) { return static_cast<uint64_t>(from + 2 * to); };
  const auto value = [](int from, int to, uint64_t i) {
    return static_cast<float>(100 * from + 10 * to) + static_cast<float>(i);
  };
  run_local_groups(3, [&](Group& group) {
    const int rank = group.rank();
    Pieces out{{0}}, in{{0}};
    std::vector<float> from;
    for (int r = 0; r < 3; ++r) {
      out.bounds.push_back(out.bounds.back() + length(rank, r));
      in.bounds.push_back(in.bounds.back() + length(r, rank));
      for (uint64_t i = 0; i < length(rank, r); ++i) from.push_back(value(rank, r, i));
    }
    std::vector<float> to(in.count());
    group.all_to_all({of_const(from), out}, DividedValues{of(to), in});
    for (int r = 0; r < 3; ++r) {
      for (uint64_t i = 0; i < length(r, rank); ++i)
        EXPECT_EQ(to[in[r].begin + i], value(r, rank, i)) << r << " " << i;
    }
  });
}

TEST(Pieces, KnowWhatIsWithinARange) {
  EXPECT_EQ(kUneven.within({3, 400}), (Pieces{{0, 2, 2, 397, 397}}));
  EXPECT_EQ(kUneven.part_with(4), 0);
  EXPECT_EQ(kUneven.part_with(5), 2);
  EXPECT_EQ(kUneven.longest(), 600u);
  for (const int parts : {1, 3, 8}) {
    const Pieces even = even_pieces(17, parts);
    for (int i = 0; i < parts; ++i) EXPECT_EQ(even[i], piece_of(17, i, parts));
  }
}

// What a rank sends and receives, whether bytes are copied or not.
TEST(Traffic, IsCountedByCallAndByUse) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    run_groups(backend, 4,
               [](Group& group) {
                 const uint64_t own = kUneven[group.rank()].count(), all = kUneven.count();
                 std::vector<float> values(all);
                 group.count_as(TrafficUse::kGradients);
                 group.reduce_scatter(of(values), kUneven);
                 group.count_as(TrafficUse::kParameters);
                 StartedCall gather = group.start_all_gather(of(values), kUneven);
                 group.count_as(TrafficUse::kOther);
                 gather.wait();
                 group.barrier();
                 const TrafficBytes reduced{4 * (all - own), 4 * 3 * own};
                 const TrafficBytes gathered{reduced.received, reduced.sent};
                 const Traffic traffic = group.traffic();
                 EXPECT_EQ(traffic.of(Collective::kReduceScatter), reduced);
                 EXPECT_EQ(traffic.of(TrafficUse::kGradients), reduced);
                 EXPECT_EQ(traffic.of(Collective::kAllGather), gathered);
                 EXPECT_EQ(traffic.of(TrafficUse::kParameters), gathered);
                 EXPECT_EQ(traffic.of(TrafficUse::kOther), TrafficBytes{});
                 TrafficBytes total = reduced;
                 total += gathered;
                 EXPECT_EQ(traffic.total(), total);
                 EXPECT_EQ((group.traffic() - traffic).total(), TrafficBytes{});
               },
               {kLongNs, 256});
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
    expect_error(Code::kInvalidArgument, [&] { group.shift(of_const(a), of(a)); });
    expect_error(Code::kInvalidArgument, [&] { group.shift(of_const(a), of(b)); });
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

// The ranks take what the channels have in other orders, which would be one call for each without
// channels.
TEST(Group, ChannelsOfAnAxisDoNotMeet) {
  run_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.pipeline = 2}, 2, transport->rank());
    Group first(transport, mesh, Axis::kPipeline, {kLongNs});
    Group second(transport, mesh, Axis::kPipeline, {kLongNs}, 1);
    std::vector<int32_t> one{1, 1}, two{2, 2};
    if (transport->rank() == 0) {
      StartedCall sent = second.start_send(const_values_of(std::span<const int32_t>(two)), 1);
      first.send(const_values_of(std::span<const int32_t>(one)), 1);
      sent.wait();
      return;
    }
    std::vector<int32_t> got(2);
    first.receive(of(got), 0);
    EXPECT_EQ(got, one);
    second.receive(of(got), 0);
    EXPECT_EQ(got, two);
  });
}

}  // namespace
}  // namespace rl

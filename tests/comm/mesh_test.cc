#include "comm/mesh.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace rl {
namespace {

TEST(Mesh, TensorIsInnermost) {
  const MeshSizes sizes{.tensor = 3, .context = 2, .data = 2, .pipeline = 2};
  const Mesh mesh(sizes, 24, 17);  // 17 = ((1 * 2 + 0) * 2 + 1) * 3 + 2
  EXPECT_EQ(mesh.index(Axis::kTensor), 2);
  EXPECT_EQ(mesh.index(Axis::kContext), 1);
  EXPECT_EQ(mesh.index(Axis::kData), 0);
  EXPECT_EQ(mesh.index(Axis::kPipeline), 1);
  EXPECT_EQ(mesh.ranks(Axis::kTensor), (std::vector<int>{15, 16, 17}));
  EXPECT_EQ(mesh.ranks(Axis::kContext), (std::vector<int>{14, 17}));
  EXPECT_EQ(mesh.ranks(Axis::kData), (std::vector<int>{17, 23}));
  EXPECT_EQ(mesh.ranks(Axis::kPipeline), (std::vector<int>{5, 17}));
}

TEST(Mesh, GroupsOfAnAxisShareNoRank) {
  const MeshSizes sizes{.tensor = 2, .context = 3, .data = 2, .pipeline = 2};
  for (int rank = 0; rank < 24; ++rank) {
    const Mesh mesh(sizes, 24, rank);
    for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kData, Axis::kPipeline}) {
      const std::vector<int> ranks = mesh.ranks(axis);
      EXPECT_EQ(ranks[static_cast<size_t>(mesh.index(axis))], rank);
      for (const int other : ranks) EXPECT_EQ(Mesh(sizes, 24, other).ranks(axis), ranks);
    }
  }
}

TEST(Mesh, RefusesSizesThatDoNotFit) {
  EXPECT_TRUE(contains(
      expect_error(Code::kOutOfRange, [] { Mesh({.tensor = 2, .data = 2}, 8, 0); }).message,
      "tensor 2, context 1, data 2 and pipeline 1 has 4 ranks, but there are 8"));
  EXPECT_TRUE(contains(expect_error(Code::kOutOfRange, [] { Mesh({.context = 0}, 1, 0); }).message,
                       "context"));
  EXPECT_TRUE(contains(expect_error(Code::kOutOfRange, [] { Mesh({.data = 2}, 2, 2); }).message,
                       "expected 0..1"));
  expect_error(Code::kOutOfRange,
               [] { Mesh({.tensor = 1 << 30, .context = 1 << 30, .data = 1 << 30}, 1, 0); });
}

}  // namespace
}  // namespace rl

// Background population: pages become resident, content stays, and stopping early is safe.
#include "core/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "core/arena.h"

namespace rl {
namespace {

constexpr uint64_t kBytes = uint64_t{64} << 20;

size_t resident_pages(const Arena& arena) {
  std::vector<unsigned char> in_core(arena.bytes() / 4096);
  if (mincore(arena.data(), arena.bytes(), in_core.data()) != 0) return 0;
  return static_cast<size_t>(
      std::ranges::count_if(in_core, [](unsigned char c) { return (c & 1) != 0; }));
}

TEST(Prefault, MakesALaterArenaResidentAndKeepsItsContent) {
  Arena arena("later", kBytes, Touch::kLater);
  EXPECT_EQ(resident_pages(arena), 0u);
  arena.at<int>(0)[0] = 7;
  Prefault prefault({arena.span()}, 2);
  arena.at<int>(kBytes / 2)[0] = 9;
  prefault.wait();
  if (resident_pages(arena) < 1000) GTEST_SKIP() << "this kernel lacks MADV_POPULATE_WRITE";
  EXPECT_EQ(resident_pages(arena), kBytes / 4096);
  EXPECT_EQ(arena.at<int>(0)[0], 7);
  EXPECT_EQ(arena.at<int>(kBytes / 2)[0], 9);
  EXPECT_EQ(arena.at<int>(kBytes - 8)[0], 0);
}

TEST(Prefault, StopsEarlyAndTakesOddSpans) {
  Arena arena("later", kBytes, Touch::kLater);
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4095}}) {
    const Prefault prefault({arena.span().subspan(offset, 5000), {}, arena.span().subspan(offset)},
                            2);
  }
  SUCCEED();
}

}  // namespace
}  // namespace rl

// The 64-bit digest: published answers of XXH64, and independence of the cut into calls.
#include "core/hash.h"

#include <gtest/gtest.h>

#include <vector>

namespace rl {
namespace {

TEST(Digest64, MatchesPublishedAnswers) {
  EXPECT_EQ(hex64(digest64("")), "ef46db3751d8e999");
  EXPECT_EQ(hex64(digest64("a")), "d24ec4f1a98c6e5b");
  EXPECT_EQ(hex64(digest64("abc")), "44bc2cf5ad770999");
  // Longer than one stripe of 32 bytes.
  EXPECT_EQ(hex64(digest64("Nobody inspects the spammish repetition")), "fbcea83c8a378bf1");
}

TEST(Digest64, DoesNotDependOnTheCutIntoCalls) {
  std::string data;
  for (int i = 0; i < 200; ++i) data += static_cast<char>(i * 37 + 11);
  for (size_t size = 0; size <= data.size(); size += 7) {
    const std::string_view whole(data.data(), size);
    for (size_t first = 0; first <= size; ++first) {
      Digest64 digest;
      digest.update(whole.substr(0, first));
      digest.update(whole.substr(first, 1));
      digest.update(whole.substr(std::min(size, first + 1)));
      ASSERT_EQ(digest.value(), digest64(whole)) << size << " cut at " << first;
    }
  }
}

TEST(Digest64, EveryBitMatters) {
  std::vector<std::byte> data(100);
  const uint64_t before = digest64(data);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_NE(digest64(data), before) << bit;
    data[bit / 8] ^= std::byte(1 << (bit % 8));
  }
}

TEST(Digest64, IntegersAreLittleEndianBytes) {
  Digest64 a, b;
  a.update_u64(0x0807060504030201u);
  b.update("\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(a.value(), b.value());
}

}  // namespace
}  // namespace rl

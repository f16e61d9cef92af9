// The book of a store: which groups are done, and that bytes which are not a book are refused.
#include "buffer/store_book.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "support/expect_error.h"

namespace rl::testing {
namespace {

TEST(StoreBook, GroupsInAnyOrderAreDoneAndNoOthers) {
  std::mt19937 rng(1);
  std::set<GroupKey> done;
  StoreBook book;
  for (int i = 0; i < 400; ++i) {
    const GroupKey key{rng() % 3, rng() % 60};
    book.finish(key);
    done.insert(key);
    const StoreBook copy = StoreBook::decode(book.encode(), "book");
    for (uint64_t instance = 0; instance < 4; ++instance) {
      for (uint64_t ordinal = 0; ordinal < 62; ++ordinal) {
        const GroupKey asked{instance, ordinal};
        ASSERT_EQ(book.is_done(asked), done.contains(asked)) << instance << " " << ordinal;
        ASSERT_EQ(copy.is_done(asked), done.contains(asked)) << instance << " " << ordinal;
      }
    }
  }
}

TEST(StoreBook, ItsSizeDoesNotGrowWithGroupsInARow) {
  StoreBook one, many;
  one.finish({1, 0});
  for (uint64_t ordinal = 0; ordinal < 100000; ++ordinal) many.finish({1, ordinal});
  EXPECT_LE(many.encode().size(), one.encode().size() + 16);
}

TEST(StoreBook, AcknowledgedStepsAreDoneAndLaterOnesComeBack) {
  StoreBook book;
  book.take({1, 5}, 1);
  book.take({2, 5}, 2);
  book.take({1, 6}, 4);
  EXPECT_EQ(book.taken_steps(), "steps 1 to 4");
  EXPECT_EQ(book.acknowledge(2), (std::vector<GroupKey>{{1, 5}, {2, 5}}));
  EXPECT_EQ(book.step(), 2u);
  book = StoreBook::decode(book.encode(), "book");
  EXPECT_TRUE(book.is_done({1, 5}));
  EXPECT_TRUE(book.is_taken({1, 6}));
  EXPECT_EQ(book.taken_steps(), "step 4");
  EXPECT_EQ(book.give_back(), (std::vector<GroupKey>{{1, 6}}));
  EXPECT_FALSE(book.has_taken());
  EXPECT_FALSE(book.is_done({1, 6}));
}

// Every byte changed, and every length: an error that names the book, or the same book.
TEST(StoreBook, DamageIsFound) {
  StoreBook book;
  book.opening = 7;
  book.finish({1, 3});
  book.take({1, 4}, 9);
  const std::string bytes = book.encode();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    try {
      StoreBook::decode(damaged, "d/book");
      ADD_FAILURE() << "byte " << at;
    } catch (const Error& e) {
      EXPECT_TRUE(e.code == Code::kDataLoss || e.code == Code::kIncompatible) << e.message;
      EXPECT_TRUE(contains(e.location, "d/book offset ")) << e.message;
    }
    expect_error(Code::kDataLoss, [&] { StoreBook::decode(bytes.substr(0, at), "d/book"); });
  }
}

TEST(StoreBook, NamesSortByInstanceAndOrdinal) {
  EXPECT_EQ(group_name({1, 42}), "000001-00000000000000000042");
  EXPECT_LT(group_name({1, 99}), group_name({1, 100}));
  EXPECT_LT(group_name({9, 100}), group_name({10, 0}));
}

}  // namespace
}  // namespace rl::testing

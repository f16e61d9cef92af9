// Ranks meet by a directory, a store and functions of the host; who does not come is named.
#include "comm/watch/meeting.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "comm/transport.h"
#include "core/clock.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

constexpr int64_t kSecondNs = 1000000000;

using MakeRendezvous = std::function<std::unique_ptr<Rendezvous>(int rank)>;

// What each rank got from each other, or threw.
struct Met {
  std::vector<std::string> texts;
  std::exception_ptr thrown;
};
std::vector<Met> meet_all(const MakeRendezvous& make, const std::vector<int>& ranks, int size,
                          int64_t timeout_ns = 20 * kSecondNs) {
  std::vector<Met> out(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const auto rendezvous = make(ranks[i]);
        const MeetingPlace place{*rendezvous, ranks[i], size, "",
                                 real_clock().now_ns() + timeout_ns};
        const std::vector<Socket> links = meet(place);
        std::vector<std::string> texts;
        for (int to = 0; to < size; ++to) texts.push_back(str(ranks[i], " to ", to));
        out[i].texts = swap_texts(place, links, texts);
        rendezvous->withdraw(ranks[i]);
      } catch (...) {
        out[i].thrown = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

void expect_all_met(const std::vector<Met>& met) {
  const int size = static_cast<int>(met.size());
  for (int rank = 0; rank < size; ++rank) {
    const Met& own = met[static_cast<size_t>(rank)];
    if (own.thrown != nullptr) std::rethrow_exception(own.thrown);
    for (int from = 0; from < size; ++from) {
      const std::string expected = from == rank ? "" : str(from, " to ", rank);
      EXPECT_EQ(own.texts[static_cast<size_t>(from)], expected);
    }
  }
}

MakeRendezvous in_directory(const TempDir& dir) {
  return [&](int) { return file_rendezvous(real_fs(), dir.path()); };
}

// A port that was free a moment ago.
std::string free_endpoint() { return endpoint_text(own_end(listen_at({"127.0.0.1", 0}))); }

TEST(Meeting, ByADirectoryWhichIsEmptyAfterwards) {
  const TempDir dir;
  expect_all_met(meet_all(in_directory(dir), {0, 1, 2, 3, 4}, 5));
  EXPECT_TRUE(real_fs().list(dir.path()).empty());
}

TEST(Meeting, ByAStoreOfRankZero) {
  const std::string where = free_endpoint();
  expect_all_met(
      meet_all([&](int rank) { return tcp_rendezvous(where, rank, 4); }, {0, 1, 2, 3}, 4));
  listen_at(parse_endpoint(where));  // rank 0 no longer does
}

TEST(Meeting, ByFunctionsOfTheHost) {
  std::mutex mutex;
  std::map<int, std::string> cards;
  const auto make = [&](int) {
    return host_rendezvous({[&](int rank, const std::string& card) {
                              const std::lock_guard lock(mutex);
                              cards[rank] = card;
                            },
                            [&](int rank) -> std::optional<std::string> {
                              const std::lock_guard lock(mutex);
                              const auto found = cards.find(rank);
                              if (found == cards.end()) return std::nullopt;
                              return found->second;
                            }});
  };
  expect_all_met(meet_all(make, {0, 1, 2}, 3));
}

// Cards that lead nowhere, or to somebody else, are those of an earlier run.
TEST(Meeting, CardsOfAnEarlierRunDoNotHinder) {
  const TempDir dir;
  const Socket stranger = listen_at({"127.0.0.1", 0});
  std::ofstream(dir.file("rank_0")) << free_endpoint();
  std::ofstream(dir.file("rank_1")) << free_endpoint();
  const auto make = [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return file_rendezvous(real_fs(), dir.path());
  };
  expect_all_met(meet_all(make, {0, 1, 2}, 3));
}

TEST(Meeting, ARankThatDoesNotComeIsNamedInTime) {
  const std::string where = free_endpoint();
  for (int absent = 0; absent < 3; ++absent) {
    for (const bool by_store : {false, true}) {
      const TempDir dir;
      std::vector<int> ranks{0, 1, 2};
      std::erase(ranks, absent);
      const int64_t begin = real_clock().now_ns();
      const std::vector<Met> met = meet_all(
          [&](int rank) {
            return by_store ? tcp_rendezvous(where, rank, 3)
                            : file_rendezvous(real_fs(), dir.path());
          },
          ranks, 3, kSecondNs / 2);
      EXPECT_LT(real_clock().now_ns() - begin, kSecondNs / 2 + kSecondNs);
      for (const Met& each : met) {
        ASSERT_NE(each.thrown, nullptr);
        expect_error(Code::kRankLost, [&] { std::rethrow_exception(each.thrown); });
      }
      // The first one that waits for it names it; others may name one that gave up before them.
      const Error error =
          expect_error(Code::kRankLost, [&] { std::rethrow_exception(met[0].thrown); });
      EXPECT_EQ(error.location, str("rank ", absent));
    }
  }
}

TEST(Meeting, RanksOfTwoSizesNameBoth) {
  const TempDir dir;
  std::exception_ptr thrown[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto rendezvous = file_rendezvous(real_fs(), dir.path());
        meet({*rendezvous, rank, 2 + rank, "", real_clock().now_ns() + 5 * kSecondNs});
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& each : thrown) {
    const Error error = expect_error(Code::kIncompatible, [&] { std::rethrow_exception(each); });
    EXPECT_TRUE(contains(error.message, "of 2"));
    EXPECT_TRUE(contains(error.message, "of 3"));
  }
}

TEST(Meeting, PlacesAreChecked) {
  expect_error(Code::kNotFound, [] { file_rendezvous(real_fs(), "/no/such/folder"); });
  for (const char* const where : {"", "host", "host:", ":1", "host:0", "host:70000", "host:1x"}) {
    EXPECT_TRUE(
        contains(expect_error(Code::kInvalidArgument, [&] { tcp_rendezvous(where, 1, 2); }).message,
                 "10.0.0.1:29500"));
  }
  const Socket taken = listen_at({"127.0.0.1", 0});
  const Error error =
      expect_error(Code::kIo, [&] { tcp_rendezvous(endpoint_text(own_end(taken)), 0, 2); });
  EXPECT_NE(error.system_code, 0);
  EXPECT_EQ(endpoint_text(parse_endpoint("[::1]:29500")), "[::1]:29500");
}

}  // namespace
}  // namespace rl

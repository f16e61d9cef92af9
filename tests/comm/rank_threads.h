// Runs a function on a thread for each rank, over the transports of any backend, and collects what
// it throws.
#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>

#include "comm/group.h"
#include "support/expect_error.h"

namespace rl {

constexpr int64_t kLongNs = int64_t{600} * 1000000000;  // more than any test may take

// The transport of a rank; called on the rank's thread.
using TransportOf = std::function<std::shared_ptr<Transport>(int rank)>;
// For so many ranks, which all meet.
using Backend = std::function<TransportOf(int size)>;
using RankBody = std::function<void(std::shared_ptr<Transport>)>;

// A rank's transport ends with its function.
inline std::vector<std::exception_ptr> try_ranks(const Backend& backend, int size,
                                                 const RankBody& body) {
  const TransportOf transport_of = backend(size);
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(transport_of(rank));
      } catch (...) {
        thrown[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

// As above, where nothing may be thrown.
inline void run_ranks(const Backend& backend, int size, const RankBody& body) {
  for (const std::exception_ptr& thrown : try_ranks(backend, size, body)) {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  }
}

inline void run_groups(const Backend& backend, int size,
                       const std::function<void(comm::Group&)>& body,
                       GroupOptions options = {kLongNs}) {
  run_ranks(backend, size, [&](std::shared_ptr<Transport> transport) {
    comm::Group group(std::move(transport), options);
    body(group);
  });
}

// Each rank but `absent` threw a RankError that names it.
inline void expect_named(const std::vector<std::exception_ptr>& thrown, int absent) {
  for (size_t r = 0; r < thrown.size(); ++r) {
    if (static_cast<int>(r) == absent) continue;
    ASSERT_NE(thrown[r], nullptr) << "rank " << r << " noticed nothing";
    try {
      std::rethrow_exception(thrown[r]);
    } catch (const RankError& error) {
      EXPECT_EQ(error.rank, absent) << error.message;
      EXPECT_EQ(error.location, str("rank ", absent));
      EXPECT_TRUE(contains(error.message, str("rank ", absent))) << r;
    }
  }
}

}  // namespace rl

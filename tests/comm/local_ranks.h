// Runs a function on a thread for each rank, over local transports, and collects what it throws.
#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>

#include "comm/group.h"
#include "comm/local/local_transport.h"

namespace rl {

constexpr int64_t kLongNs = int64_t{600} * 1000000000;  // more than any test may take

// A rank's transport ends with its function.
inline std::vector<std::exception_ptr> try_local_ranks(
    int size, const std::function<void(std::shared_ptr<Transport>)>& body) {
  std::vector<std::shared_ptr<Transport>> transports = make_local_transports(size);
  std::vector<std::exception_ptr> thrown(transports.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < transports.size(); ++r) {
    threads.emplace_back([&body, &thrown, r, transport = std::move(transports[r])]() mutable {
      try {
        body(std::move(transport));
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

// As above, where nothing may be thrown.
inline void run_local_ranks(int size, const std::function<void(std::shared_ptr<Transport>)>& body) {
  for (const std::exception_ptr& thrown : try_local_ranks(size, body)) {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  }
}

inline void run_local_groups(int size, const std::function<void(comm::Group&)>& body,
                             GroupOptions options = {kLongNs}) {
  run_local_ranks(size, [&](std::shared_ptr<Transport> transport) {
    comm::Group group(std::move(transport), options);
    body(group);
  });
}

}  // namespace rl

// Two pipelines of one process over a store, of which one or both have several ranks.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../ranks/rank_pipelines.h"
#include "role_rig.h"

namespace rl::testing {

using Texts = std::vector<std::string>;

// The pipelines of all ranks of one half of a run, each with a host of its own on a thread of its
// own, until they end.
class RankedRun {
 public:
  RankedRun(OptionSet options, Prepare prepare)
      : options_(std::move(options)), prepare_(std::move(prepare)) {}
  ~RankedRun() {
    if (thread_.joinable()) thread_.join();
  }
  void start() {
    thread_ = std::thread([this] {
      try {
        ranks_ = run_pipelines(options_, prepare_);
      } catch (...) {
        thrown_ = std::current_exception();
      }
    });
  }
  const std::vector<RankRun>& wait() {
    if (thread_.joinable()) thread_.join();
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
    return ranks_;
  }

 private:
  const OptionSet options_;
  const Prepare prepare_;
  std::vector<RankRun> ranks_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

inline Texts joined(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Nothing is generated ahead, so that bits are those of a synchronous run.
inline OptionSet on_policy_rollout(const TempDir& dir, const Texts& more = {}) {
  return rollout_options(dir, joined({"pipeline.max_staleness=0", "pipeline.queue_size=0"}, more));
}
inline OptionSet on_policy_train(const TempDir& dir, const Texts& more = {}) {
  return train_options(dir, joined({"pipeline.max_staleness=0"}, more));
}
// The same run in one pipeline for each rank.
inline OptionSet synchronous(const TempDir& dir, const Texts& more = {}) {
  OptionSet o = asynchronous(dir);
  o.set_text("pipeline.mode", "sync");
  for (const std::string& text : more) o.set_assignment(text);
  return o;
}

inline std::vector<uint64_t> digests_of(const std::vector<RankRun>& ranks) {
  std::vector<uint64_t> out;
  for (const RankRun& rank : ranks) out.push_back(rank.digest);
  return out;
}

// The pipelines of all ranks, one of which another thread stops once ready() has returned.
inline std::vector<RunLog> stop_when(const OptionSet& options, int stopped,
                                     const std::function<void()>& ready) {
  std::vector<std::shared_ptr<Runtime>> runtimes = make_ranks(options);
  std::vector<RunLog> logs(runtimes.size());
  run_ranks(std::move(runtimes), [&](std::shared_ptr<Runtime> runtime) {
    const int rank = runtime->ranks().rank();
    Rig rig(options, std::move(runtime));
    const std::jthread stop([&] {
      if (rank != stopped) return;
      ready();
      rig.pipeline().stop(0);
    });
    logs[static_cast<size_t>(rank)] = rig.start_and_serve();
  });
  return logs;
}

// Until a file exists that another thread writes.
inline void wait_for_file(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(path)) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << path;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace rl::testing

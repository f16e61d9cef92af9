// Both executors keep the same contract: every task once, workers never shared, first exception
// rethrown, thread count checked, signals masked.
#include "device/cpu/executors.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"
#include "support/expect_error.h"

namespace rl {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

struct Maker {
  const char* name;
  std::unique_ptr<Executor> (*make)(int, const CpuList&);
  int threads;
};

class Executors : public ::testing::TestWithParam<Maker> {
 protected:
  void SetUp() override {
    const bool tbb = GetParam().make == make_tbb_executor;
    if (tbb && kThreadSanitizer) {
      GTEST_SKIP() << "ThreadSanitizer cannot see the synchronisation inside TBB";
    }
    if (tbb && GetParam().threads > usable_cores()) {
      GTEST_SKIP() << "TBB executors take at most the " << usable_cores() << " usable cores";
    }
    executor_ = GetParam().make(GetParam().threads, CpuList());
  }
  std::unique_ptr<Executor> executor_;
};

TEST_P(Executors, RunEveryTaskOnce) {
  EXPECT_EQ(executor_->num_threads(), GetParam().threads);
  for (const int64_t count : {0, 1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
    executor_->parallel_for(count, [&](int64_t task, int) { runs[static_cast<size_t>(task)]++; });
    for (const auto& n : runs) ASSERT_EQ(n.load(), 1);
  }
}

TEST_P(Executors, NeverShareAWorkerIndex) {
  const int threads = executor_->num_threads();
  std::vector<std::atomic<int>> inside(static_cast<size_t>(threads));
  std::atomic<int> errors{0};
  for (int round = 0; round < 200; ++round) {
    executor_->parallel_for(16, [&](int64_t, int worker) {
      if (worker < 0 || worker >= threads) {
        ++errors;
        return;
      }
      if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) ++errors;
      std::this_thread::yield();
      inside[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
  EXPECT_EQ(errors.load(), 0);
}

TEST_P(Executors, WritesOfTasksAreVisibleToTheCaller) {
  std::vector<int64_t> values(64);
  for (int64_t round = 0; round < 500; ++round) {
    executor_->parallel_for(
        64, [&](int64_t task, int) { values[static_cast<size_t>(task)] += task + round; });
  }
  for (int64_t task = 0; task < 64; ++task) {
    EXPECT_EQ(values[static_cast<size_t>(task)], 500 * task + 499 * 500 / 2);
  }
}

TEST_P(Executors, RethrowTheExceptionAndStayUsable) {
  for (int round = 0; round < 20; ++round) {
    const Error error = expect_error(Code::kNonFinite, [&] {
      executor_->parallel_for(50, [&](int64_t task, int) {
        if (task == 7) throw Error(Code::kNonFinite, "task 7");
      });
    });
    EXPECT_EQ(error.message, "task 7");
  }
  std::atomic<int> runs{0};
  executor_->parallel_for(10, [&](int64_t, int) { ++runs; });
  EXPECT_EQ(runs.load(), 10);
}

// Pauses around the time after which a helper that has nothing to do goes.
TEST_P(Executors, LoseNoTaskWhenHelpersGoAndComeBack) {
  int64_t runs = 0;
  for (int round = 0; round < 600; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round * 37 % 150));
    std::atomic<int64_t> done{0};
    executor_->parallel_for(7, [&](int64_t, int) { ++done; });
    runs += done;
  }
  EXPECT_EQ(runs, 600 * 7);
}

TEST_P(Executors, EndWhileHelpersWaitForMore) {
  for (int round = 0; round < 60; ++round) {
    std::atomic<int64_t> done{0};
    executor_ = GetParam().make(GetParam().threads, CpuList());
    executor_->parallel_for(20, [&](int64_t, int) { ++done; });
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round));
    executor_.reset();
    ASSERT_EQ(done.load(), 20);
  }
}

TEST_P(Executors, RefuseReentry) {
  expect_error(Code::kInternal, [&] {
    executor_->parallel_for(1,
                            [&](int64_t, int) { executor_->parallel_for(1, [](int64_t, int) {}); });
  });
}

TEST_P(Executors, MaskSignalsInWorkersAndRestoreTheCallers) {
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGINT), 0);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> unmasked{0};
  for (int round = 0; round < 50; ++round) {
    executor_->parallel_for(8, [&](int64_t, int) {
      sigset_t set;
      pthread_sigmask(SIG_SETMASK, nullptr, &set);
      const bool masked = sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGPROF) == 1;
      if (std::this_thread::get_id() != caller && !masked) ++unmasked;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
  }
  EXPECT_EQ(unmasked.load(), 0);
}

TEST_P(Executors, UseASecondWorkerExactlyWhenTheyHaveOne) {
  std::atomic<bool> second{false};
  for (int round = 0; round < 1000 && !second; ++round) {
    std::atomic<int> arrived{0};
    executor_->parallel_for(2, [&](int64_t, int worker) {
      ++arrived;
      for (int i = 0; i < 1000 && arrived < 2; ++i) std::this_thread::yield();
      if (worker != 0) second = true;
    });
  }
  EXPECT_EQ(second.load(), executor_->num_threads() > 1);
}

// True once `ready` is; false after so long that nobody can be coming any more.
template <typename Ready>
bool wait_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_P(Executors, AWorkerBeginsWithItsShare) {
  const int threads = executor_->num_threads();
  const int64_t count = 3 * threads + 1;
  std::vector<std::atomic<int64_t>> first(static_cast<size_t>(threads));
  for (auto& f : first) f = -1;
  std::atomic<int> begun{0}, late{0};
  executor_->parallel_for(count, [&](int64_t task, int worker) {
    if (first[static_cast<size_t>(worker)] >= 0) return;
    first[static_cast<size_t>(worker)] = task;
    ++begun;
    if (!wait_until([&] { return begun == threads; })) ++late;
  });
  ASSERT_EQ(late.load(), 0);
  for (int worker = 0; worker < threads; ++worker) {
    EXPECT_EQ(first[static_cast<size_t>(worker)].load(), task_share(count, worker, threads).begin);
  }
}

TEST_P(Executors, TasksOfAWorkerThatIsHeldUpAreTakenByOthers) {
  if (executor_->num_threads() == 1) GTEST_SKIP() << "there is no other worker";
  for (const int64_t held : {0, 9}) {
    std::atomic<int64_t> others{0};
    std::atomic<bool> late{false};
    executor_->parallel_for(10, [&](int64_t task, int) {
      if (task != held)
        ++others;
      else if (!wait_until([&] { return others == 9; }))
        late = true;
    });
    EXPECT_FALSE(late) << "task " << held;
  }
}

TEST(TaskShares, AreNeighboursAndTogetherEveryTaskOnce) {
  for (const int64_t count : {0, 1, 2, 5, 64, 1000}) {
    for (const int64_t workers : {1, 2, 3, 16, 100}) {
      int64_t next = 0;
      for (int64_t worker = 0; worker < workers; ++worker) {
        const TaskShare share = task_share(count, worker, workers);
        if (share.begin == share.end) continue;
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.end - share.begin, count / workers + 1);
        next = share.end;
      }
      EXPECT_EQ(next, count) << workers << " workers";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Executors,
                         ::testing::Values(Maker{"Tbb1", make_tbb_executor, 1},
                                           Maker{"Tbb2", make_tbb_executor, 2},
                                           Maker{"Default1", make_default_executor, 1},
                                           Maker{"Thread1", make_thread_executor, 1},
                                           Maker{"Thread2", make_thread_executor, 2},
                                           Maker{"Thread5", make_thread_executor, 5}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MakeExecutor, ZeroMeansAllUsableCores) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_EQ(make_default_executor(0)->num_threads(), usable_cores());
  EXPECT_EQ(make_thread_executor(0)->num_threads(), usable_cores());
}

TEST(MakeExecutor, MoreThreadsThanCoresIsAnErrorNamingBoth) {
  const int cores = usable_cores();
  const Error error = expect_error(Code::kOutOfRange, [&] { make_tbb_executor(cores + 1); });
  EXPECT_TRUE(contains(error.message, str("is ", cores + 1)));
  EXPECT_TRUE(contains(error.message, str("use only ", cores, " cores")));
  EXPECT_EQ(error.key, "runtime.threads");
  expect_error(Code::kOutOfRange, [&] { make_default_executor(cores + 1); });
  expect_error(Code::kOutOfRange, [] { make_tbb_executor(-1); });
  expect_error(Code::kOutOfRange, [] { make_thread_executor(1025); });
}

// CPUs on which the workers of an executor run tasks, the caller apart.
std::vector<int64_t> cpus_of_worker(Executor& executor) {
  std::vector<int64_t> cpus;
  std::atomic<bool> found{false};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  executor.parallel_for(2, [&](int64_t, int worker) {
    if (worker == 0) {  // leaves the other task to the worker
      while (!found.load() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      return;
    }
    const CpuMask mask = CpuMask::of_this_thread();
    cpus.clear();  // it has both tasks if it comes before the caller
    for (int64_t cpu = 0; cpu < CpuMask::kMaxCpus; ++cpu) {
      if (mask.has(cpu)) cpus.push_back(cpu);
    }
    found.store(true);
  });
  return cpus;
}

TEST(MakeExecutor, WorkersRunOnTheCpusOfTheList) {
  const CpuMask all = CpuMask::of_this_thread();
  if (all.count() < 2) GTEST_SKIP() << "two usable cores are needed, and this process has one";
  std::vector<int64_t> usable;
  for (int64_t cpu = 0; cpu < CpuMask::kMaxCpus; ++cpu) {
    if (all.has(cpu)) usable.push_back(cpu);
  }
  for (const auto make : {make_thread_executor, make_tbb_executor}) {
    for (const int64_t cpu : {usable.front(), usable.back()}) {
      const auto executor = make(2, CpuList({cpu}));
      EXPECT_EQ(cpus_of_worker(*executor), std::vector<int64_t>{cpu});
    }
    EXPECT_EQ(CpuMask::of_this_thread().count(), all.count()) << "the caller is the host's";
    const auto anywhere = make(2, CpuList());
    EXPECT_EQ(cpus_of_worker(*anywhere), usable) << "a worker of TBB was given back as it was";
  }
}

TEST(MakeExecutor, AListHasAsManyThreadsAsCpus) {
  int64_t cpu = 0;
  while (!CpuMask::of_this_thread().has(cpu)) ++cpu;
  const CpuList one({cpu});
  EXPECT_EQ(checked_threads(0, one), 1);
  EXPECT_EQ(make_default_executor(0, one)->num_threads(), 1);
  const Error error = expect_error(Code::kOutOfRange, [&] { make_default_executor(2, one); });
  EXPECT_EQ(error.key, "runtime.threads");
  EXPECT_TRUE(contains(error.message, "runtime.cpus has only 1 CPUs"));
}

TEST(MakeExecutor, TwoExecutorsRunSideBySide) {
  std::atomic<int64_t> sum{0};
  const auto use = [&] {
    const auto executor = make_thread_executor(2);
    for (int round = 0; round < 100; ++round) {
      executor->parallel_for(4, [&](int64_t task, int) { sum += task; });
    }
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(sum.load(), 2 * 100 * 6);
}

}  // namespace
}  // namespace rl

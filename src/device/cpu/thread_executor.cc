// The plain-thread executor: helpers wait at the gate, first spinning, then sleeping.
#include <algorithm>
#include <condition_variable>
#include <thread>
#include <vector>

#include "core/signals.h"
#include "device/cpu/executors.h"
#include "device/cpu/work_gate.h"

namespace rl {
namespace {

constexpr int kMaxThreads = 1024;

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(int threads, const CpuList& cpus) : ranges_(std::max(threads, 1)) {
    const ScopedSignalMask mask;
    try {
      for (int worker = 1; worker < threads; ++worker) {
        threads_.emplace_back([this, worker, cpus] {
          cpus.bind_this_thread();
          serve(worker);
        });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadExecutor() override { stop(); }

  int num_threads() const override { return static_cast<int>(threads_.size()) + 1; }

  void parallel_for(int64_t count, FunctionRef<void(int64_t, int)> task) override {
    const CallerGuard guard(busy_);
    TaskRun run(count, task, ranges_);
    const bool shared = count > 1 && !threads_.empty();
    if (shared) open(run);
    run.work(0);
    if (shared) gate_.close();
    run.rethrow();
  }

 private:
  void open(TaskRun& run) {
    gate_.open(run);
    if (sleepers_.load() > 0) wake_all();
  }

  void serve(int worker) {
    uint64_t seen = 0;
    while (wait_for_epoch_after(seen)) {
      seen = gate_.epoch();
      gate_.help(seen, worker);
    }
  }

  // False if the executor ends.
  bool wait_for_epoch_after(uint64_t seen) {
    const auto ready = [&] { return gate_.epoch() != seen || stopping_.load(); };
    for (int i = 0; i < WorkGate::kSpins; ++i) {
      if (ready()) return !stopping_.load();
      spin_pause();
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, ready);
    sleepers_.fetch_sub(1);
    return !stopping_.load();
  }

  void wake_all() {
    { const std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }

  void stop() {
    stopping_.store(true);
    wake_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::vector<TaskRange> ranges_;  // of the current run, one per worker
  WorkGate gate_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> busy_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> make_thread_executor(int threads, const CpuList& cpus) {
  if (threads < 0 || threads > kMaxThreads) {
    throw Error(Code::kOutOfRange, str("an executor of ", threads,
                                       " threads was requested; the limit is ", kMaxThreads))
        .with_expected(str("0..", kMaxThreads));
  }
  return std::make_unique<ThreadExecutor>(threads == 0 ? checked_threads(0, cpus) : threads, cpus);
}

}  // namespace rl

// The plain-thread executor. All coordination is one atomic word, the gate: (epoch, open, active).
// A worker joins the current epoch only while the gate is open; the caller closes it once no task
// is left and waits for the workers that joined. A sleeping worker therefore never delays a run
// that others finished.
#include <algorithm>
#include <condition_variable>
#include <thread>
#include <vector>

#include "core/signals.h"
#include "device/cpu/executors.h"
#include "device/cpu/task_run.h"

namespace rl {
namespace {

constexpr uint64_t kActiveMask = 0xffff;
constexpr uint64_t kOpen = 0x10000;
constexpr uint64_t kEpochOne = 0x20000;
constexpr int kSpins = 2000;
constexpr int kMaxThreads = 1024;

uint64_t epoch_of(uint64_t gate) { return gate / kEpochOne; }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int threads) {
    const ScopedSignalMask mask;
    try {
      for (int worker = 1; worker < threads; ++worker) {
        threads_.emplace_back([this, worker] { serve(worker); });
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
    TaskRun run(count, task);
    const bool shared = count > 1 && !threads_.empty();
    if (shared) open(run);
    run.work(0);
    if (shared) close();
    run.rethrow();
  }

 private:
  void open(TaskRun& run) {
    run_.store(&run, std::memory_order_relaxed);
    const uint64_t epoch = epoch_of(gate_.load(std::memory_order_relaxed)) + 1;
    gate_.store(epoch * kEpochOne | kOpen);
    if (sleepers_.load() > 0) wake_all();
  }

  // Invariant: when this returns, no worker holds a pointer to the run.
  void close() {
    gate_.fetch_and(~kOpen);
    for (int i = 0; i < kSpins; ++i) {
      if ((gate_.load(std::memory_order_acquire) & kActiveMask) == 0) return;
      pause();
    }
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return (gate_.load() & kActiveMask) == 0; });
  }

  bool join(uint64_t epoch) {
    uint64_t gate = gate_.load();
    while (epoch_of(gate) == epoch && (gate & kOpen) != 0) {
      if (gate_.compare_exchange_weak(gate, gate + 1)) return true;
    }
    return false;
  }

  void leave() {
    const uint64_t before = gate_.fetch_sub(1);
    if ((before & kActiveMask) != 1 || (before & kOpen) != 0) return;
    const std::lock_guard lock(mutex_);
    done_.notify_one();
  }

  void serve(int worker) {
    uint64_t seen = 0;
    while (wait_for_epoch_after(seen)) {
      seen = epoch_of(gate_.load());
      if (!join(seen)) continue;
      run_.load(std::memory_order_relaxed)->work(worker);
      leave();
    }
  }

  // False when the executor ends.
  bool wait_for_epoch_after(uint64_t seen) {
    const auto ready = [&] { return epoch_of(gate_.load()) != seen || stopping_.load(); };
    for (int i = 0; i < kSpins; ++i) {
      if (ready()) return !stopping_.load();
      pause();
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

  std::atomic<uint64_t> gate_{0};
  std::atomic<TaskRun*> run_{nullptr};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> busy_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> make_thread_executor(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    throw Error(Code::kOutOfRange,
                str("an executor of ", threads, " threads was asked for; at most ", kMaxThreads))
        .with_expected(str("0..", kMaxThreads));
  }
  return std::make_unique<ThreadExecutor>(threads == 0 ? usable_cores() : threads);
}

}  // namespace rl

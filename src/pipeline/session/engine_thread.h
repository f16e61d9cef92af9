// The thread of an engine that computes by itself (engine.thread). It steps while there is
// something to compute, and rests until notify() otherwise. Invariant: a rest is counted after the
// last step before it, so that whoever has seen the count and then finds work waits for the next.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "core/cpu_list.h"

namespace rl {

class EngineThread {
 public:
  enum class Next : uint8_t {
    kStep,  // there may be more to compute
    kRest
  };
  // step may not throw. cpus, where the thread runs, outlives it. kResourceExhausted if no thread
  // can be started.
  EngineThread(std::function<Next()> step, const CpuList& cpus);
  ~EngineThread() { end(); }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // There may be something to compute.
  void notify();
  // Returns once the thread has ended: at most a step later. Any number of times, by any thread but
  // this one.
  void end();

  uint64_t rests() const;
  // Counts one, for those who wait: the state of the engine has changed.
  void count_rest();
  // Waits until the count is another than `seen`, or the thread has ended; false after timeout_ns.
  bool wait_for_rest(uint64_t seen, int64_t timeout_ns);

 private:
  void run();

  const std::function<Next()> step_;
  mutable std::mutex mutex_;
  std::condition_variable work_, rest_;
  uint64_t notified_ = 0, rests_ = 0;
  bool ending_ = false;
  std::mutex end_mutex_;  // one end at a time
  std::thread thread_;
};

}  // namespace rl

// Work on a thread of its own, one task at a time. Used by one thread.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <thread>

#include "core/cpu_list.h"

namespace rl {

class BackgroundTask {
 public:
  // The thread runs on these CPUs, which outlive it.
  explicit BackgroundTask(const CpuList& cpus) : cpus_(cpus) {}
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // The task before is over (finish). Error(kResourceExhausted) if there is no thread for this one.
  void start(std::function<void()> work);
  // Waits for the end of the task and throws, once, what ended it.
  void finish();
  // The same if it has ended; nothing while it runs.
  void finish_if_ended();

 private:
  const CpuList& cpus_;
  std::thread thread_;
  std::atomic<bool> ended_ = false;
  std::exception_ptr failure_;  // the thread writes it before it ends
};

}  // namespace rl

// Backs memory with pages in the background, so that the first writer does not pay for the page
// faults. In a virtual machine a first touch may cost the host seconds per GiB. It writes nothing:
// others may use the memory meanwhile. A hint: if the system does not support it, the faults happen
// at first use.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "core/cpu_list.h"

namespace rl {

class Prefault {
 public:
  // The memory must stay mapped while this object lives. Its threads run on these CPUs.
  Prefault(std::vector<std::span<std::byte>> memory, int num_threads, const CpuList& cpus = {});
  // Stops within one chunk per thread.
  ~Prefault();
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;
  // Waits until all memory was tried.
  void wait();

 private:
  void run();
  const CpuList cpus_;
  std::vector<std::span<std::byte>> chunks_;
  std::atomic<size_t> next_{0};  // chunk; past the end once stopped
  std::vector<std::thread> threads_;
};

}  // namespace rl

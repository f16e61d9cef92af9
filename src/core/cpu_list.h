// The CPUs that the library's own threads run on. A thread binds itself when it starts; the host's
// threads are never bound. An empty list binds nothing.
#pragma once
#include <sched.h>

#include <array>
#include <cstdint>
#include <vector>

namespace rl {

// An affinity mask of as many CPUs as Linux can have.
class CpuMask {
 public:
  static constexpr int64_t kMaxCpus = 8192;
  CpuMask();
  // The CPUs that the calling thread may run on; Error(kInternal) if the kernel does not say.
  static CpuMask of_this_thread();
  // The same; false if the kernel does not say.
  bool read_this_thread() noexcept;

  bool has(int64_t cpu) const;
  void add(int64_t cpu);
  int count() const;
  // Binds the calling thread to these CPUs. False if the kernel refuses, which it does if none of
  // them is left to the process.
  bool bind_this_thread() const noexcept;

 private:
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> words_;
};

class CpuList {
 public:
  CpuList() = default;
  // Error(kOutOfRange) names runtime.cpus, and a CPU that is listed twice or that the calling
  // thread may not run on.
  explicit CpuList(const std::vector<int64_t>& cpus);

  bool empty() const { return count_ == 0; }
  int count() const { return count_; }
  const CpuMask& mask() const { return mask_; }
  void bind_this_thread() const noexcept {
    if (!empty()) mask_.bind_this_thread();
  }

 private:
  CpuMask mask_;
  int count_ = 0;
};

// Binds the calling thread to a list for a scope. No effect if the list is empty.
class ScopedCpus {
 public:
  explicit ScopedCpus(const CpuList& cpus) noexcept
      : bound_(!cpus.empty() && before_.read_this_thread() && cpus.mask().bind_this_thread()) {}
  ~ScopedCpus() {
    if (bound_) before_.bind_this_thread();
  }
  ScopedCpus(const ScopedCpus&) = delete;
  ScopedCpus& operator=(const ScopedCpus&) = delete;

 private:
  CpuMask before_;
  const bool bound_;
};

}  // namespace rl

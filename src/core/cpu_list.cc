// Affinity masks through the calls that only change the calling thread.
#include "core/cpu_list.h"

#include <pthread.h>

#include "core/error.h"

namespace rl {

CpuMask::CpuMask() {
  for (cpu_set_t& word : words_) CPU_ZERO(&word);
}

bool CpuMask::read_this_thread() noexcept {
  return pthread_getaffinity_np(pthread_self(), sizeof(words_), words_.data()) == 0;
}

CpuMask CpuMask::of_this_thread() {
  CpuMask mask;
  if (mask.read_this_thread()) return mask;
  throw Error(Code::kInternal, "the affinity mask of the process cannot be read");
}

bool CpuMask::has(int64_t cpu) const {
  if (cpu < 0 || cpu >= kMaxCpus) return false;
  return CPU_ISSET_S(static_cast<size_t>(cpu), sizeof(words_), words_.data());
}

void CpuMask::add(int64_t cpu) {
  RL_CHECK(cpu >= 0 && cpu < kMaxCpus);
  CPU_SET_S(static_cast<size_t>(cpu), sizeof(words_), words_.data());
}

int CpuMask::count() const { return CPU_COUNT_S(sizeof(words_), words_.data()); }

bool CpuMask::bind_this_thread() const noexcept {
  return pthread_setaffinity_np(pthread_self(), sizeof(words_), words_.data()) == 0;
}

CpuList::CpuList(const std::vector<int64_t>& cpus) {
  if (cpus.empty()) return;
  const CpuMask usable = CpuMask::of_this_thread();
  const auto refuse = [&](int64_t cpu, const char* why) {
    std::string expected;
    for (int64_t c = 0; c < CpuMask::kMaxCpus; ++c) {
      if (usable.has(c)) expected += str(expected.empty() ? "" : ",", c);
    }
    throw Error(Code::kOutOfRange, str("runtime.cpus has CPU ", cpu, ", ", why))
        .with_key("runtime.cpus")
        .with_expected(std::move(expected));
  };
  for (const int64_t cpu : cpus) {
    if (!usable.has(cpu)) refuse(cpu, "which this process may not use");
    if (mask_.has(cpu)) refuse(cpu, "twice");
    mask_.add(cpu);
  }
  count_ = mask_.count();
}

}  // namespace rl

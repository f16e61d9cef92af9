// Threads that ask the kernel to populate page tables chunk by chunk.
#include "core/prefault.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include "core/signals.h"

namespace rl {
namespace {

constexpr size_t kChunk = size_t{8} << 20;
constexpr size_t kPageBytes = 4096;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14

// Whole pages inside the span.
std::span<std::byte> whole_pages(std::span<std::byte> memory) {
  const auto start = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = (start + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uintptr_t last = (start + memory.size()) / kPageBytes * kPageBytes;
  if (last <= first) return {};
  return {memory.data() + (first - start), last - first};
}

}  // namespace

Prefault::Prefault(std::vector<std::span<std::byte>> memory, int num_threads, const CpuList& cpus)
    : cpus_(cpus) {
  for (const std::span<std::byte> piece : memory) {
    for (std::span<std::byte> rest = whole_pages(piece); !rest.empty();) {
      const size_t bytes = std::min(kChunk, rest.size());
      chunks_.push_back(rest.first(bytes));
      rest = rest.subspan(bytes);
    }
  }
  const ScopedSignalMask mask;
  try {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back(&Prefault::run, this);
  } catch (const std::exception&) {
    return;  // could not start more threads; those running, or first use, do the rest
  }
}

Prefault::~Prefault() {
  next_ = chunks_.size();
  wait();
}

void Prefault::wait() {
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Prefault::run() {
  cpus_.bind_this_thread();
  for (;;) {
    const size_t mine = next_.fetch_add(1);
    if (mine >= chunks_.size()) return;
    if (madvise(chunks_[mine].data(), chunks_[mine].size(), kPopulateWrite) != 0) return;
  }
}

}  // namespace rl

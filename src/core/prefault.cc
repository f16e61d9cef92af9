// One thread that asks the kernel to populate page tables chunk by chunk.
#include "core/prefault.h"

#include <sys/mman.h>

#include <algorithm>
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

Prefault::Prefault(std::vector<std::span<std::byte>> memory) : memory_(std::move(memory)) {
  const ScopedSignalMask mask;
  try {
    thread_ = std::thread(&Prefault::run, this);
  } catch (const std::exception&) {
    return;  // no thread to be had: first use pays
  }
}

Prefault::~Prefault() {
  stop_ = true;
  wait();
}

void Prefault::wait() {
  if (thread_.joinable()) thread_.join();
}

void Prefault::run() {
  for (const std::span<std::byte> piece : memory_) {
    std::span<std::byte> rest = whole_pages(piece);
    while (!rest.empty()) {
      if (stop_) return;
      const size_t bytes = std::min(kChunk, rest.size());
      if (madvise(rest.data(), bytes, kPopulateWrite) != 0) return;
      rest = rest.subspan(bytes);
    }
  }
}

}  // namespace rl

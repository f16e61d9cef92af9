// Resident bytes of a range of memory, and of the process; bytes of its heap.
#pragma once
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <vector>

namespace rl::testing {

// The range begins on a page boundary; a page that is only partly in the range counts whole.
inline uint64_t resident_bytes(std::span<const std::byte> range) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((range.size() + page - 1) / page);
  if (mincore(const_cast<std::byte*>(range.data()), range.size(), pages.data()) != 0) return 0;
  uint64_t bytes = 0;
  for (const unsigned char resident : pages) bytes += (resident & 1) * page;
  return bytes;
}

// Sanitizers keep freed memory and shadow memory, so the process size is meaningless.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kProcessIsMeasurable = false;
#else
inline constexpr bool kProcessIsMeasurable = true;
#endif

inline uint64_t resident_bytes_of_process() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Bytes that the heap has handed out.
inline int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace rl::testing

// Measured with mallinfo2 and /proc/self.
#include "gates/meter.h"

#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace gates {
namespace {

uint64_t entries(const char* dir) {
  const auto all = std::filesystem::directory_iterator(dir);
  return static_cast<uint64_t>(std::distance(begin(all), end(all)));
}

uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t lines_of(const char* path) {
  std::ifstream file(path);
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

constexpr uint64_t kHeapSlack = 16 << 10;  // up to 6 KiB were seen without a leak
constexpr uint64_t kResidentSlack = 8 << 20;
constexpr uint64_t kThreadSlack = 2;    // compute threads of the scenarios
constexpr uint64_t kMappingSlack = 32;  // malloc arenas, stacks of the threads above

}  // namespace

Meter measure() {
  malloc_trim(0);
  const auto heap = mallinfo2();
  return {heap.uordblks + heap.hblkhd, resident(), entries("/proc/self/task"),
          entries("/proc/self/fd"), lines_of("/proc/self/maps")};
}

std::string text_of(const Meter& m) {
  return "heap " + std::to_string(m.heap_bytes) + " resident " + std::to_string(m.resident_bytes) +
         " threads " + std::to_string(m.threads) + " descriptors " + std::to_string(m.descriptors) +
         " mappings " + std::to_string(m.mappings);
}

std::string growth(const Meter& before, const Meter& after) {
  std::string out;
  const auto bound = [&out](const char* what, uint64_t was, uint64_t is, uint64_t slack) {
    if (is <= was + slack) return;
    out += std::string(what) + " grew from " + std::to_string(was) + " to " + std::to_string(is) +
           ", by more than " + std::to_string(slack) + "\n";
  };
  bound("heap bytes", before.heap_bytes, after.heap_bytes, kHeapSlack);
  bound("resident bytes", before.resident_bytes, after.resident_bytes, kResidentSlack);
  bound("threads", before.threads, after.threads, kThreadSlack);
  bound("descriptors", before.descriptors, after.descriptors, 0);
  bound("mappings", before.mappings, after.mappings, kMappingSlack);
  return out;
}

}  // namespace gates

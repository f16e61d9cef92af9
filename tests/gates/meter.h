// What a process holds: heap and resident bytes, threads, descriptors, mappings; and whether that
// grew between two moments at which it should be the same.
#pragma once
#include <cstdint>
#include <string>

namespace gates {

struct Meter {
  uint64_t heap_bytes = 0;      // in use by malloc, mapped blocks too
  uint64_t resident_bytes = 0;  // of the process
  uint64_t threads = 0, descriptors = 0, mappings = 0;
};

Meter measure();
std::string text_of(const Meter& meter);

// A line for each figure that grew by more than what oneDNN and TBB keep at their own will: a cache
// of kernels that is full after the warm-up (the least leak of a call, 16 bytes in each of 90
// rounds, is below it; a leaked object is not), pages of arenas of malloc, and workers of TBB,
// which end some time after their work. Descriptors do not grow at all. Empty: nothing grew.
std::string growth(const Meter& before, const Meter& after);

}  // namespace gates

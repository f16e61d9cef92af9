// What a process uses: heap and resident bytes, threads, descriptors, mappings; and whether that
// grew between two moments at which it should be equal.
#pragma once
#include <cstdint>
#include <string>

namespace gates {

struct Meter {
  uint64_t heap_bytes = 0;      // in use by malloc, including mapped blocks
  uint64_t resident_bytes = 0;  // of the process
  uint64_t threads = 0, descriptors = 0, mappings = 0;
};

Meter measure();
std::string text_of(const Meter& meter);

// A line for each figure that grew by more than oneDNN and TBB keep at their own discretion: a
// kernel cache that is full after the warm-up (the smallest leak of a call, 16 bytes in each of 90
// rounds, is below it; a leaked object is not), pages of malloc arenas, and TBB workers, which end
// some time after their work. Descriptors must not grow at all. Empty: nothing grew.
std::string growth(const Meter& before, const Meter& after);

}  // namespace gates

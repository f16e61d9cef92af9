// Lets a test fail allocations made by librl.so itself. A site is the return address in librl.so
// of a call that allocates: operator new, directly or through libstdc++ (a growing string), mmap,
// and a thread. Not counted: allocations that libtbb, libdnnl, libhwy, libzstd and libpcre2 make
// on their own; memory of exceptions, for which the C++ run time keeps a reserve; and
// nlohmann/json, which as a header is part of librl.so, but whose values allocate in their
// destructors, so that a process without any memory would terminate there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gates {

// Finds the library that holds this address; its sites are counted from now on. False if it is
// stripped, so that nlohmann/json cannot be recognised.
bool watch_library_of(const void* address);

struct Site {
  uintptr_t offset = 0;  // in the library
  uint64_t hits = 0;
};
// Every site hit so far.
std::vector<Site> allocation_sites();

enum class Mode { kCount, kFailOnce, kFailFromThen };
// kFailOnce: the next allocation of the site fails; kFailFromThen: that one and all later ones of
// the library fail, until disarm.
void arm(Mode mode, uintptr_t site);
// Returns whether an allocation failed since arm.
bool disarm();

// Number of live blocks per site; and, as text, the sites that have more of them than at `marks`.
std::vector<uint64_t> live_marks();
std::string leaks_since(const std::vector<uint64_t>& marks);
// Bytes that the library has mapped and not unmapped.
int64_t live_mapped_bytes();

// The call stack of the last failed allocation, for a report; safe in a signal handler.
void print_failed_stack();

}  // namespace gates

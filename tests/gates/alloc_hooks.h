// Allocations that librl.so itself asks for, which a test can let fail. A site is the return
// address in librl.so of a call that allocates: operator new, directly or through libstdc++ (a
// growing string), mmap, and a thread. Not counted: what libtbb, libdnnl, libhwy, libzstd and
// libpcre2 ask for on their own; memory of exceptions, for which the C++ run time keeps a reserve;
// and nlohmann/json, a part of librl.so by being a header, whose values allocate in their
// destructors, so that a process without any memory ends there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gates {

// From now on the sites of the library that holds this address are known. False when it is
// stripped, so that nlohmann/json cannot be told apart.
bool watch_library_of(const void* address);

struct Site {
  uintptr_t offset = 0;  // in the library
  uint64_t hits = 0;
};
// Every site hit so far.
std::vector<Site> allocation_sites();

enum class Mode { kCount, kFailOnce, kFailFromThen };
// kFailOnce: the next allocation of the site fails; kFailFromThen: so do all of the library after
// it, until disarm.
void arm(Mode mode, uintptr_t site);
// Whether an allocation failed since arm.
bool disarm();

// Blocks of each site that live now; and sites that have more than they had then, as text.
std::vector<uint64_t> live_marks();
std::string leaks_since(const std::vector<uint64_t>& marks);
// Bytes that the library has mapped and not given back.
int64_t live_mapped_bytes();

// The call stack of the last failed allocation, for a report; safe in a signal handler.
void print_failed_stack();

}  // namespace gates

// The functions that code compiled with -fsanitize=thread calls before each access to memory. They
// take the place of ThreadSanitizer's library and check the access in the shadow memory.
#include <cstddef>
#include <cstdint>

#include "cuda_host/shadow_cells.h"

using rl::emulated::read_access;
using rl::emulated::write_access;

namespace {

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

#define RL_CALL_OUTS(bytes)                                                                   \
  void __tsan_read##bytes(void* address) { read_access(number(address), bytes); }             \
  void __tsan_write##bytes(void* address) { write_access(number(address), bytes); }           \
  void __tsan_volatile_read##bytes(void* address) { read_access(number(address), bytes); }    \
  void __tsan_volatile_write##bytes(void* address) { write_access(number(address), bytes); }  \
  void __tsan_unaligned_read##bytes(void* address) { read_access(number(address), bytes); }   \
  void __tsan_unaligned_write##bytes(void* address) { write_access(number(address), bytes); } \
  void __tsan_unaligned_volatile_read##bytes(void* address) {                                 \
    read_access(number(address), bytes);                                                      \
  }                                                                                           \
  void __tsan_unaligned_volatile_write##bytes(void* address) {                                \
    write_access(number(address), bytes);                                                     \
  }

extern "C" {

RL_CALL_OUTS(1)
RL_CALL_OUTS(2)
RL_CALL_OUTS(4)
RL_CALL_OUTS(8)
RL_CALL_OUTS(16)

// Structures of other sizes.
void __tsan_read_range(void* address, size_t bytes) { read_access(number(address), bytes); }
void __tsan_write_range(void* address, size_t bytes) { write_access(number(address), bytes); }

void __tsan_vptr_update(void** at, void*) { write_access(number(at), sizeof(void*)); }
void __tsan_vptr_read(void** at) { read_access(number(at), sizeof(void*)); }
// The one atomic operation: gcov's counters of what ran, where kernels are compiled with them. Only
// one thread runs kernels at a time.
uint64_t __tsan_atomic64_fetch_add(volatile uint64_t* counter, uint64_t more, int) {
  const uint64_t before = *counter;
  *counter = before + more;
  return before;
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

}  // extern "C"

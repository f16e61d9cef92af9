// Stacks, and the switch between two of them: own assembly where it exists, else ucontext.
#include "cuda_host/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace rl::emulated {
namespace {

uintptr_t map_stacks() {
  void* const base = mmap(nullptr, kStacksBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    std::perror("emulated GPU: no memory for stacks");
    std::abort();
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < kStacks; ++i)
    mprotect(static_cast<char*>(base) + i * kStackBytes, page, PROT_NONE);
  return stacks_begin = reinterpret_cast<uintptr_t>(base);
}

}  // namespace

uintptr_t stacks_base() {
  static const uintptr_t base = map_stacks();
  return base;
}

}  // namespace rl::emulated

#if defined(__x86_64__)

// Registers that a function keeps, then the stack pointer.
extern "C" void rl_switch_context(void** save, void* to);
asm(R"(
.text
.globl rl_switch_context
.hidden rl_switch_context
.type rl_switch_context, @function
rl_switch_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rl_switch_context, .-rl_switch_context
)");

namespace rl::emulated {

void* fresh_context(int stack, void (*entry)()) {
  const uintptr_t end = stacks_base() + (static_cast<size_t>(stack) + 1) * kStackBytes;
  void** const top = reinterpret_cast<void**>(end);
  // A function is entered with its return address on a stack that is aligned to 16 above it.
  top[-3] = nullptr;
  top[-4] = reinterpret_cast<void*>(entry);
  for (int i = 5; i <= 10; ++i) top[-i] = nullptr;
  return top - 10;
}

void switch_context(void** save, void* to) { rl_switch_context(save, to); }

}  // namespace rl::emulated

#else  // the C library's contexts, slower by a system call

#include <ucontext.h>

#include <array>

namespace rl::emulated {
namespace {

ucontext_t& context_of(void* handle) { return *static_cast<ucontext_t*>(handle); }

}  // namespace

void* fresh_context(int stack, void (*entry)()) {
  char* const base = reinterpret_cast<char*>(stacks_base() + stack * kStackBytes);
  // The context lies at the stack's upper end.
  constexpr size_t kRoom = (sizeof(ucontext_t) + 63) / 64 * 64;
  ucontext_t* const context = new (base + kStackBytes - kRoom) ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = base;
  context->uc_stack.ss_size = kStackBytes - kRoom;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

void switch_context(void** save, void* to) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, &context_of(to));
}

}  // namespace rl::emulated

#endif

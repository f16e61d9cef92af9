// Fibers: stacks of their own, between which a thread of the host switches without the kernel's
// help. Invariant: one host thread at a time uses them, under the emulation's lock. The stacks lie
// in one range, so that an address is known to be on a stack by one comparison; a page without
// access ends each.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rl::emulated {

inline constexpr size_t kStackBytes = size_t{128} << 10;
inline constexpr int kStacks = 1025;

// The address of the range of stacks; it is mapped at the first call.
uintptr_t stacks_base();
inline constexpr size_t kStacksBytes = kStackBytes * kStacks;
// The same once it is mapped; before, a range that has no address.
inline uintptr_t stacks_begin = ~uintptr_t{0} - kStackBytes * kStacks;

// A context that starts entry() on the stack with this index. entry() never returns.
void* fresh_context(int stack, void (*entry)());

// Saves the running context in *save and continues `to`.
void switch_context(void** save, void* to);

}  // namespace rl::emulated

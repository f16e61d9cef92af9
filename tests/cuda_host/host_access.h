// What the process says before it dies of an access that no CUDA device allows: the host touched
// device memory, or a kernel's thread ran out of its stack.
#pragma once

namespace rl::emulated {

// For the process, once. Called by the first allocation.
void watch_host_accesses();
// For the calling thread of the host, so that a full stack of a fiber can be reported.
void use_signal_stack();

}  // namespace rl::emulated

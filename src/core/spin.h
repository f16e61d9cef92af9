// One iteration of a busy-wait loop.
#pragma once
#if !defined(__x86_64__)
#include <thread>
#endif

namespace rl {

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace rl

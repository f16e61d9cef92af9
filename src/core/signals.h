// Signal masks. Every thread that librl starts has all signals masked, so that the host's handlers
// run on the host's threads only: start threads under a ScopedSignalMask.
#pragma once
#include <pthread.h>
#include <signal.h>

namespace rl {

inline void mask_all_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

// Blocks every signal in this thread for its lifetime, so that threads started meanwhile inherit
// the mask.
class ScopedSignalMask {
 public:
  ScopedSignalMask() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~ScopedSignalMask() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ScopedSignalMask(const ScopedSignalMask&) = delete;
  ScopedSignalMask& operator=(const ScopedSignalMask&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rl

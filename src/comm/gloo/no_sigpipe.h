// Gloo writes to sockets with writev, which raises SIGPIPE in the thread that writes when the other
// end is gone. In its scope this thread is spared: the signal is masked and taken back.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace rl {

class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    const sigset_t pipe = only_sigpipe();
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~NoSigpipe() {
    if (!was_pending_) {
      const sigset_t pipe = only_sigpipe();
      const timespec at_once{0, 0};
      while (sigtimedwait(&pipe, nullptr, &at_once) == SIGPIPE) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  static sigset_t only_sigpipe() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
  }
  sigset_t before_;
  bool was_pending_;
};

}  // namespace rl

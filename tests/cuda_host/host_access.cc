// One handler for the process; it says what it knows and lets the process die as it would without.
#include "cuda_host/host_access.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "cuda_host/block_run.h"
#include "cuda_host/emulated_memory.h"
#include "cuda_host/fibers.h"

namespace rl::emulated {
namespace {

constexpr size_t kSignalStackBytes = 64 << 10;

void say(const std::string& text) {
  const std::string line = "emulated GPU: " + text + "\n";
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

// Returns to the access, which then ends the process in the ordinary way.
void on_fault(int signal_number, siginfo_t* info, void*) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool in_kernel = inside_kernel();
  if (in_kernel && address - stacks_base() < kStacksBytes)
    say(std::string(running_place().kernel) + ": a thread needs more stack than the emulation has");
  else if (in_kernel)
    say(std::string(running_place().kernel) + ": unchecked access to " + describe_address(address));
  else if (in_arena(address))
    say("the host touched device memory: " + describe_address(address));
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

void watch_host_accesses() {
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

void use_signal_stack() {
  thread_local char stack[kSignalStackBytes];
  thread_local const bool set = [] {
    stack_t description{};
    description.ss_sp = stack;
    description.ss_size = kSignalStackBytes;
    return sigaltstack(&description, nullptr) == 0;
  }();
  static_cast<void>(set);
}

}  // namespace rl::emulated

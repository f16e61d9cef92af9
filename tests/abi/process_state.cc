// Snapshots by system calls and /proc; see process_state.h.
#include "abi/process_state.h"

#include <dlfcn.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <fstream>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

extern char** environ;

namespace abi_test {
namespace {

template <typename T>
std::string hex(const T& value) {
  std::string out;
  char digits[3];
  for (size_t i = 0; i < sizeof value; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", reinterpret_cast<const unsigned char*>(&value)[i]);
    out += digits;
  }
  return out;
}

std::string members(const sigset_t& set) {
  std::string out;
  for (int n = 1; n <= SIGRTMAX; ++n) out += sigismember(&set, n) == 1 ? '1' : '0';
  return out;
}

std::string status_line(const std::string& file, const std::string& field) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(field + ":", 0) == 0) return line;
  }
  return field + ": none";
}

void add_signals(State& out) {
  for (int n = 1; n <= SIGRTMAX; ++n) {
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    if (sigaction(n, nullptr, &action) != 0) continue;
    out["handler of signal " + std::to_string(n)] =
        std::to_string(reinterpret_cast<uintptr_t>(action.sa_handler)) + " flags " +
        std::to_string(action.sa_flags) + " mask " + members(action.sa_mask);
  }
  stack_t stack;
  std::memset(&stack, 0, sizeof stack);
  sigaltstack(nullptr, &stack);
  out["signal stack"] = std::to_string(reinterpret_cast<uintptr_t>(stack.ss_sp));
  out["signal mask"] = status_line("/proc/thread-self/status", "SigBlk");
}

void add_environment(State& out) {
  for (char** entry = environ; *entry != nullptr; ++entry) out[std::string("environ ") + *entry];
  out["locale"] = setlocale(LC_ALL, nullptr);
  out["decimal point"] = localeconv()->decimal_point;
  out["working directory"] = std::filesystem::current_path().string();
  out["umask"] = status_line("/proc/self/status", "Umask");
}

void add_arithmetic(State& out) {
  out["rounding mode"] = std::to_string(fegetround());
#if defined(__x86_64__)
  // Without the flags that say which exceptions were raised: arithmetic raises them.
  out["SSE control"] = std::to_string(_mm_getcsr() & ~0x3fu);
  uint16_t control = 0;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  out["x87 control"] = std::to_string(control);
#endif
  // Read from whichever OpenMP runtime the library brought along.
  using Count = int (*)();
  if (const auto count = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))) {
    out["OpenMP threads"] = std::to_string(count());
  }
}

void add_limits(State& out) {
  for (int n = 0; n < RLIM_NLIMITS; ++n) {
    rlimit limit{};
    getrlimit(static_cast<__rlimit_resource_t>(n), &limit);
    out["limit " + std::to_string(n)] = hex(limit);
  }
  for (const auto timer : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval value{};
    getitimer(timer, &value);
    out["timer " + std::to_string(timer)] = hex(value);
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  out["affinity"] = hex(cores);
  out["priority"] = std::to_string(getpriority(PRIO_PROCESS, 0));
  char name[64] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  out["name of the thread"] = name;
}

}  // namespace

State process_state() {
  State out;
  add_signals(out);
  add_environment(out);
  add_arithmetic(out);
  add_limits(out);
  return out;
}

State descriptors() {
  State out;
  for (int fd = 0; fd < 1024; ++fd) {
    char target[4096] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (readlink(link.c_str(), target, sizeof target - 1) >= 0) {
      out["descriptor " + std::to_string(fd)] = target;
    }
  }
  return out;
}

std::string difference(const State& before, const State& after) {
  std::string out;
  for (const auto& [name, value] : before) {
    const auto found = after.find(name);
    if (found == after.end()) {
      out += name + " (" + value + ") is gone\n";
    } else if (found->second != value) {
      out += name + " was " + value + " and is " + found->second + "\n";
    }
  }
  for (const auto& [name, value] : after) {
    if (before.count(name) == 0) out += name + " (" + value + ") is new\n";
  }
  return out;
}

std::string interruptible_threads() {
  std::string out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(getpid())) continue;
    const std::string line = status_line(task.path().string() + "/status", "SigBlk");
    uint64_t blocked = 0;
    if (std::sscanf(line.c_str(), "SigBlk: %" SCNx64, &blocked) != 1) continue;  // it just ended
    for (int n = 1; n <= SIGRTMAX; ++n) {
      const bool cannot = n == SIGKILL || n == SIGSTOP || (n > SIGSYS && n < SIGRTMIN);
      if (!cannot && (blocked >> (n - 1) & 1) == 0) {
        out += "thread " + task.path().filename().string() + " takes signal " + std::to_string(n) +
               "\n";
        break;
      }
    }
  }
  return out;
}

}  // namespace abi_test

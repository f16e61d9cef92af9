// Reports of a kind are cut off at a number, because one fault shows at many addresses.
#include "cuda_host/reports.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_host/block_run.h"

namespace rl::emulated {
namespace {

constexpr int kReportsOfKind = 20;

struct Collected {
  std::mutex mutex;
  std::vector<Report> reports;
  std::map<std::pair<std::string, Fault>, int> counts;
  std::string work = "the host";
};

// A program that no test watches, because it loads the emulation as a plugin, must not end well.
void end_with_reports();

Collected& collected() {
  static Collected& all = [&]() -> Collected& {
    std::atexit(&end_with_reports);
    return *new Collected;
  }();
  return all;
}

constexpr int kExitWithReports = 86;
void end_with_reports() {
  if (collected().reports.empty()) return;
  for (const Report& left : collected().reports)
    std::fprintf(stderr, "emulated GPU: %s\n", left.text.c_str());
  std::fflush(nullptr);
  _exit(kExitWithReports);
}

}  // namespace

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::kOutOfBounds:
      return "access out of bounds";
    case Fault::kFreed:
      return "access to freed memory";
    case Fault::kHostMemory:
      return "access to memory of the host";
    case Fault::kNeverWritten:
      return "read of memory that nothing wrote";
    case Fault::kMisaligned:
      return "misaligned access";
    case Fault::kRace:
      return "race of two threads";
    case Fault::kStreamRace:
      return "race of two streams";
    case Fault::kDivergentBarrier:
      return "divergent barrier";
    case Fault::kDivergentWarp:
      return "call of a warp that not all lanes make";
    case Fault::kBadLane:
      return "no such lane";
    case Fault::kCopyNotComplete:
      return "use of memory that a copy may still write";
    case Fault::kLaunch:
      return "launch that the device refuses";
    case Fault::kStackOverflow:
      return "stack overflow";
  }
  return "unknown fault";
}

void report(Fault fault, uint64_t address, const std::string& text) {
  Report made;
  made.fault = fault;
  made.address = address;
  made.kernel = collected().work;
  std::string place;
  if (inside_kernel()) {
    const Place here = running_place();
    made.kernel = here.kernel;
    made.thread = here.thread;
    for (int i = 0; i < 3; ++i) made.block[i] = here.block[i];
    place = " in block (" + std::to_string(here.block[0]) + ", " + std::to_string(here.block[1]) +
            ", " + std::to_string(here.block[2]) + "), thread " + std::to_string(here.thread);
  }
  made.text = made.kernel + ": " + fault_name(fault) + place + ": " + text;
  const std::lock_guard lock(collected().mutex);
  if (collected().counts[{made.kernel, fault}]++ < kReportsOfKind)
    collected().reports.push_back(std::move(made));
}

void set_running_work(const char* what) { collected().work = what; }

std::vector<Report> take_reports() {
  const std::lock_guard lock(collected().mutex);
  collected().counts.clear();
  return std::exchange(collected().reports, {});
}
void clear_reports() { take_reports(); }

}  // namespace rl::emulated

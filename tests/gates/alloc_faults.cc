// Every place in librl.so that allocates fails once, and then permanently, while the work of the
// four example programs runs on a tiny model. Each scenario ends with an error that says so, or as
// if nothing had failed; nothing crashes, hangs or is lost, and the next scenario works.
//
// usage: gate_alloc_faults MODEL DIRECTORY [PLAY [SITE]]      SITE: only that one
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "gates/alloc_hooks.h"
#include "gates/gate_scenarios.h"
#include "gates/linked_api.h"

namespace {

using gates::Mode;

constexpr unsigned kHangSeconds = 120;
constexpr double kSecondsOfPlay = 6;  // without RL_LONG: only every n-th site is tried then

char now_tried[128];

void on_crash(int number) {
  const char* const what = number == SIGALRM ? "hangs" : "crashed";
  for (const char* const part : {static_cast<const char*>(now_tried), " ", what, "\n"}) {
    if (write(STDOUT_FILENO, part, strlen(part)) < 0) break;
  }
  gates::print_failed_stack();
  _exit(1);
}

struct Run {
  bool failed = false;  // an allocation failed
  std::optional<gates::Failure> failure;
  uint64_t digest = 0;
  std::string leaks;
};

void clear(const gates::Place& place) {
  for (const char* name : {"/checkpoints", "/saved", "/samples.rlbuf"}) {
    std::filesystem::remove_all(place.dir + name);
  }
}

Run run_once(const gates::Api& rl, const gates::Scenario& scenario, const gates::Place& place,
             Mode mode, uintptr_t site) {
  Run out;
  clear(place);
  std::snprintf(now_tried, sizeof now_tried, "%s, +0x%lx failing %s", scenario.name, site,
                mode == Mode::kFailOnce ? "once" : "from then on");
  alarm(kHangSeconds);
  const auto marks = gates::live_marks();
  const int64_t mapped = gates::live_mapped_bytes();
  gates::arm(mode, site);
  try {
    out.digest = scenario.run(rl, place);
  } catch (const gates::Failure& failure) {
    out.failure = failure;
  }
  out.failed = gates::disarm();
  out.leaks = gates::leaks_since(marks);
  if (gates::live_mapped_bytes() != mapped) out.leaks += " mapped memory";
  alarm(0);
  return out;
}

struct Counts {
  size_t sites = 0, tried = 0, not_hit = 0, told = 0, survived = 0, problems = 0;
};

void judge(const Run& run, uint64_t expected, Counts& counts) {
  const auto complain = [&](const std::string& text) {
    std::printf("%s: %s\n", now_tried, text.c_str());
    gates::print_failed_stack();
    std::fflush(stdout);
    ++counts.problems;
  };
  if (!run.failed) {
    ++counts.not_hit;
    return;
  }
  if (run.failure.has_value()) {
    const rl_status status = run.failure->status;
    const bool memory = status == RL_OUT_OF_MEMORY || status == RL_RESOURCE_EXHAUSTED;
    if (!memory) complain(run.failure->function + " says " + run.failure->text);
    ++counts.told;
  } else {
    if (run.digest != expected) complain("the scenario went on and computed something else");
    ++counts.survived;
  }
  if (!run.leaks.empty()) complain("left behind:" + run.leaks);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sites that the scenario hits after a warm-up, which excludes one-time allocations.
std::vector<uintptr_t> sites_of(const gates::Api& rl, const gates::Scenario& scenario,
                                const gates::Place& place) {
  const auto before = gates::allocation_sites();
  clear(place);
  scenario.run(rl, place);
  std::vector<uintptr_t> out;
  for (const gates::Site& site : gates::allocation_sites()) {
    const auto same = [&](const gates::Site& old) { return old.offset == site.offset; };
    const auto old = std::find_if(before.begin(), before.end(), same);
    if (old == before.end() || old->hits != site.hits) out.push_back(site.offset);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Counts try_scenario(const gates::Api& rl, const gates::Scenario& scenario,
                    const gates::Place& place, uintptr_t only) {
  Counts counts;
  clear(place);
  scenario.run(rl, place);
  const auto start = Clock::now();  // of a scenario after one-time allocations
  const uint64_t expected = run_once(rl, scenario, place, Mode::kCount, 0).digest;
  const double one = seconds_since(start);
  std::vector<uintptr_t> sites = sites_of(rl, scenario, place);
  counts.sites = sites.size();
  size_t stride = 1;
  if (std::getenv("RL_LONG") == nullptr) {
    stride = static_cast<size_t>(2 * one * double(sites.size()) / kSecondsOfPlay) + 1;
  }
  for (size_t i = 0; i < sites.size(); ++i) {
    if (only != 0 ? sites[i] != only : i % stride != 0) continue;
    for (const Mode mode : {Mode::kFailOnce, Mode::kFailFromThen}) {
      judge(run_once(rl, scenario, place, mode, sites[i]), expected, counts);
    }
    ++counts.tried;
  }
  const Run last = run_once(rl, scenario, place, Mode::kCount, 0);
  if (last.failure.has_value() || last.digest != expected) {
    std::printf("%s does not work any more\n", scenario.name);
    ++counts.problems;
  }
  return counts;
}

int run(const gates::Place& place, const std::string& name, uintptr_t only) {
  gates::prepare(place);
  const gates::Api rl = gates::linked_api();
  if (!gates::watch_library_of(reinterpret_cast<const void*>(rl.rl_abi_version))) {
    std::printf("skipped: the library has no symbols\n");
    return 0;
  }
  size_t problems = 0, told = 0;
  for (const gates::Scenario& scenario : gates::scenarios()) {
    if (!name.empty() && name != scenario.name) continue;
    const auto start = Clock::now();
    const Counts c = try_scenario(rl, scenario, place, only);
    std::printf(
        "%s: %zu of %zu sites, each once and for ever: %zu errors told, %zu did without, "
        "%zu not reached again, %zu problems, %.1f s\n",
        scenario.name, c.tried, c.sites, c.told, c.survived, c.not_hit, c.problems,
        seconds_since(start));
    std::fflush(stdout);
    problems += c.problems;
    told += c.told;
  }
  return problems == 0 && told > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) signal(number, on_crash);
  return gates::reported([&] {
    return run({argv[1], argv[2]}, argc > 3 ? argv[3] : "",
               argc > 4 ? std::strtoul(argv[4], nullptr, 16) : 0);
  });
}

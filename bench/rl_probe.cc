// Prints the machine's limits as one JSON object. Its own program, so that a training process can be compared with
// limits taken just before and after it without sharing its memory or threads.
#include <cstdio>
#include <exception>

#include "bench/probe.h"

int main() {
  try {
    std::puts(rl::bench::to_json(rl::bench::run_probes({})).c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rl_probe: %s\n", e.what());
    return 1;
  }
}

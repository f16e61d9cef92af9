// Prints the machine's limits as one JSON object. A separate program, so that a training process
// can be compared with limits taken just before and after it without sharing its memory or
// threads. With --quick it uses a small buffer and short GEMMs, which only prove that it runs: the
// figures are not limits.
#include <cstdio>
#include <cstring>
#include <exception>

#include "bench/probe.h"

int main(int argc, char** argv) {
  rl::bench::ProbeOptions options;
  if (argc == 2 && std::strcmp(argv[1], "--quick") == 0) {
    options.read_bytes = uint64_t{32} << 20;
    options.read_passes = 1;
    options.matmul_seconds = 0.01;
  } else if (argc != 1) {
    std::fprintf(stderr, "usage: rl_probe [--quick]\n");
    return 1;
  }
  try {
    std::puts(rl::bench::to_json(rl::bench::run_probes(options)).c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rl_probe: %s\n", e.what());
    return 1;
  }
}

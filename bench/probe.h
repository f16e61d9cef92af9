// Probes of the machine's limits: memory read and matrix multiplication on all cores. Every fraction of a limit that
// the project reports is against these figures, and every probe lives in this file's probe.cc.
//
// Invariant: a probe is the best of several ways to do the thing, so that a limit is never understated by one
// unlucky access pattern or shape.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rl::bench {

struct Probe {
  std::string name;  // the pattern or shape
  double value;      // bytes/s, or FLOP/s (a multiply-add is two)
};

struct ProbeReport {
  int threads = 0;
  std::string matmul_dtype;           // bf16 where the CPU has the dot product, else f32
  std::vector<Probe> reads;           // bytes read a second, best pass of each pattern
  std::vector<Probe> matmuls;         // FLOP/s over a second of each shape
  double read_bytes_per_s() const;    // best of reads
  double matmul_flops() const;        // best of matmuls
};

struct ProbeOptions {
  int threads = 0;  // 0: every core this process may use
  uint64_t read_bytes = uint64_t{1} << 30;
  int read_passes = 10;
  double matmul_seconds = 1.0;  // per shape
};
ProbeReport run_probes(const ProbeOptions& options);

// The report as one JSON object.
std::string to_json(const ProbeReport& report);

}  // namespace rl::bench

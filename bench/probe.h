// Probes of the machine's limits: memory read and GEMM on all cores. Every fraction of a limit
// that the project reports is relative to these figures, and every probe is in this file's
// probe.cc.
//
// Invariant: a probe is the best of several ways to do the same thing, so that one unlucky access
// pattern or shape never understates a limit.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rl::bench {

struct Probe {
  std::string name;  // the pattern or shape
  double value;      // bytes/s, or FLOP/s (a multiply-add is two)
};

struct ProbeReport {
  int threads = 0;
  std::string matmul_dtype;         // bf16 if the CPU has the dot product, else f32
  std::vector<Probe> reads;         // bytes read per second, best pass of each pattern
  std::vector<Probe> matmuls;       // FLOP/s over a second of each shape
  double read_bytes_per_s() const;  // best of reads
  double matmul_flops() const;      // best of matmuls
};

struct ProbeOptions {
  int threads = 0;          // 0: every core this process may use
  uint64_t read_bytes = 0;  // 0: at least 1 GiB and four times the LLC
  int read_passes = 10;
  double matmul_seconds = 1.0;  // per shape
};
ProbeReport run_probes(const ProbeOptions& options);

// The report as one JSON object.
std::string to_json(const ProbeReport& report);

// The same limits in small samples, taken between parts of the work that is compared with them: a
// shared machine changes speed from second to second, and a limit measured at another time would
// be meaningless. A limit is the best pattern's or shape's mean over the samples since reset():
// all bytes or operations over all time.
class LimitMeter {
 public:
  struct Limits {
    double matmul_flops, read_bytes_per_s;
  };
  explicit LimitMeter(bool quick);
  ~LimitMeter();
  void sample();  // about 30 ms
  Limits limits() const;
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl::bench

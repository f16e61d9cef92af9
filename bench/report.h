// What a bench program measured, the work that any machine must do for it, and the machine's limits at that moment: W
// and F are the best of the probes that this process ran just before and just after, since shared machines change speed
// from minute to minute. tools/bench_report.py makes the limit units / (serial_bytes / W + max(bytes / W, flop / F)) of
// them. A metric that has a fixed goal instead (a time, a size) carries it as `limit`.
#pragma once
#include <string>
#include <vector>

#include "bench/probe.h"
#include "model/model_config.h"

namespace rl::bench {

// Work of `units` produced tokens, by the formulas of docs/benchmarks.md.
struct Work {
  double units = 0;
  double flop = 0;
  double bytes = 0;         // weights, read while the products run
  double serial_bytes = 0;  // keys and values, read by attention while no product runs
};

// Matmul parameters a token passes: all layers, and the head.
double layer_parameters(const ModelConfig& config);
double head_parameters(const ModelConfig& config);

Work training_work(const ModelConfig& config, int64_t tokens, int64_t sequence_tokens);
Work prefill_work(const ModelConfig& config, int64_t sequences, int64_t sequence_tokens);
// One decode step of `sequences` at mean context `context`; weights and KV of `item_bytes` an element.
Work decode_work(const ModelConfig& config, int64_t sequences, double context, double item_bytes);

struct Measurement {
  std::string name;
  double value;
  std::string unit;
  Work work;         // units > 0: the limit follows from the probes
  double limit = 0;  // otherwise the goal that value must not exceed
};

class Report {
 public:
  // Probes once now; quick probes only prove that they run.
  explicit Report(bool quick);
  // A measurement with work was just taken: probes again.
  void add(Measurement m);
  // Writes one JSON object, metric name to measurement; throws when the file cannot be written.
  void write(const std::string& path) const;

 private:
  struct Limits {
    double matmul_flops = 0, read_bytes_per_s = 0;
  };
  struct Entry {
    Measurement measured;
    Limits limits;
  };
  Limits probe() const;
  ProbeOptions options_;
  Limits before_;
  std::vector<Entry> entries_;
};

}  // namespace rl::bench

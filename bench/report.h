// What a bench program measured, and the work that any machine must do for it. The limit is not known here: it is
// units / max(bytes / W, flop / F) with the probes' W and F, and tools/bench_report.py joins the two. A metric that
// has a fixed goal instead (a time, a size) carries it as `limit`.
#pragma once
#include <string>
#include <vector>

#include "model/model_config.h"

namespace rl::bench {

// Work of `units` produced tokens, by the formulas of docs/benchmarks.md.
struct Work {
  double units = 0;
  double flop = 0;
  double bytes = 0;
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
  void add(Measurement m);
  // Writes one JSON object, metric name to measurement; throws when the file cannot be written.
  void write(const std::string& path) const;

 private:
  std::vector<Measurement> measurements_;
};

}  // namespace rl::bench

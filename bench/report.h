// What a bench program measured, the work that any machine must do for it, and the machine's
// limits at that time: W and F are sampled between parts of the timed work (bench/probe.h). For
// every repeat tools/bench_report.py computes the limit units / (serial_bytes / W + max(bytes / W,
// flop / F)) from them, and takes the repeat with the median fraction. A metric with a fixed goal
// instead (a time, a size, a ratio) carries the goal.
#pragma once
#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/probe.h"
#include "formats/model_config.h"

namespace rl::bench {

// The work for `units` produced tokens, by the formulas of docs/benchmarks.md.
struct Work {
  double units = 0;
  double flop = 0;
  double bytes = 0;         // weights, read while GEMMs run
  double serial_bytes = 0;  // keys and values, read by attention while no GEMM runs
};

// Matmul parameters used per token: all layers, and the head.
double layer_parameters(const ModelConfig& config);
double head_parameters(const ModelConfig& config);

Work training_work(const ModelConfig& config, int64_t tokens, int64_t sequence_tokens);
Work prefill_work(const ModelConfig& config, int64_t sequences, int64_t sequence_tokens);
// One decode step of `sequences` at mean context `context`; weights and KV have `item_bytes` per
// element.
Work decode_work(const ModelConfig& config, int64_t sequences, double context, double item_bytes);

// The time that work took, without the limit samples in between.
class MeteredTime {
 public:
  explicit MeteredTime(LimitMeter& meter) : meter_(meter) {}
  // Times one part of the work; a sample follows if the last one was some time ago.
  template <typename Work>
  void add(Work&& work) {
    const Clock::time_point start = Clock::now();
    work();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    seconds_ += took;
    since_sample_ += took;
    if (since_sample_ < kSampleSeconds) return;
    meter_.sample();
    since_sample_ = 0;
  }
  double seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSampleSeconds = 0.1;
  LimitMeter& meter_;
  double seconds_ = 0, since_sample_ = 0;
};

// Which side of its goal the value of a metric without work must be on.
enum class Goal { kAtMost, kAtLeast };

class Report {
 public:
  explicit Report(bool quick) : meter_(quick) {}

  // One more repeat of a metric: run(time) does the work through time.add and returns the number
  // of units produced.
  template <typename Run>
  void repeat(const std::string& name, const Work& work, Run&& run) {
    meter_.reset();
    meter_.sample();
    MeteredTime time(meter_);
    const double units = run(time);
    meter_.sample();
    add_repeat(name, work, units / time.seconds());
  }
  void add(const std::string& name, double value, const std::string& unit, double goal, Goal side);
  // Writes one JSON object, metric name to measurement; throws if the file cannot be written.
  void write(const std::string& path) const;

 private:
  struct Repeat {
    double value;
    Work work;
    LimitMeter::Limits limits;
  };
  struct Entry {
    std::string name, unit;
    std::vector<Repeat> repeats;  // of a metric with work
    double value = 0, goal = 0;   // of a metric without
    Goal side = Goal::kAtMost;
  };
  void add_repeat(const std::string& name, const Work& work, double value);
  static void write_entry(std::ostream& out, const Entry& entry);
  LimitMeter meter_;
  std::vector<Entry> entries_;
};

}  // namespace rl::bench

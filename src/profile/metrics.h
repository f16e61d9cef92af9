// A list of named numbers in a fixed order: the metrics of a step. Names follow verl's where it has
// one ("actor/pg_loss"). Names under "timing_s/" and "perf/" hold measured times and vary from run
// to run; all others are the same in every run of one configuration.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rl {

struct Metric {
  std::string name;
  double value = 0;
};

class MetricList {
 public:
  // Sets a value; a new name goes to the end.
  void set(std::string_view name, double value);
  void append(const MetricList& other);
  std::optional<double> get(std::string_view name) const;
  size_t size() const { return items_.size(); }
  const Metric& at(size_t index) const { return items_.at(index); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  // One JSON object without a line end. A value that is not finite is written as null.
  std::string to_json() const;
  // The list without names that vary from run to run.
  MetricList without_times() const;

 private:
  std::vector<Metric> items_;
};

}  // namespace rl

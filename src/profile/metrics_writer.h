// A file of records of a run: one JSON object a line, each with its step. The metrics file has one
// line a step; evaluations and answers have files of their own. Invariant: steps never fall from
// line to line, also after a resume, which first cuts off lines of steps that it will do again.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/fs.h"
#include "profile/metrics.h"

namespace rl {

// The metric every line begins with.
inline constexpr const char* kStepMetric = "training/global_step";
// Lines with this metric are of an engine within the step, all others of steps.
inline constexpr const char* kEngineMetric = "perf/engine/number";

class MetricsWriter {
 public:
  // Keeps the lines of an existing file up to keep_steps; 0 starts an empty file. A last line
  // without its end, as a crash leaves it, is cut off; any other broken line is Error(kDataLoss)
  // naming file and line.
  MetricsWriter(FileSystem& fs, std::string path, uint64_t keep_steps);
  ~MetricsWriter();
  // The errors of the constructor's reading, without a change to the file.
  static void check(FileSystem& fs, const std::string& path, uint64_t keep_steps);

  // Adds a line. metrics has kStepMetric.
  void write(const MetricList& metrics);
  // Adds a JSON object, without a line end, that has kStepMetric.
  void write_line(std::string_view json);
  // Bytes of the file.
  uint64_t size() const { return size_; }
  // Makes the lines durable and ends writing.
  void close();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<OutputFile> file_;
  uint64_t size_ = 0;
};

}  // namespace rl

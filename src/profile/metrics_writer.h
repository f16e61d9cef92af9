// A file of records of a run: one JSON object per line, each with its step. The metrics file has
// one line per step; evaluations and responses have their own files. Invariant: steps never
// decrease from line to line, not even after a resume, which first removes the lines of steps that
// it will repeat.
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
// Lines with this metric are per engine within a step, all others per step.
inline constexpr const char* kEngineMetric = "perf/engine/number";

class MetricsWriter {
 public:
  // Keeps the lines of an existing file up to keep_steps; 0 starts an empty file. An unterminated
  // last line, as left by a crash, is removed; any other broken line is Error(kDataLoss) naming
  // file and line.
  MetricsWriter(FileSystem& fs, std::string path, uint64_t keep_steps);
  ~MetricsWriter();
  // Reports the errors that the constructor would find, without changing the file.
  static void check(FileSystem& fs, const std::string& path, uint64_t keep_steps);

  // Appends a line. metrics must contain kStepMetric.
  void write(const MetricList& metrics);
  // Appends a JSON object, without a line end, that contains kStepMetric.
  void write_line(std::string_view json);
  // Size of the file in bytes.
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

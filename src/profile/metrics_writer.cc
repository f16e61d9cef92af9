// On a resume the kept lines are rewritten atomically, then lines are appended.
#include "profile/metrics_writer.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace rl {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

uint64_t step_of_line(std::string_view line, const std::string& location) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains(kStepMetric) || !json[kStepMetric].is_number_unsigned()) {
    throw Error(Code::kDataLoss,
                str("line ", location, " of the metrics file is not a JSON object with \"",
                    kStepMetric, "\"; move the file away to continue"))
        .with_location(location);
  }
  return json[kStepMetric].get<uint64_t>();
}

std::string kept_lines(const std::string& text, const std::string& path, uint64_t keep_steps) {
  std::string kept;
  size_t begin = 0, number = 1;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++number) {
    const std::string_view line(text.data() + begin, end - begin);
    if (step_of_line(line, str(path, ":", number)) > keep_steps) break;
    kept.append(line).push_back('\n');
  }
  return kept;
}

}  // namespace

void MetricsWriter::check(FileSystem& fs, const std::string& path, uint64_t keep_steps) {
  if (keep_steps == 0 || !fs.exists(path)) return;
  kept_lines(read_text_file(fs, path, kMaxBytes), path, keep_steps);
}

MetricsWriter::MetricsWriter(FileSystem& fs, std::string path, uint64_t keep_steps)
    : path_(std::move(path)) {
  if (keep_steps == 0 || !fs.exists(path_)) {
    file_ = fs.create(path_);
    return;
  }
  const std::string text = read_text_file(fs, path_, kMaxBytes);
  const std::string kept = kept_lines(text, path_, keep_steps);
  write_file_atomically(fs, path_, kept);
  size_ = kept.size();
  file_ = fs.append_to(path_);
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(const MetricList& metrics) {
  RL_CHECK(metrics.get(kStepMetric).has_value());
  write_line(metrics.to_json());
}

void MetricsWriter::write_line(std::string_view json) {
  const std::string line = str(json, "\n");
  file_->append(std::as_bytes(std::span(line)));
  size_ += line.size();
}

void MetricsWriter::close() {
  try {
    file_->sync();
  } catch (const Error&) {
    file_->close();  // what was written is still of use
    throw;
  }
  file_->close();
}

}  // namespace rl

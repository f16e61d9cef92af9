// Each line is parsed separately, so a broken one does not affect others.
#include "report/report_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "profile/metrics_writer.h"

namespace rl {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr size_t kMaxColumns = 512;
constexpr size_t kMaxNotes = 20;
constexpr double kLargest = 1e100;  // no plot has a larger axis
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Collects the columns of one file.
class TableReader {
 public:
  TableReader(std::string name, ReadNotes& notes) : name_(std::move(name)), notes_(notes) {}

  void line(size_t number, std::string_view text) {
    const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains(kStepMetric) ||
        !json[kStepMetric].is_number_unsigned()) {
      notes_.add(str(name_, ": line ", number, " is not a JSON object with \"", kStepMetric,
                     "\" and is skipped"));
      return;
    }
    if (json.contains(kEngineMetric)) return;
    begin_step(json[kStepMetric].get<uint64_t>());
    for (const auto& [key, value] : json.items()) {
      if (key == kStepMetric || value.is_null()) continue;
      if (value.is_number()) {
        set(key, value.get<double>());
      } else {
        ++not_numbers_[key];
      }
    }
  }

  StepTable finish() {
    for (const auto& [key, count] : not_numbers_) {
      notes_.add(str(name_, ": \"", key.substr(0, 80), "\" is not a number in ", count, " lines"));
    }
    if (too_large_ > 0) {
      notes_.add(str(name_, ": ", too_large_, " values beyond ", kLargest, " are omitted"));
    }
    if (again_ > 0) {
      notes_.add(str(name_, ": ", again_, " lines were replaced by later ones of a resumed run"));
    }
    if (left_out_) notes_.add(str(name_, ": only the first ", kMaxColumns, " metrics are shown"));
    return std::move(table_);
  }

 private:
  void begin_step(uint64_t step) {
    const auto at = std::lower_bound(table_.steps.begin(), table_.steps.end(), step);
    const auto keep = static_cast<size_t>(at - table_.steps.begin());
    again_ += table_.steps.size() - keep;
    table_.steps.resize(keep);
    table_.steps.push_back(step);
    for (auto& column : table_.columns) {
      column.values.resize(keep);
      column.values.push_back(kNone);
    }
  }

  void set(const std::string& key, double value) {
    const auto found = index_.find(key);
    size_t i = found == index_.end() ? table_.columns.size() : found->second;
    if (found == index_.end()) {
      left_out_ = left_out_ || i == kMaxColumns;
      if (i == kMaxColumns) return;
      index_[key] = i;
      table_.columns.push_back({key, std::vector<double>(table_.steps.size(), kNone)});
    }
    if (std::fabs(value) <= kLargest) {
      table_.columns[i].values.back() = value;
    } else {
      ++too_large_;
    }
  }

  std::string name_;
  ReadNotes& notes_;
  StepTable table_;
  std::map<std::string, size_t> index_;
  std::map<std::string, size_t> not_numbers_;
  size_t again_ = 0, too_large_ = 0;
  bool left_out_ = false;
};

}  // namespace

void ReadNotes::add(std::string sentence) {
  if (kept_.size() < kMaxNotes) {
    kept_.push_back(std::move(sentence));
  } else {
    ++more_;
  }
}

std::vector<std::string> ReadNotes::sentences() const {
  std::vector<std::string> out = kept_;
  if (more_ > 0) out.push_back(str("and ", more_, " more like these"));
  return out;
}

const std::vector<double>* StepTable::find(std::string_view name) const {
  for (const Column& c : columns) {
    const auto known = [](double v) { return std::isfinite(v); };
    if (c.name == name && std::any_of(c.values.begin(), c.values.end(), known)) return &c.values;
  }
  return nullptr;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void for_each_line(FileSystem& fs, const std::string& path, ReadNotes& notes,
                   const LineFunction& line) {
  std::string text;
  try {
    text = read_text_file(fs, path, kMaxBytes);
  } catch (const Error& e) {
    return notes.add(str(file_name(path), " could not be read: ", code_name(e.code)));
  }
  size_t begin = 0, number = 1;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    line(number++, std::string_view(text).substr(begin, end - begin));
  }
  if (begin == text.size()) return;
  notes.add(
      str(file_name(path), ": line ", number, " is incomplete, as after a crash, and is skipped"));
}

StepTable read_step_table(FileSystem& fs, const std::string& path, ReadNotes& notes) {
  TableReader reader(file_name(path), notes);
  for_each_line(fs, path, notes,
                [&](size_t number, std::string_view text) { reader.line(number, text); });
  return reader.finish();
}

size_t bin_width(size_t num_steps, size_t max_points) {
  return std::max<size_t>(1, (num_steps + max_points - 1) / max_points);
}

std::vector<PlotPoint> bin_steps(const std::vector<uint64_t>& steps,
                                 const std::vector<double>& values, size_t max_points) {
  RL_CHECK(steps.size() == values.size() && max_points > 0);
  const size_t width = bin_width(steps.size(), max_points);
  std::vector<PlotPoint> points;
  for (size_t begin = 0; begin < steps.size(); begin += width) {
    const size_t end = std::min(begin + width, steps.size());
    PlotPoint p{static_cast<double>(steps[begin]), static_cast<double>(steps[end - 1]), kNone,
                kNone, kNone};
    double sum = 0, count = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      p.low = count == 0 ? values[i] : std::min(p.low, values[i]);
      p.high = count == 0 ? values[i] : std::max(p.high, values[i]);
      ++count;
    }
    if (count > 0) p.mean = sum / count;
    points.push_back(p);
  }
  return points;
}

}  // namespace rl

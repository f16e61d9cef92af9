// Reads the files of a run's metrics into columns by step, and bins columns for plots. Files come
// from outside: what cannot be read is left out and named, never guessed. Bins are honest: each
// keeps the smallest and the largest value that it stands for.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"

namespace rl {

// What could not be read, as sentences. Bounded: further ones are counted.
class ReadNotes {
 public:
  void add(std::string sentence);
  std::vector<std::string> sentences() const;

 private:
  std::vector<std::string> kept_;
  size_t more_ = 0;
};

// Values by step; NaN where a line has none.
struct StepTable {
  struct Column {
    std::string name;
    std::vector<double> values;  // one per step
  };
  std::vector<uint64_t> steps;  // growing
  std::vector<Column> columns;  // in the order in which they first appear

  // Null when no line has such a number.
  const std::vector<double>* find(std::string_view name) const;
};

// The last part of a path: reports travel, and name no directory of the machine.
std::string file_name(const std::string& path);

// Calls line with number and text of each whole line of a file of a run; never, with a note, when
// it cannot be read.
using LineFunction = std::function<void(size_t number, std::string_view text)>;
void for_each_line(FileSystem& fs, const std::string& path, ReadNotes& notes,
                   const LineFunction& line);

// A step that stands in the file again was done again, after a resume: the later line counts, and
// lines of the steps after it that stand before it do not. Lines of engines are left out.
StepTable read_step_table(FileSystem& fs, const std::string& path, ReadNotes& notes);

// Neighbouring steps in one place of a plot.
struct PlotPoint {
  double first = 0, last = 0;          // steps
  double mean = 0, low = 0, high = 0;  // NaN: no step of the bin has a value
};
// At most max_points bins of equally many steps each.
std::vector<PlotPoint> bin_steps(const std::vector<uint64_t>& steps,
                                 const std::vector<double>& values, size_t max_points);
// Steps that a bin stands for.
size_t bin_width(size_t num_steps, size_t max_points);

}  // namespace rl

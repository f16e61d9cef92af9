// Reads a run's metrics files into columns by step, and bins columns for plots. Files are external:
// what cannot be read is left out and reported, never guessed. Each bin keeps the smallest and the
// largest of its values.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"

namespace rl {

// What could not be read, as sentences. Bounded: beyond that, sentences are only counted.
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
  std::vector<uint64_t> steps;  // ascending
  std::vector<Column> columns;  // in order of first appearance

  // Null if no line has a number of this name.
  const std::vector<double>* find(std::string_view name) const;
};

// The last part of a path: reports are passed on and must not reveal directories of the machine.
std::string file_name(const std::string& path);

// Calls line with number and text for each complete line of a run's file; if the file cannot be
// read, only adds a note.
using LineFunction = std::function<void(size_t number, std::string_view text)>;
void for_each_line(FileSystem& fs, const std::string& path, ReadNotes& notes,
                   const LineFunction& line);

// A step that reappears in the file was repeated after a resume: the later line counts, and earlier
// lines of that or later steps do not. Engine lines are left out.
StepTable read_step_table(FileSystem& fs, const std::string& path, ReadNotes& notes);

// Neighbouring steps in one bin of a plot.
struct PlotPoint {
  double first = 0, last = 0;          // steps
  double mean = 0, low = 0, high = 0;  // NaN: no step of the bin has a value
};
// At most max_points bins of equally many steps each.
std::vector<PlotPoint> bin_steps(const std::vector<uint64_t>& steps,
                                 const std::vector<double>& values, size_t max_points);
// Steps per bin.
size_t bin_width(size_t num_steps, size_t max_points);

}  // namespace rl

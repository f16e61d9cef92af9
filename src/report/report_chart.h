// Plots by step: lines, and the parts of a whole.
#pragma once
#include <string>
#include <vector>

#include "report/report_figure.h"
#include "report/report_series.h"

namespace rl {

// Points of a plot at most; longer runs are binned.
inline constexpr size_t kMaxPlotPoints = 120;

struct PlotLine {
  std::string name;
  int color = 1;  // 1 to 8
  std::vector<PlotPoint> points;
};

// Lines by step; bins of several steps get a band from their smallest to their largest value. dots
// marks every point, for few of them. No points at all is a plot that says so.
std::string render_line_plot(const PlotFrame& frame, const std::vector<PlotLine>& lines, bool dots);

// The parts of a whole, by step, one above the other. A part without a value counts as none.
std::string render_stacked_plot(const PlotFrame& frame, const std::vector<PlotLine>& parts);

}  // namespace rl

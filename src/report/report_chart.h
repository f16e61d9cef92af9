// Plots by step: lines, and stacked parts of a whole.
#pragma once
#include <string>
#include <vector>

#include "report/report_figure.h"
#include "report/report_series.h"

namespace rl {

// Most points of a plot; longer runs are binned.
inline constexpr size_t kMaxPlotPoints = 120;

struct PlotLine {
  std::string name;
  int color = 1;  // 1 to 8
  std::vector<PlotPoint> points;
};

// Lines by step; a bin of several steps gets a band from its smallest to its largest value. dots
// marks every point, for plots with few. Without points the plot says so.
std::string render_line_plot(const PlotFrame& frame, const std::vector<PlotLine>& lines, bool dots);

// The parts of a whole, by step, stacked. A part without a value counts as 0.
std::string render_stacked_plot(const PlotFrame& frame, const std::vector<PlotLine>& parts);

}  // namespace rl

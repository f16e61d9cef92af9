// Plots whose x axis is not the step: bars of sizes, and lanes of work over time.
#pragma once
#include <string>
#include <vector>

#include "report/report_figure.h"

namespace rl {

// Horizontal bars, each with its name and value above it.
struct PlotBar {
  std::string name, value;
  double length = 0;  // 0 to 1
  int color = 1;
  double mark = -1;                // a second length, as a line across the bar; negative: none
  std::vector<std::string> cells;  // of its table row
};
std::string render_bar_plot(const PlotFrame& frame, const std::vector<std::string>& header,
                            const std::vector<PlotBar>& bars);

// Work on lanes, between 0 and 1 of a time span.
struct PlotLane {
  struct Work {
    std::string name;
    int color = 1;
    double begin = 0, end = 0;
    std::string time;
  };
  std::string name;
  std::vector<Work> work;
};
std::string render_lane_plot(const PlotFrame& frame, const std::vector<PlotLane>& lanes,
                             const std::vector<PlotKey>& keys, const std::string& length);

}  // namespace rl

// What every plot of the report shares around its svg: a figure with caption, a key, and a table of
// the values. The svg has title and description. x positions are percentages and text keeps its
// size, so a plot is equally readable on a phone and on a desktop. Colours 1 to 8 come from the
// page's style. Texts passed in are plain and are escaped on output.
#pragma once
#include <string>
#include <vector>

namespace rl {

// id is unique in the page.
struct PlotFrame {
  std::string id, title, note;
  std::string unit;      // of the values
  size_t bin_width = 1;  // steps per bin
  bool wide = false;
};

struct PlotKey {
  std::string name;
  int color = 1;
};

// Left of the plot: nothing, or room for axis values.
enum class Margin { kNone, kValues };

inline constexpr size_t kMaxTableRows = 25;

// A coordinate in pixels, and a share of the width in percent.
std::string px(double value);
std::string percent(double share);

// Opens figure, div and svg; the caller appends the closing tags.
std::string open_figure(const PlotFrame& f, double height, Margin margin,
                        const std::string& description);
std::string values_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows);
// The colour key, each entry with a figure that may be empty.
std::string key_of(const std::vector<PlotKey>& keys, const std::vector<std::string>& figures,
                   const PlotFrame& f);
// A complete figure that says that there is nothing to show.
std::string empty_figure(const PlotFrame& f, double height);

}  // namespace rl

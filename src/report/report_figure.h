// What every plot of the report has around its svg: a figure with caption, a key, and a table of
// the values. The svg has title and description. Places along x are percentages and text has its
// own size, so a plot is as readable on a phone as on a desk. Colours come from the page's style,
// 1 to 8. Texts are plain here and escaped on their way out.
#pragma once
#include <string>
#include <vector>

namespace rl {

// id is unique in the page.
struct PlotFrame {
  std::string id, title, note;
  std::string unit;      // of the values
  size_t bin_width = 1;  // steps that a place stands for
  bool wide = false;
};

struct PlotKey {
  std::string name;
  int color = 1;
};

// Left of the plot: nothing, or room for the values of an axis.
enum class Margin { kNone, kValues };

inline constexpr size_t kMaxTableRows = 25;

// A coordinate, and a share of the width.
std::string px(double value);
std::string percent(double share);

// From the figure to the open svg; what follows closes both.
std::string open_figure(const PlotFrame& f, double height, Margin margin,
                        const std::string& description);
std::string values_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows);
// What each colour is, each with a figure that may be empty.
std::string key_of(const std::vector<PlotKey>& keys, const std::vector<std::string>& figures,
                   const PlotFrame& f);
// A whole figure that says that it has nothing to show.
std::string empty_figure(const PlotFrame& f, double height);

}  // namespace rl

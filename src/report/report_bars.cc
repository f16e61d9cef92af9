// A row is a line of text with a bar below it; rows have a fixed height in pixels.
#include "report/report_bars.h"

#include "core/error.h"
#include "report/html_text.h"

namespace rl {
namespace {

constexpr double kEmptyHeight = 80;

}  // namespace

std::string render_bar_plot(const PlotFrame& frame, const std::vector<std::string>& header,
                            const std::vector<PlotBar>& bars) {
  if (bars.empty()) return empty_figure(frame, kEmptyHeight);
  constexpr double kRow = 38;
  std::string description, body;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < bars.size(); ++i) {
    const PlotBar& bar = bars[i];
    const double top = kRow * static_cast<double>(i);
    description += str(bar.name, ": ", bar.value, ". ");
    rows.push_back(bar.cells);
    body += str("<text class=\"name\" x=\"0\" y=\"", px(top + 13), "\">", escape_html(bar.name),
                "</text><text x=\"100%\" y=\"", px(top + 13), "\" text-anchor=\"end\">",
                escape_html(bar.value),
                "</text><rect class=\"track\" width=\"100%\" height=\"10\" y=\"", px(top + 19),
                "\"/><rect class=\"f", bar.color, "\" width=\"", percent(bar.length),
                "\" height=\"10\" y=\"", px(top + 19), "\"/>");
    if (bar.mark >= 0) {
      body += str("<line class=\"mark\" x1=\"", percent(bar.mark), "\" x2=\"", percent(bar.mark),
                  "\" y1=\"", px(top + 16), "\" y2=\"", px(top + 32), "\"/>");
    }
    body += "\n";
  }
  return open_figure(frame, kRow * static_cast<double>(bars.size()), Margin::kNone, description) +
         body + "</svg></div>\n" + values_table(header, rows) + "</figure>\n";
}

std::string render_lane_plot(const PlotFrame& frame, const std::vector<PlotLane>& lanes,
                             const std::vector<PlotKey>& keys, const std::string& length) {
  if (lanes.empty()) return empty_figure(frame, kEmptyHeight);
  constexpr double kRow = 40;
  std::string description, body;
  std::vector<std::vector<std::string>> rows;
  double top = 0;
  for (const PlotLane& lane : lanes) {
    description += str(lane.name, ": ", lane.work.size(), " pieces of work. ");
    body += str("<text class=\"name\" x=\"0\" y=\"", px(top + 13), "\">", escape_html(lane.name),
                "</text><rect class=\"track\" width=\"100%\" height=\"14\" y=\"", px(top + 19),
                "\"/>\n");
    for (const PlotLane::Work& w : lane.work) {
      body += str("<rect class=\"f", w.color, "\" x=\"", percent(w.begin), "\" width=\"",
                  percent(w.end - w.begin), "\" height=\"14\" y=\"", px(top + 19), "\"><title>",
                  escape_html(w.name), ": ", escape_html(w.time), "</title></rect>\n");
      if (rows.size() < kMaxTableRows) rows.push_back({lane.name, w.name, w.time});
    }
    top += kRow;
  }
  body += str("<text x=\"0\" y=\"", px(top + 12), "\">0</text><text x=\"100%\" y=\"", px(top + 12),
              "\" text-anchor=\"end\">", escape_html(length), "</text>\n");
  return open_figure(frame, top + 18, Margin::kNone, description) + body + "</svg></div>\n" +
         key_of(keys, std::vector<std::string>(keys.size()), frame) +
         values_table({"Lane", "Work", "Time"}, rows) + "</figure>\n";
}

}  // namespace rl

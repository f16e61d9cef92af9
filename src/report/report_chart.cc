// Lines are drawn in their own svg, stretched to the width; everything else keeps its shape.
#include "report/report_chart.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "report/html_text.h"
#include "report/report_numbers.h"

namespace rl {
namespace {

constexpr double kTop = 22, kBottom = 162, kHeight = 186;  // pixels of a plot by step
constexpr double kInner = kBottom - kTop;
constexpr size_t kDotsUpTo = 2;  // too few points for a line

std::string span_name(const PlotPoint& p) {
  if (p.first == p.last) return "step " + format_number(p.first);
  return str("steps ", format_number(p.first), " to ", format_number(p.last));
}

struct StepScales {
  ChartAxis x, y;
  double left(double step) const { return x.at(step); }
  double down(double value) const { return kBottom - kInner * y.at(value); }
};

std::string grid(const PlotFrame& f, const StepScales& s) {
  std::string out = str("<text class=\"unit\" x=\"0\" y=\"10\">", escape_html(f.unit), "</text>\n");
  for (const double tick : s.y.ticks) {
    const std::string y = px(s.down(tick));
    out += str("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"", y, "\" y2=\"", y,
               "\"/><text x=\"-8\" y=\"", y, "\" dy=\".32em\" text-anchor=\"end\">",
               format_number(tick), "</text>\n");
  }
  for (size_t i = 0; i < s.x.ticks.size(); ++i) {
    const double at = s.left(s.x.ticks[i]);
    const char* const anchor = at < 0.08 ? "start" : at > 0.92 ? "end" : "middle";
    out += str("<text x=\"", percent(at), "\" y=\"", px(kBottom + 17), "\" text-anchor=\"", anchor,
               "\">", i == 0 ? "step " : "", format_number(s.x.ticks[i]), "</text>\n");
  }
  return out;
}

// Columns over the plot that show their values on hover.
std::string hover_columns(const std::vector<PlotLine>& lines, const StepScales& s) {
  std::string out = "<g class=\"hover\">";
  const std::vector<PlotPoint>& points = lines.front().points;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto middle = [&](size_t a, size_t b) {
      return s.left((points[a].last + points[b].first) / 2);
    };
    const double left = i == 0 ? 0 : middle(i - 1, i);
    const double right = i + 1 == points.size() ? 1 : middle(i, i + 1);
    out += str("<rect x=\"", percent(left), "\" width=\"", percent(right - left), "\" y=\"",
               px(kTop), "\" height=\"", px(kInner), "\"><title>", span_name(points[i]));
    for (const PlotLine& line : lines) {
      const PlotPoint& p = line.points[i];
      out += str("\n", escape_html(line.name), ": ", format_number(p.mean));
      if (p.low < p.high) {
        out += str(" (", format_number(p.low), " to ", format_number(p.high), ")");
      }
    }
    out += "</title></rect>\n";
  }
  return out + "</g>";
}

double middle_step(const PlotPoint& p) { return (p.first + p.last) / 2; }

// Runs of neighbouring points that have values.
std::vector<std::vector<PlotPoint>> unbroken(const std::vector<PlotPoint>& points) {
  std::vector<std::vector<PlotPoint>> runs;
  bool open = false;
  for (const PlotPoint& p : points) {
    const bool known = std::isfinite(p.mean);
    if (known && !open) runs.emplace_back();
    if (known) runs.back().push_back(p);
    open = known;
  }
  return runs;
}

std::string corner(double x, double y) { return str(px(1000 * x), " ", px(y - kTop), " "); }

std::string paths(const PlotLine& line, const StepScales& s) {
  std::string out;
  for (const auto& run : unbroken(line.points)) {
    std::string path, band;
    for (const PlotPoint& p : run) {
      const double x = s.left(middle_step(p));
      path += corner(x, s.down(p.mean));
      band += corner(x, s.down(p.high));
    }
    for (auto p = run.rbegin(); p != run.rend(); ++p) {
      band += corner(s.left(middle_step(*p)), s.down(p->low));
    }
    const auto varies = [](const PlotPoint& p) { return p.low < p.high; };
    if (std::any_of(run.begin(), run.end(), varies)) {
      out += str("<polygon class=\"band f", line.color, "\" points=\"", band, "\"/>");
    }
    out += str("<polyline class=\"line l", line.color, "\" points=\"", path, "\"/>\n");
  }
  return out;
}

std::string circles(const PlotLine& line, const StepScales& s, bool all) {
  std::string out;
  for (const auto& run : unbroken(line.points)) {
    if (!all && run.size() > kDotsUpTo) continue;
    for (const PlotPoint& p : run) {
      out += str("<circle class=\"f", line.color, "\" r=\"3.5\" cx=\"",
                 percent(s.left(middle_step(p))), "\" cy=\"", px(s.down(p.mean)), "\"/>\n");
    }
  }
  return out;
}

StepScales scales_for(const std::vector<PlotLine>& lines, double low, double high) {
  const std::vector<PlotPoint>& points = lines.front().points;
  return {step_axis(middle_step(points.front()), middle_step(points.back()), 4),
          value_axis(low, high, 4)};
}

// The smallest and largest value overall; false if there is none.
bool value_range(const std::vector<PlotLine>& lines, double& low, double& high) {
  bool any = false;
  for (const PlotLine& line : lines) {
    for (const PlotPoint& p : line.points) {
      if (!std::isfinite(p.mean)) continue;
      low = any ? std::min(low, p.low) : p.low;
      high = any ? std::max(high, p.high) : p.high;
      any = true;
    }
  }
  return any;
}

double last_value(const PlotLine& line) {
  for (auto p = line.points.rbegin(); p != line.points.rend(); ++p) {
    if (std::isfinite(p->mean)) return p->mean;
  }
  return std::nan("");
}

double part_value(const PlotLine& part, size_t i) {
  const double value = part.points[i].mean;
  return value > 0 ? value : 0;
}

// The parts of one bin, with a gap to its neighbours.
std::string stack(const std::vector<PlotLine>& parts, size_t i, const StepScales& s) {
  constexpr double kGap = 0.07;
  const PlotPoint& p = parts.front().points[i];
  const double left = s.left(p.first - 0.5), width = s.left(p.last + 0.5) - left;
  std::string out;
  double base = 0;
  for (const PlotLine& part : parts) {
    const double top = base + part_value(part, i);
    if (top == base) continue;
    out += str("<rect class=\"f", part.color, "\" x=\"", percent(left + kGap * width),
               "\" width=\"", percent((1 - 2 * kGap) * width), "\" y=\"", px(s.down(top)),
               "\" height=\"", px(s.down(base) - s.down(top)), "\"/>");
    base = top;
  }
  return out + "\n";
}

std::string key_of_lines(const std::vector<PlotLine>& lines, const PlotFrame& f) {
  std::vector<PlotKey> keys;
  std::vector<std::string> figures;
  for (const PlotLine& line : lines) {
    keys.push_back({line.name, line.color});
    figures.push_back("last " + format_number(last_value(line)));
  }
  return key_of(keys, figures, f);
}

// The share of each part in the sum of all.
std::string key_of_parts(const std::vector<PlotLine>& parts, const PlotFrame& f) {
  std::vector<double> sums;
  double all = 0;
  for (const PlotLine& part : parts) {
    sums.push_back(0);
    for (size_t i = 0; i < part.points.size(); ++i) sums.back() += part_value(part, i);
    all += sums.back();
  }
  std::vector<PlotKey> keys;
  std::vector<std::string> figures;
  for (size_t k = 0; k < parts.size(); ++k) {
    keys.push_back({parts[k].name, parts[k].color});
    figures.push_back(all > 0 ? format_number(100 * sums[k] / all, 2) + " %" : "");
  }
  return key_of(keys, figures, f);
}

// Evenly spaced rows, including the first and the last.
std::string table_of_lines(const std::vector<PlotLine>& lines, const PlotFrame& f) {
  std::vector<std::string> header = {"Step"};
  for (const PlotLine& line : lines) header.push_back(line.name + ", " + f.unit);
  const size_t count = lines.front().points.size();
  const size_t rows = std::min(count, kMaxTableRows);
  std::vector<std::vector<std::string>> cells;
  for (size_t r = 0; r < rows; ++r) {
    const size_t i = rows == 1 ? 0 : r * (count - 1) / (rows - 1);
    const PlotPoint& at = lines.front().points[i];
    cells.push_back({at.first == at.last
                         ? format_number(at.first)
                         : format_number(at.first) + " to " + format_number(at.last)});
    for (const PlotLine& line : lines) {
      const PlotPoint& p = line.points[i];
      const std::string spread =
          p.low < p.high ? str(" (", format_number(p.low), " to ", format_number(p.high), ")") : "";
      cells.back().push_back(std::isfinite(p.mean) ? format_number(p.mean) + spread : "-");
    }
  }
  return values_table(header, cells);
}

std::string describe(const std::vector<PlotLine>& lines, const PlotFrame& f) {
  std::string out;
  for (const PlotLine& line : lines) {
    double first = std::nan(""), low = 0, high = 0;
    for (const PlotPoint& p : line.points) {
      if (std::isnan(first)) first = p.mean;
    }
    if (!value_range({line}, low, high)) continue;
    out += str(line.name, ": first ", format_number(first), ", last ",
               format_number(last_value(line)), ", smallest ", format_number(low), ", largest ",
               format_number(high), " ", f.unit, ". ");
  }
  return out;
}

}  // namespace

std::string render_line_plot(const PlotFrame& frame, const std::vector<PlotLine>& lines,
                             bool dots) {
  double low = 0, high = 0;
  if (lines.empty() || !value_range(lines, low, high)) return empty_figure(frame, kHeight);
  const StepScales s = scales_for(lines, low, high);
  std::string out =
      open_figure(frame, kHeight, Margin::kValues, describe(lines, frame)) + grid(frame, s);
  out += str("<svg y=\"", px(kTop), "\" width=\"100%\" height=\"", px(kInner),
             "\" viewBox=\"0 0 1000 ", px(kInner), "\" preserveAspectRatio=\"none\">\n");
  for (const PlotLine& line : lines) out += paths(line, s);
  out += "</svg>\n";
  for (const PlotLine& line : lines) out += circles(line, s, dots);
  return out + hover_columns(lines, s) + "</svg></div>\n" + key_of_lines(lines, frame) +
         table_of_lines(lines, frame) + "</figure>\n";
}

std::string render_stacked_plot(const PlotFrame& frame, const std::vector<PlotLine>& parts) {
  double low = 0, high = 0;
  if (parts.empty() || !value_range(parts, low, high)) return empty_figure(frame, kHeight);
  const auto& points = parts.front().points;
  high = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    double sum = 0;
    for (const PlotLine& part : parts) sum += part_value(part, i);
    high = std::max(high, sum);
  }
  StepScales s = scales_for(parts, 0, high);
  s.x.low = points.front().first - 0.5;
  s.x.high = points.back().last + 0.5;
  std::string out =
      open_figure(frame, kHeight, Margin::kValues, describe(parts, frame)) + grid(frame, s);
  for (size_t i = 0; i < points.size(); ++i) out += stack(parts, i, s);
  return out + hover_columns(parts, s) + "</svg></div>\n" + key_of_parts(parts, frame) +
         table_of_lines(parts, frame) + "</figure>\n";
}

}  // namespace rl

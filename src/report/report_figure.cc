// Coordinates have two decimals, finer than any screen.
#include "report/report_figure.h"

#include <charconv>

#include "core/error.h"
#include "report/html_text.h"

namespace rl {
namespace {

std::string table_row(const std::vector<std::string>& cells, const char* cell) {
  std::string out = "<tr>";
  for (const std::string& text : cells)
    out += str("<", cell, ">", escape_html(text), "</", cell, ">");
  return out + "</tr>\n";
}

std::string key_item(const PlotKey& key, const std::string& value) {
  return str("<li><i class=\"f", key.color, "\"></i>", escape_html(key.name),
             value.empty() ? "" : " <b>" + escape_html(value) + "</b>", "</li>");
}

}  // namespace

std::string px(double value) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof text, value + 0.0, std::chars_format::fixed, 2).ptr;
  std::string out(text, end);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string percent(double share) { return px(100 * share) + "%"; }

std::string open_figure(const PlotFrame& f, double height, Margin margin,
                        const std::string& description) {
  const std::string id = escape_html(f.id);
  return str("<figure class=\"card", f.wide ? " wide" : "",
             margin == Margin::kValues ? " steps" : "", "\" id=\"", id, "\">\n<figcaption><h3>",
             escape_html(f.title), "</h3><p>", escape_html(f.note), "</p></figcaption>\n",
             "<div class=\"plot\"><svg role=\"img\" aria-labelledby=\"", id, "-t ", id,
             "-d\" width=\"100%\" height=\"", px(height), "\">\n<title id=\"", id, "-t\">",
             escape_html(f.title), "</title><desc id=\"", id, "-d\">", escape_html(description),
             "</desc>\n");
}

std::string values_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<details><summary>Values</summary><div class=\"scroll\"><table>\n<thead>" +
                    table_row(header, "th") + "</thead><tbody>\n";
  for (const auto& row : rows) out += table_row(row, "td");
  return out + "</tbody></table></div></details>\n";
}

std::string key_of(const std::vector<PlotKey>& keys, const std::vector<std::string>& figures,
                   const PlotFrame& f) {
  std::string out = "<ul class=\"key\">";
  for (size_t i = 0; i < keys.size(); ++i) out += key_item(keys[i], figures[i]);
  out += "</ul>\n";
  if (f.bin_width > 1) {
    out += str("<p class=\"bins\">Each point is the mean of up to ", f.bin_width,
               " steps; bands range from the smallest to the "
               "largest.</p>\n");
  }
  return out;
}

std::string empty_figure(const PlotFrame& f, double height) {
  return open_figure(f, height, Margin::kNone, "There is no value to show.") +
         str("<text class=\"none\" x=\"50%\" y=\"", px(height / 2),
             "\" text-anchor=\"middle\">no values</text></svg></div>\n</figure>\n");
}

}  // namespace rl

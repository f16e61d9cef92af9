// The frame of the page. Self-closing tags make it XML too, so any XML parser can check it.
#include "report/report.h"

#include "core/error.h"
#include "report/html_text.h"
#include "report/report_plots.h"
#include "report/report_sections.h"
#include "report/report_style.h"

namespace rl {
namespace {

std::string page_head(const std::string& title) {
  return str(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>",
      escape_html(title), " - librl</title>\n<style>", kReportStyle, "</style>\n</head>\n<body>\n");
}

// Reads a file that the run may not have; without a path the note names the option that enables it.
template <typename Read>
auto read_if(const std::string& path, const char* option, const char* what, ReadNotes& notes,
             Read read) {
  if (!path.empty()) return read();
  notes.add(str(what, ": set ", option, " to record them"));
  return decltype(read()){};
}

std::string section(const char* title, const std::string& body) {
  return str("<section><h2>", title, "</h2>\n", body, "</section>\n");
}

std::string grid(const std::string& figures) {
  return "<div class=\"grid\">\n" + figures + "</div>\n";
}

}  // namespace

std::string render_report(const ReportInputs& in, FileSystem& fs) {
  ReadNotes notes;
  const auto table = [&](const std::string& path) {
    return [&, path] { return read_step_table(fs, path, notes); };
  };
  const StepTable steps =
      read_if(in.metrics_path, "metrics.jsonl", "Step metrics", notes, table(in.metrics_path));
  const StepTable evals = read_if(in.eval_path, "eval.path and metrics.eval_jsonl", "Evaluations",
                                  notes, table(in.eval_path));
  const ResponseDigest responses =
      read_if(in.responses_path, "metrics.samples", "Responses", notes,
              [&] { return read_responses(fs, in.responses_path, notes); });
  if (in.trace.spans.empty()) {
    notes.add("Trace: set profiler.timeline.enable or attach a profiler to record one");
  }
  const std::string response_text = response_section(responses);
  const std::string flow = flow_plots(steps);
  return page_head(in.title) + "<main>\n" + report_head(in, steps, evals) +
         section("Learning", grid(learning_plots(steps, evals))) +
         (response_text.empty() ? "" : section("Responses", response_text)) +
         (flow.empty() ? "" : section("Rollout ahead of training", grid(flow))) +
         section("Speed and memory", grid(speed_plots(steps, in))) +
         section("Settings", fact_section(in) + metric_section(steps)) +
         note_section(notes.sentences()) +
         "<footer>Made by librl. The page is self-contained: it loads nothing and runs no "
         "script.</footer>\n</main>\n</body>\n</html>\n";
}

}  // namespace rl

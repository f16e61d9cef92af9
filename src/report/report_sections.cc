// Plain HTML; every text goes through escape_html where it is inserted.
#include "report/report_sections.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "report/html_text.h"
#include "report/report_numbers.h"

namespace rl {
namespace {

constexpr size_t kEdgeSteps =
    5;  // steps at each end of a run, for means that noise does not dominate

std::vector<double> known(const StepTable& table, const char* column) {
  std::vector<double> out;
  const std::vector<double>* const values = table.find(column);
  if (values == nullptr) return out;
  for (const double v : *values) {
    if (std::isfinite(v)) out.push_back(v);
  }
  return out;
}

double mean(std::vector<double>::const_iterator begin, std::vector<double>::const_iterator end) {
  double sum = 0;
  for (auto v = begin; v != end; ++v) sum += *v;
  return sum / static_cast<double>(end - begin);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Edges {
  size_t count = 0;  // steps of each mean
  double first = 0, last = 0;
};

Edges edge_means(const std::vector<double>& values, size_t edge) {
  if (values.empty()) return {};
  const size_t n = std::min(values.size(), edge);
  const auto size = static_cast<std::ptrdiff_t>(n);
  return {n, mean(values.begin(), values.begin() + size), mean(values.end() - size, values.end())};
}

std::string from_to(const Edges& e) {
  return str(format_number(e.first, 3), " \xE2\x86\x92 ", format_number(e.last, 3));
}

// Takes plain texts.
std::string tile(const std::string& name, const std::string& value, const std::string& note) {
  return str("<div><dt>", escape_html(name), "</dt><dd>", escape_html(value), "<small>",
             escape_html(note), "</small></dd></div>\n");
}

std::string rate_tile(const StepTable& steps, const char* column, const char* name) {
  const std::vector<double> rates = known(steps, column);
  if (rates.empty()) return "";
  return tile(name, format_number(std::round(median(rates))), "tokens/s, median of the steps");
}

std::string time_tile(const StepTable& steps) {
  const std::vector<double> seconds = known(steps, "timing_s/step");
  if (seconds.empty()) return "";
  double sum = 0;
  for (const double s : seconds) sum += s;
  return tile("Time in steps", format_seconds(sum),
              str(format_seconds(median(seconds)), " per step, median"));
}

std::string parity_tile(const StepTable& steps) {
  const std::vector<double> differences = known(steps, "training/logprob_max_abs_diff");
  if (differences.empty()) return "";
  const double most = *std::max_element(differences.begin(), differences.end());
  return tile(
      "Log-prob difference", format_number(most),
      most == 0 ? "sampler and trainer agree bit for bit" : "largest, between sampler and trainer");
}

std::string memory_tile(const ReportInputs& in) {
  if (in.peak_bytes == 0 && in.planned_bytes == 0) return "";
  if (in.peak_bytes == 0) return tile("Planned memory", format_bytes(in.planned_bytes), "");
  return tile("Peak memory", format_bytes(in.peak_bytes),
              "of the process; planned " + format_bytes(in.planned_bytes));
}

std::string lead(const StepTable& steps, const Edges& reward, const Edges& eval) {
  if (steps.steps.empty()) return "No step has been recorded.";
  const size_t count = steps.steps.size();
  std::string out =
      str(count == 1 ? "One step is" : format_number(static_cast<double>(count)) + " steps are",
          " recorded, up to step ", format_number(static_cast<double>(steps.steps.back())), ".");
  if (reward.count > 1) {
    out +=
        str(" The mean reward is ", format_number(reward.first, 3), " in the first ", reward.count,
            " and ", format_number(reward.last, 3), " in the last ", reward.count, ".");
  }
  if (eval.count == 1 && eval.first != eval.last) {
    out += str(" On held-out rows it went from ", format_number(eval.first, 3), " to ",
               format_number(eval.last, 3), ".");
  }
  return out;
}

}  // namespace

std::string report_head(const ReportInputs& in, const StepTable& steps, const StepTable& evals) {
  const Edges reward = edge_means(known(steps, "critic/rewards/mean"), kEdgeSteps);
  const Edges eval = edge_means(known(evals, "eval/rewards/mean"), 1);
  std::string tiles;
  if (eval.count > 0) {
    tiles += tile("Held-out reward", from_to(eval), "first and last evaluation");
  }
  if (reward.count > 0) {
    tiles += tile("Reward in training", from_to(reward),
                  str("means of the first and last ",
                      reward.count == 1 ? "step" : str(reward.count, " steps")));
  }
  if (!steps.steps.empty()) {
    tiles += tile("Steps", format_number(static_cast<double>(steps.steps.back())), "of training");
  }
  tiles += time_tile(steps) + rate_tile(steps, "perf/rollout_tokens_per_s", "Rollout") +
           rate_tile(steps, "perf/train_tokens_per_s", "Training") + memory_tile(in) +
           parity_tile(steps);
  return str("<header><p class=\"kind\">Report of a training run</p><h1>", escape_html(in.title),
             "</h1><p class=\"lead\">", escape_html(lead(steps, reward, eval)), "</p></header>\n",
             tiles.empty() ? "" : str("<dl class=\"tiles\">\n", tiles, "</dl>\n"));
}

namespace {

// A text that may be long: scrollable, also by keyboard.
std::string block(const std::string& text, const char* direction, const std::string& label) {
  const std::string shown = text.empty() ? "(empty)" : text;
  return str("<pre dir=\"auto\" tabindex=\"0\" role=\"region\" aria-label=\"", escape_html(label),
             "\"", *direction != '\0' ? str(" class=\"", direction, "\"") : "", ">",
             escape_html(shown), "</pre>\n");
}

std::string words_of(const KeptResponse& a) {
  return str(a.num_tokens, a.num_tokens == 1 ? " token" : " tokens",
             a.finish == "length" ? ", cut off at the limit" : "", a.cut ? ", shortened here" : "");
}

std::string response_block(const std::string& when, const KeptResponse& a, const char* direction) {
  return str("<h4>", escape_html(when), ": reward <b>", format_number(a.reward), "</b>, ",
             words_of(a), "</h4>\n", block(a.response, direction, "response"));
}

// Lines that every prompt begins or ends with, such as a system prompt; shown once.
struct SharedLines {
  size_t head = 0, tail = 0;  // bytes
};

// a and b are views of two prompts; the result ends after a line end, or is 0.
size_t shared_head(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  size_t same = 0;
  while (same < n && a[same] == b[same]) ++same;
  return a.substr(0, same).rfind('\n') + 1;  // npos + 1 is 0
}

// Like shared_head, from the end; the result begins after a line end, or is 0.
size_t shared_tail(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  size_t same = 0;
  while (same < n && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  if (same == a.size()) return same;
  const size_t line = a.find('\n', a.size() - same);
  return line == std::string_view::npos ? 0 : a.size() - line - 1;
}

SharedLines shared_lines(const std::vector<std::string_view>& prompts) {
  SharedLines out;
  if (prompts.size() < 2) return out;
  const std::string_view first = prompts.front();
  out = {first.size(), first.size()};
  for (const std::string_view other : prompts) {
    if (other == first) continue;
    out.head = std::min(out.head, shared_head(first.substr(0, out.head), other));
    out.tail = std::min(out.tail, shared_tail(first.substr(first.size() - out.tail), other));
  }
  for (const std::string_view prompt : prompts) {
    if (prompt.size() <= out.head + out.tail) return {};  // nothing would be left of it
  }
  return out;
}

std::vector<std::string_view> shown_prompts(const ResponseDigest& d) {
  std::vector<std::string_view> out;
  for (const auto* changes : {&d.better, &d.worse, &d.reworded}) {
    for (const ResponseChange& c : *changes) out.push_back(c.last.prompt);
  }
  for (const auto* responses : {&d.best, &d.worst}) {
    for (const KeptResponse& a : *responses) out.push_back(a.prompt);
  }
  return out;
}

std::string prompt_block(const KeptResponse& a, const SharedLines& shared) {
  const std::string row = a.data_row < 0 ? "Prompt" : str("Prompt of row ", a.data_row);
  const std::string tag = a.tag.empty() ? "" : ", tag " + a.tag;
  const size_t own = a.prompt.size() - shared.head - shared.tail;
  return str("<h4>", escape_html(row + tag), "</h4>\n",
             block(a.prompt.substr(shared.head, own), "", "prompt"));
}

std::string shared_block(const std::vector<std::string_view>& prompts, const SharedLines& shared) {
  if (shared.head + shared.tail == 0) return "";
  const std::string_view any = prompts.front();
  return str("<details><summary>What all prompts here begin and end with</summary>\n",
             block(str(any.substr(0, shared.head), "[...]\n", any.substr(any.size() - shared.tail)),
                   "", "shared lines"),
             "</details>\n");
}

std::string change_cards(const std::vector<ResponseChange>& changes, const ResponseDigest& d,
                         const SharedLines& shared, const char* direction) {
  std::string out;
  for (const ResponseChange& c : changes) {
    out += "<article class=\"card answer\">\n" + prompt_block(c.last, shared) +
           response_block(str("After ", d.first_step, " steps"), c.first, "") +
           response_block(str("After ", d.last_step, " steps"), c.last, direction) + "</article>\n";
  }
  return out;
}

std::string training_cards(const std::vector<KeptResponse>& responses, const SharedLines& shared,
                           const char* direction) {
  std::string out;
  for (const KeptResponse& a : responses) {
    out += "<article class=\"card answer\">\n" + prompt_block(a, shared) +
           response_block(str("Step ", a.step), a, direction) + "</article>\n";
  }
  return out;
}

std::string group(const char* title, const std::string& hint, const std::string& cards) {
  if (cards.empty()) return "";
  return str("<h3>", title, "</h3>\n<p class=\"hint\">", escape_html(hint),
             "</p>\n<div class=\"grid\">\n", cards, "</div>\n");
}

std::string change_summary(const ResponseDigest& d) {
  const size_t same = d.num_compared - d.num_better - d.num_worse - d.num_reworded;
  return str("Of ", d.num_compared, " held-out rows kept from the evaluations after ", d.first_step,
             " and ", d.last_step, " steps, ", d.num_better, " have a higher reward, ", d.num_worse,
             " a lower one, ", d.num_reworded, " another response with the same reward, and ", same,
             " are unchanged.");
}

}  // namespace

std::string response_section(const ResponseDigest& d) {
  const std::vector<std::string_view> prompts = shown_prompts(d);
  const SharedLines shared = shared_lines(prompts);
  const std::string changes = change_cards(d.better, d, shared, "up") +
                              change_cards(d.worse, d, shared, "down") +
                              change_cards(d.reworded, d, shared, "");
  std::string out;
  if (d.num_evals > 1) {
    out += str("<h3>Changed responses</h3>\n<p class=\"hint\">", change_summary(d), "</p>\n",
               changes.empty() ? "" : str("<div class=\"grid\">\n", changes, "</div>\n"));
  }
  out += group("Best responses in training", "The highest rewards; of equal ones the latest.",
               training_cards(d.best, shared, "up"));
  out += group("Worst responses in training", "The lowest rewards; of equal ones the latest.",
               training_cards(d.worst, shared, "down"));
  return out + shared_block(prompts, shared);
}

namespace {

std::string pair_table(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = "<table class=\"facts\"><tbody>\n";
  for (const auto& [name, value] : pairs) {
    out += str("<tr><th scope=\"row\">", escape_html(name), "</th><td>", escape_html(value),
               "</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string fact_section(const ReportInputs& in) {
  std::string out = "<div class=\"grid\">\n<div class=\"card\"><h3>Run</h3>\n";
  out += pair_table(in.facts) +
         "</div>\n<div class=\"card\"><h3>Options that differ from their defaults</h3>\n";
  out += in.options.empty() ? "<p>None.</p>\n" : pair_table(in.options);
  return out + "</div>\n</div>\n";
}

std::string metric_section(const StepTable& steps) {
  std::string rows;
  for (const StepTable::Column& c : steps.columns) {
    const std::vector<double> values = known(steps, c.name.c_str());
    if (values.empty()) continue;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    rows +=
        str("<tr><th scope=\"row\">", escape_html(c.name), "</th><td>",
            format_number(values.front()), "</td><td>", format_number(values.back()), "</td><td>",
            format_number(*low), "</td><td>", format_number(*high), "</td></tr>\n");
  }
  if (rows.empty()) return "";
  return "<details><summary>All metrics</summary><div class=\"scroll\"><table>\n<thead><tr><th>"
         "Metric</th><th>First</th><th>Last</th><th>Smallest</th><th>Largest</th></tr></thead>"
         "<tbody>\n" +
         rows + "</tbody></table></div></details>\n";
}

std::string note_section(const std::vector<std::string>& notes) {
  if (notes.empty()) return "";
  std::string out = "<section><h2>Not in this report</h2>\n<ul class=\"notes\">\n";
  for (const std::string& note : notes) out += str("<li>", escape_html(note), "</li>\n");
  return out + "</ul></section>\n";
}

}  // namespace rl

// A missing column costs its plot, not the page: the plot remains and says so.
#include "report/report_plots.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "report/report_bars.h"
#include "report/report_chart.h"
#include "report/report_numbers.h"

namespace rl {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Source {
  const char* column;
  const char* name;
  int color;
};

void add_line(std::vector<PlotLine>& lines, const StepTable& table, const Source& source) {
  const std::vector<double>* const values = table.find(source.column);
  if (values == nullptr) return;
  lines.push_back({source.name, source.color, bin_steps(table.steps, *values, kMaxPlotPoints)});
}

std::string line_plot(PlotFrame frame, const StepTable& table, const std::vector<Source>& sources) {
  std::vector<PlotLine> lines;
  for (const Source& source : sources) add_line(lines, table, source);
  frame.bin_width = bin_width(table.steps.size(), kMaxPlotPoints);
  return render_line_plot(frame, lines, false);
}

// The mean of each step and its predecessors, at most `window` values.
std::vector<double> moving_mean(const std::vector<double>& values, size_t window) {
  std::vector<double> out;
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = 0, count = 0;
    for (size_t k = i + 1 - std::min(i + 1, window); k <= i; ++k) {
      if (!std::isfinite(values[k])) continue;
      sum += values[k];
      ++count;
    }
    out.push_back(count > 0 ? sum / count : kNone);
  }
  return out;
}

std::string reward_plot(const StepTable& steps) {
  constexpr size_t kMinSteps = 10, kMinWindow = 5, kWindows = 20;
  PlotFrame frame{"reward", "Reward in training", "mean over the responses of a step", "reward",
                  bin_width(steps.steps.size(), kMaxPlotPoints)};
  std::vector<PlotLine> lines;
  add_line(lines, steps, {"critic/rewards/mean", "each step", 7});
  const std::vector<double>* const rewards = steps.find("critic/rewards/mean");
  if (rewards != nullptr && rewards->size() >= kMinSteps) {
    const size_t window = std::max(kMinWindow, rewards->size() / kWindows);
    lines.push_back({str("mean of ", window, " steps"), 1,
                     bin_steps(steps.steps, moving_mean(*rewards, window), kMaxPlotPoints)});
  }
  return render_line_plot(frame, lines, false);
}

std::string eval_plot(const StepTable& evals) {
  std::vector<PlotLine> lines;
  add_line(lines, evals, {"eval/rewards/mean", "held-out rows", 3});
  PlotFrame frame{"evaluation", "Held-out evaluation", "mean reward of greedy responses", "reward",
                  bin_width(evals.steps.size(), kMaxPlotPoints)};
  return render_line_plot(frame, lines, true);
}

std::string kl_plot(const StepTable& steps) {
  std::vector<Source> sources = {{"actor/ppo_kl", "from the sampling policy", 1}};
  const std::vector<double>* const reference = steps.find("actor/kl");
  const auto differs = [](double v) { return std::isfinite(v) && v != 0; };
  if (reference != nullptr && std::any_of(reference->begin(), reference->end(), differs)) {
    sources.push_back({"actor/kl", "from the reference", 2});
  }
  return line_plot({"kl", "KL divergence", "of the trained policy, mean over tokens", "nats"},
                   steps, sources);
}

}  // namespace

std::string learning_plots(const StepTable& steps, const StepTable& evals) {
  return reward_plot(steps) + eval_plot(evals) +
         line_plot({"length", "Response length", "generated tokens of a response", "tokens"}, steps,
                   {{"response_length/mean", "mean", 1}, {"response_length/max", "longest", 7}}) +
         line_plot({"cut", "Responses cut off", "share that ended at the length limit", "share"},
                   steps, {{"response_length/clip_ratio", "cut off", 2}}) +
         line_plot({"entropy", "Entropy", "of the next token, mean over tokens", "nats"}, steps,
                   {{"actor/entropy", "entropy", 4}}) +
         kl_plot(steps) +
         line_plot({"loss", "Loss", "policy loss with all added terms", "loss"}, steps,
                   {{"actor/loss", "loss", 2}}) +
         line_plot({"gradient", "Gradient norm", "of all weights, before clipping", "norm"}, steps,
                   {{"actor/grad_norm", "norm", 5}}) +
         line_plot({"rate", "Learning rate", "of the step's last update", "rate"}, steps,
                   {{"actor/lr", "rate", 3}});
}

namespace {

// The samples of a step, stacked by how many versions old they were.
std::string age_plot(const StepTable& steps) {
  const Source kAges[] = {{"pipeline/samples_by_staleness/0", "of the weights trained", 1},
                          {"pipeline/samples_by_staleness/1", "1 version old", 3},
                          {"pipeline/samples_by_staleness/2", "2 versions", 5},
                          {"pipeline/samples_by_staleness/3", "3 versions", 2},
                          {"pipeline/samples_by_staleness/4_or_more", "4 or more", 7}};
  std::vector<PlotLine> parts;
  for (const Source& age : kAges) add_line(parts, steps, age);
  return render_stacked_plot({"ages", "Age of samples", "by the oldest token that is trained on",
                              "samples", bin_width(steps.steps.size(), kMaxPlotPoints)},
                             parts);
}

// Of each reason for which groups were dropped.
std::string drop_plot(const StepTable& steps) {
  constexpr std::string_view kPrefix = "pipeline/prompts_dropped/";
  std::vector<PlotLine> lines;
  for (const StepTable::Column& column : steps.columns) {
    if (!column.name.starts_with(kPrefix)) continue;
    const auto color = static_cast<int>(1 + lines.size() % 8);
    add_line(lines, steps, {column.name.c_str(), column.name.c_str() + kPrefix.size(), color});
  }
  return render_line_plot({"dropped", "Groups dropped", "since the run began, by reason", "groups",
                           bin_width(steps.steps.size(), kMaxPlotPoints)},
                          lines, false);
}

}  // namespace

std::string flow_plots(const StepTable& steps) {
  if (steps.find("pipeline/groups_queued") == nullptr) return "";
  return age_plot(steps) +
         line_plot({"groups", "Groups under way", "when a step ends", "groups"}, steps,
                   {{"pipeline/groups_in_flight", "generated or scored", 1},
                    {"pipeline/groups_queued", "wait for the trainer", 2}}) +
         line_plot({"waits", "Waits", "of a step", "seconds"}, steps,
                   {{"timing_s/wait_for_batch", "trainer for a batch", 2},
                    {"timing_s/wait_for_rollout", "weights for samples under way", 1},
                    {"timing_s/reward", "all for rewards", 7}}) +
         drop_plot(steps);
}

namespace {

// Parts of a step in the order in which they happen; each sums its columns.
struct TimePart {
  const char* name;
  int color;
  std::vector<const char*> columns;
};

const std::vector<TimePart>& time_parts() {
  static const std::vector<TimePart>* const parts = new std::vector<TimePart>{
      {"rollout", 1, {"timing_s/gen"}},
      {"waiting for rewards", 7, {"timing_s/reward"}},
      {"reference", 4, {"timing_s/ref"}},
      {"forward", 3, {"timing_s/train_forward"}},
      {"head", 5, {"timing_s/train_head"}},
      {"backward", 2, {"timing_s/train_backward"}},
      {"optimizer, publication", 6, {"timing_s/train_optimizer", "timing_s/update_weights"}},
  };
  return *parts;
}

std::vector<double> sum_of(const StepTable& steps, const std::vector<const char*>& columns) {
  std::vector<double> sum(steps.steps.size(), kNone);
  for (const char* column : columns) {
    const std::vector<double>* const values = steps.find(column);
    for (size_t i = 0; values != nullptr && i < sum.size(); ++i) {
      if (!std::isfinite((*values)[i])) continue;
      sum[i] = (std::isfinite(sum[i]) ? sum[i] : 0) + (*values)[i];
    }
  }
  return sum;
}

std::string time_plot(const StepTable& steps) {
  PlotFrame frame{"time",
                  "Where a step's time goes",
                  "from fetching prompts to publication",
                  "seconds",
                  bin_width(steps.steps.size(), kMaxPlotPoints),
                  true};
  std::vector<PlotLine> parts;
  std::vector<double> rest = sum_of(steps, {"timing_s/step"});
  const auto add = [&](const char* name, int color, const std::vector<double>& seconds) {
    const auto shows = [](double v) { return v > 0; };
    if (!std::any_of(seconds.begin(), seconds.end(), shows)) return;
    parts.push_back({name, color, bin_steps(steps.steps, seconds, kMaxPlotPoints)});
  };
  for (const TimePart& part : time_parts()) {
    const std::vector<double> seconds = sum_of(steps, part.columns);
    for (size_t i = 0; i < rest.size(); ++i) {
      if (std::isfinite(seconds[i])) rest[i] = std::max(0.0, rest[i] - seconds[i]);
    }
    add(part.name, part.color, seconds);
  }
  add("other", 8, rest);
  return render_stacked_plot(frame, parts);
}

// The colour of a span's work, the same as that part of the step time.
PlotKey key_of_span(const std::string& name) {
  constexpr struct {
    const char* span;
    const char* name;
    int color;
  } kSpans[] = {
      {"engine.", "rollout", 1},
      {"reward.", "waiting for rewards", 7},
      {"train.ref", "reference", 4},
      {"train.forward", "forward", 3},
      {"train.head", "head", 5},
      {"train.backward", "backward", 2},
      {"train.optimizer", "optimizer, publication", 6},
      {"train.publish", "optimizer, publication", 6},
  };
  for (const auto& known : kSpans) {
    if (name.starts_with(known.span)) return {known.name, known.color};
  }
  return {"other", 8};
}

// Whether a lane did anything visible.
bool shows(const StepTimeline::Lane& lane, int64_t length_ns) {
  constexpr int64_t kFineness = 1000;
  const auto seen = [&](const auto& w) { return w.end_ns - w.begin_ns >= length_ns / kFineness; };
  return std::any_of(lane.work.begin(), lane.work.end(), seen);
}

std::string timeline_plot(const StepTimeline& timeline) {
  PlotFrame frame{"timeline",
                  str("Step ", timeline.step, " in detail"),
                  "the step of median duration, from the trace",
                  "seconds",
                  1,
                  true};
  std::vector<PlotLane> lanes;
  std::vector<PlotKey> keys;
  const double length = static_cast<double>(timeline.length_ns);
  for (const StepTimeline::Lane& lane : timeline.lanes) {
    if (!shows(lane, timeline.length_ns)) continue;
    lanes.push_back({lane.name, {}});
    for (const StepTimeline::Work& w : lane.work) {
      const PlotKey key = key_of_span(w.name);
      const auto same = [&](const PlotKey& k) { return k.color == key.color; };
      if (std::none_of(keys.begin(), keys.end(), same)) keys.push_back(key);
      lanes.back().work.push_back({w.count > 1 ? str(w.name, ", ", w.count, " times") : w.name,
                                   key.color, static_cast<double>(w.begin_ns) / length,
                                   static_cast<double>(w.end_ns) / length,
                                   format_seconds(static_cast<double>(w.busy_ns) * 1e-9)});
    }
  }
  return render_lane_plot(frame, lanes, keys,
                          format_seconds(static_cast<double>(timeline.length_ns) * 1e-9));
}

// Spans that contain no other span, by total time.
std::string span_plot(const std::vector<TraceRecorder::SpanSummary>& spans) {
  constexpr size_t kMaxBars = 8;
  PlotFrame frame{"spans", "Time by kind of work", "over the whole trace", "seconds"};
  std::vector<TraceRecorder::SpanSummary> order;
  for (const auto& s : spans) {
    if (!s.name.starts_with("pipeline.")) order.push_back(s);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  if (order.size() > kMaxBars) order.resize(kMaxBars);
  std::vector<PlotBar> bars;
  for (const auto& s : order) {
    const double seconds = static_cast<double>(s.total_ns) * 1e-9;
    const double longest = static_cast<double>(std::max<int64_t>(1, order.front().total_ns));
    bars.push_back({s.name,
                    format_seconds(seconds),
                    static_cast<double>(s.total_ns) / longest,
                    key_of_span(s.name).color,
                    -1,
                    {s.name, format_number(static_cast<double>(s.count)), format_seconds(seconds),
                     format_seconds(static_cast<double>(s.longest_ns) * 1e-9)}});
  }
  return render_bar_plot(frame, {"Span", "Times", "Total", "Longest"}, bars);
}

std::string memory_plot(const ReportInputs& inputs) {
  PlotFrame frame{"memory", "Memory, planned and held",
                  str("bars show what is held now, lines what is planned; ",
                      format_bytes(inputs.baseline_bytes), " more are expected outside arenas"),
                  "bytes"};
  uint64_t most = 1;
  for (const ReportMemory& m : inputs.memory) {
    most = std::max({most, m.planned_bytes, m.held_bytes});
  }
  const auto share = [&](uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(most);
  };
  std::vector<PlotBar> bars;
  for (const ReportMemory& m : inputs.memory) {
    const std::string planned = format_bytes(m.planned_bytes), held = format_bytes(m.held_bytes);
    const bool equal = m.planned_bytes == m.held_bytes;
    bars.push_back({m.name,
                    equal ? planned + " as planned" : str(held, " of ", planned),
                    share(m.held_bytes),
                    equal ? 1 : 2,
                    share(m.planned_bytes),
                    {m.name, planned, held}});
  }
  return render_bar_plot(frame, {"Arena", "Planned", "Held"}, bars);
}

}  // namespace

std::string speed_plots(const StepTable& steps, const ReportInputs& inputs) {
  std::string out = line_plot(
      {"tokens", "Tokens per second", "rollout counts responses, training all rows", "tokens/s"},
      steps,
      {{"perf/rollout_tokens_per_s", "rollout", 1}, {"perf/train_tokens_per_s", "training", 2}});
  if (!inputs.trace.spans.empty()) out += span_plot(inputs.trace.spans);
  out += memory_plot(inputs) + time_plot(steps);
  if (!inputs.trace.timeline.lanes.empty()) out += timeline_plot(inputs.trace.timeline);
  return out;
}

}  // namespace rl

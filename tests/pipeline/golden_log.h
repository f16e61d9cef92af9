// Everything that a run says, as lines of text that can be compared with a golden file: events in
// order, samples, metrics, ledger and records. What a clock says is left out.
#pragma once
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/fs.h"
#include "report/report_series.h"
#include "run_rig.h"

namespace rl::testing {

class GoldenLog {
 public:
  template <typename... Values>
  void line(const Values&... values) {
    std::ostringstream out;
    out.precision(9);
    const char* gap = "";
    ((out << gap << values, gap = " "), ...);
    lines_.push_back(out.str());
  }

  void metrics(const std::string& event, const MetricList& list) {
    for (const Metric& m : list.without_times()) line(event, m.name, m.value);
  }

  void sample(const Sample& s) {
    std::ostringstream ids, mask;
    double logprobs = 0, sampled = 0;
    for (const int32_t id : s.ids) ids << id << ',';
    for (const uint8_t m : s.loss_mask) mask << int{m};
    for (const float v : s.logprobs) logprobs += v;
    for (const float v : s.logprobs_sampled) sampled += v;
    line("sample", s.id, s.ordinal, s.slot, static_cast<int>(s.purpose), s.data_row, "tag=" + s.tag,
         ids.str(), s.prompt_tokens, mask.str(), s.versions.front(), s.versions.back(), s.num_top,
         static_cast<int>(s.finish), real(logprobs), real(sampled));
  }

  void event(const Event& event) {
    switch (static_cast<EventKind>(event.kind())) {
      case EventKind::kScore:
        return sample(*static_cast<const ScoreEvent&>(event).sample);
      case EventKind::kTurn: {
        const auto& e = static_cast<const TurnEvent&>(event);
        line("turn", e.turn, e.turn_text);
        return sample(*e.sample);
      }
      case EventKind::kGroup: {
        const auto& e = static_cast<const GroupEvent&>(event);
        line("group", e.samples.size());
        for (const EventSample& s : e.samples) sample(*s.sample);
        return;
      }
      case EventKind::kStep: {
        const auto& e = static_cast<const StepEvent&>(event);
        line("step", e.step, "version", e.version);
        return metrics("step", e.metrics);
      }
      case EventKind::kEval: {
        const auto& e = static_cast<const EvalEvent&>(event);
        line("eval", e.step, "version", e.version, "scored", e.num_scored, "failed", e.num_failed,
             real(e.mean_reward));
        return metrics("eval", e.metrics);
      }
      case EventKind::kCheckpoint:
        return line("checkpoint", static_cast<const CheckpointEvent&>(event).step);
      case EventKind::kCheckpointFailed:
        return line("checkpoint failed", static_cast<const CheckpointFailedEvent&>(event).step);
      case EventKind::kGroupDropped: {
        const auto& e = static_cast<const GroupDroppedEvent&>(event);
        return line("dropped", static_cast<int>(e.purpose), e.ordinal, e.data_row,
                    drop_reason_name(e.reason), e.message);
      }
      case EventKind::kEngineStats: {
        const auto& e = static_cast<const EngineStatsEvent&>(event);
        return line("interval", e.step, "version", e.version, "engine", e.engine);
      }
      case EventKind::kFinished:
      case EventKind::kTokens:
      case EventKind::kEngineFailed:
      case EventKind::kGroups:
      case EventKind::kPublished:
        return;  // of engines outside pipelines
    }
  }

  void ledger(const LedgerCounts& c) {
    line("attempts", c.attempts_started, c.attempts_trained, c.attempts_in_flight, c.discarded());
    line("tokens", c.tokens_generated, c.tokens_trained, c.tokens_discarded, c.tokens_in_flight);
    line("prompts", c.prompts_drawn, c.prompts_trained, c.prompts_open, c.dropped());
    line("scores", c.late_scores, c.duplicate_scores, c.unknown_scores, c.nonfinite_scores);
  }

  // How far the weights went, which no other line shows of the last step.
  void change(std::span<const float> before, std::span<const float> after) {
    double sum = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const double d = static_cast<double>(after[i]) - before[i];
      sum += d * d;
    }
    line("change", real(std::sqrt(sum)));
  }

  void text_file(const std::string& name, const std::string& path) {
    ReadNotes notes;
    for_each_line(real_fs(), path, notes, [&](size_t, std::string_view text) { line(name, text); });
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  // With a point, as only such values are compared with a tolerance.
  static std::string real(double value) {
    std::ostringstream out;
    out.precision(9);
    out << std::showpoint << value;
    return out.str();
  }
  std::vector<std::string> lines_;
};

// Whether two words are equal: as texts, or as reals that differ by no more than other processors
// let them: sums in another order in the last digits, magnified by a few optimizer steps.
inline bool same_word(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (a.find_first_of(".e") == std::string::npos && b.find_first_of(".e") == std::string::npos) {
    return false;
  }
  char *end_a = nullptr, *end_b = nullptr;
  const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
  if (*end_a != 0 || *end_b != 0 || a.empty() || b.empty()) return false;
  return std::abs(x - y) <= 1e-5 + 2e-3 * std::max(std::abs(x), std::abs(y));
}

inline bool same_line(const std::string& a, const std::string& b) {
  std::istringstream words_a(a), words_b(b);
  std::string x, y;
  for (;;) {
    const bool more_a = static_cast<bool>(words_a >> x), more_b = static_cast<bool>(words_b >> y);
    if (!more_a || !more_b) return more_a == more_b;
    if (!same_word(x, y)) return false;
  }
}

}  // namespace rl::testing

// Metrics of an evaluation are means over its scored samples; failed groups are only counted.
#include "pipeline/loop/evaluation.h"

#include <vector>

#include "pipeline/update/step_metrics.h"

namespace rl {

void Evaluation::begin(int64_t now_ns, int64_t dropped) {
  dropped_before_ = dropped;
  first_ns_ = now_ns;
  in_progress_ = true;
}

void Evaluation::finish(std::span<const ScoreBoard::Scored> scored, int64_t dropped, int64_t now_ns,
                        EvalEvent& event) {
  std::vector<double> rewards, lengths;
  for (const ScoreBoard::Scored& s : scored) {
    rewards.push_back(s.reward);
    lengths.push_back(static_cast<double>(s.sample->generated()));
  }
  set_spread(event.metrics, "eval/rewards", rewards);
  set_spread(event.metrics, "eval/response_length", lengths);
  event.num_scored = static_cast<int64_t>(rewards.size());
  event.num_failed = dropped - dropped_before_;
  event.mean_reward = event.metrics.get("eval/rewards/mean").value_or(0);
  event.metrics.set("eval/failed", static_cast<double>(event.num_failed));
  event.metrics.set("timing_s/eval", static_cast<double>(now_ns - first_ns_) * 1e-9);
  in_progress_ = false;
}

}  // namespace rl

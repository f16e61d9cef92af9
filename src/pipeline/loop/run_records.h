// The files in which a run is recorded as it goes: metrics of steps and of evaluations, kept
// answers, TensorBoard events. Each exists as its option says. Invariant: after a resume every file
// has each step once. One owner; not thread-safe.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/loop/score_board.h"
#include "pipeline/session/loaded_model.h"
#include "profile/kept_answer.h"
#include "profile/metrics_writer.h"
#include "profile/tensorboard_writer.h"

namespace rl {

// Once the file of metrics.samples would grow beyond this, it takes no more.
inline constexpr uint64_t kMaxSamplesBytes = uint64_t{256} << 20;

class RunRecords {
 public:
  // Opens what the options name and keeps what is there of the first done_steps steps.
  RunRecords(LoadedModel& model, const OptionSet& options, uint64_t done_steps);
  // The errors of the constructor's reading, without a change to any file.
  static void check(FileSystem& fs, const OptionSet& options, uint64_t done_steps);

  // Remembers the best and the worst answer of a scored batch for the step that ends next.
  void keep_extremes(std::span<const ScoreBoard::Scored> batch);
  // The step that ended. metrics has kStepMetric; they are written when the step is a multiple of
  // interval_steps.
  void write_step(const MetricList& metrics, int64_t interval_steps);
  // An interval of an engine within a step that is not yet done.
  void write_engine(uint64_t step, const MetricList& metrics);
  // An evaluation after `step` steps, with its scored answers.
  void write_eval(uint64_t step, const MetricList& metrics,
                  std::span<const ScoreBoard::Scored> answers);
  // Makes what was written durable and ends writing. Every file is closed; the first failure is
  // thrown.
  void close();

 private:
  KeptAnswer kept(const ScoreBoard::Scored& scored, AnswerKind kind) const;
  void write_answer(const KeptAnswer& answer);

  LoadedModel& model_;
  size_t max_eval_answers_;
  std::unique_ptr<MetricsWriter> steps_, evals_, answers_;
  std::unique_ptr<TensorBoardWriter> board_;
  std::vector<KeptAnswer> extremes_;
  bool full_ = false;
};

}  // namespace rl

// The files in which a run is recorded as it proceeds: metrics of steps and of evaluations, kept
// responses, TensorBoard events. Each exists if its option is set. Invariant: after a resume every
// file has each step once. One owner; not thread-safe.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sample.h"
#include "pipeline/session/loaded_model.h"
#include "profile/kept_response.h"
#include "profile/metrics_writer.h"
#include "profile/tensorboard_writer.h"

namespace rl {

// The file of metrics.samples never grows beyond this; after that it takes no more.
inline constexpr uint64_t kMaxSamplesBytes = uint64_t{256} << 20;

class RunRecords {
 public:
  // Opens the files that the options name and keeps their content of the first done_steps steps.
  RunRecords(LoadedModel& model, const Settings& settings, uint64_t done_steps);
  // Throws the errors that the constructor's reading would throw, without changing any file.
  static void check(FileSystem& fs, const Settings& settings, uint64_t done_steps);

  // Keeps the best and the worst response of a scored batch for the step that ends next.
  void keep_extremes(std::span<const SamplePtr> batch);
  // Metrics of the step that ended, with kStepMetric; written if the step is a multiple of
  // interval_steps.
  void write_step(const MetricList& metrics, int64_t interval_steps);
  // Metrics of an engine interval within a step that is not yet done.
  void write_engine(uint64_t step, const MetricList& metrics);
  // An evaluation after `step` steps, with its scored responses.
  void write_eval(uint64_t step, const MetricList& metrics, std::span<const SamplePtr> responses);
  // Makes everything durable and ends writing. Every file is closed; the first failure is thrown.
  void close();

 private:
  KeptResponse kept(const Sample& sample, ResponseKind kind) const;
  void write_response(const KeptResponse& response);

  LoadedModel& model_;
  size_t max_eval_responses_;
  std::unique_ptr<MetricsWriter> steps_, evals_, responses_;
  std::unique_ptr<TensorBoardWriter> board_;
  std::vector<KeptResponse> extremes_;
  bool full_ = false;
};

}  // namespace rl

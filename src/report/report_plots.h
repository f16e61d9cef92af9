// Selects the report's plots: one function per part of the page, from the columns of a run's files
// to figures.
#pragma once
#include <string>

#include "report/report.h"
#include "report/report_series.h"

namespace rl {

// Rewards, lengths, and the trainer's metrics.
std::string learning_plots(const StepTable& steps, const StepTable& evals);
// Of a run that generates ahead of training: how old samples were, what waited for what, and what
// was dropped. Empty for other runs.
std::string flow_plots(const StepTable& steps);
// Tokens per second, memory planned and held, and where the time of the steps went.
std::string speed_plots(const StepTable& steps, const ReportInputs& inputs);

}  // namespace rl

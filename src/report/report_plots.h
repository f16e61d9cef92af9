// Which plots the report has: one function for each part of the page, from the columns of a run's
// files to figures.
#pragma once
#include <string>

#include "report/report.h"
#include "report/report_series.h"

namespace rl {

// Rewards, lengths, and what the trainer measured.
std::string learning_plots(const StepTable& steps, const StepTable& evals);
// Tokens per second, memory as planned and as held, and where the time of the steps went.
std::string speed_plots(const StepTable& steps, const ReportInputs& inputs);

}  // namespace rl

// The text parts of the report: its head, the responses, the facts.
#pragma once
#include <string>
#include <vector>

#include "report/report.h"
#include "report/report_responses.h"
#include "report/report_series.h"

namespace rl {

// Title, one sentence, and the key figures.
std::string report_head(const ReportInputs& inputs, const StepTable& steps, const StepTable& evals);
std::string response_section(const ResponseDigest& responses);
// Facts and options of the run.
std::string fact_section(const ReportInputs& inputs);
// First, last, smallest and largest value of every column.
std::string metric_section(const StepTable& steps);
// What could not be read; empty if there is nothing to report.
std::string note_section(const std::vector<std::string>& notes);

}  // namespace rl

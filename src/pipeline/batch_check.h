// Sizes of training batches that do not go together with each other or with the model.
#pragma once
#include "core/options.h"
#include "core/violations.h"

namespace rl {

// longest: tokens of the longest sample. in_pipeline: a step has the samples that pipeline.* says.
void check_batches(const OptionSet& options, int64_t longest, bool in_pipeline, Violations& v);

}  // namespace rl

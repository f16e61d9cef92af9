// Sizes of training batches that do not go together with each other or with the model.
#pragma once
#include <string>

#include "core/error.h"
#include "core/violations.h"
#include "options/options.h"

namespace rl {

// Two options, or an option and the model, that do not go together.
Error conflict(const char* key, const char* other, std::string message);

// longest: tokens of the longest sample. in_pipeline: a step has the samples that pipeline.* says.
void check_batches(const OptionSet& options, int64_t longest, bool in_pipeline, Violations& v);

}  // namespace rl

// Consistency checks between batch sizes and the model.
#pragma once
#include <string>

#include "core/error.h"
#include "core/violations.h"
#include "formats/model_config.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

// An option that counts tokens; 0 usually means that it is not set.
struct TokenOption {
  const char* key;
  int64_t tokens;
  int64_t ranks = 1;  // each of which has so many of a micro-batch
};

// Heads that ranks of parallel.context_kind = ulysses cannot divide. parts: of the model, which
// have heads of their own each.
void check_context(const Settings& settings, const ModelConfig& config, int64_t parts,
                   const char* path, Violations& v);

// An error for two options, or an option and the model, that contradict each other.
Error conflict(const char* key, const char* other, std::string message);

// longest_sample: tokens of the longest one, before any is cut. in_pipeline: pipeline.* fixes the
// samples of a step.
void check_batches(const Settings& settings, int64_t longest_sample, bool in_pipeline,
                   Violations& v);

// What is computed again in a backward of so many layers.
void check_recompute(const Settings& settings, int64_t layers, Violations& v);

}  // namespace rl

// Checks of engine options and requests, made before anything is queued or allocated. Errors name
// the key, its range and the value seen.
#pragma once
#include <cstdint>
#include <span>

#include "rollout/engine.h"

namespace rl {

// Throws Error(kOutOfRange or kConflict) unless an engine can run with these options on this model.
void check_engine_options(const EngineOptions& options, int64_t max_positions);

// Error(kOutOfRange) naming the first of ids outside the vocabulary.
void check_ids(const char* key, std::span<const int32_t> ids, int64_t vocab);

struct RequestLimits {
  int64_t vocab;
  int64_t max_model_len;
  int64_t block_size;
  int64_t num_blocks;
  bool has_tokenizer;
  std::span<const int32_t> eos_ids{};
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
};
// Throws unless the request can run to its end on an idle engine.
void check_request(const Request& request, const RequestLimits& limits);

}  // namespace rl

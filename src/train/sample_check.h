// What the trainer demands of a sample before it touches anything. Errors name the sample's id, the
// field, the limit and the value seen.
#pragma once
#include "data/sample.h"
#include "model/head.h"
#include "train/trainer_options.h"

namespace rl {

struct SampleLimits {
  int64_t vocab;
  int64_t max_positions;
  int64_t max_rows;    // of one micro-batch
  const char* rows_key;  // the option that max_rows follows from
  int64_t max_sample;  // tokens
};

// Ids, prompt length and temperature: what a forward needs.
void check_sequence(const Sample& sample, const SampleLimits& limits);
// Also the per-token arrays that a loss reads, and that the sample is not one of an evaluation.
void check_trainable(const Sample& sample, const SampleLimits& limits);
// A per-token array beside the sample.
void check_token_array(const Sample& sample, const char* field, size_t size);

}  // namespace rl

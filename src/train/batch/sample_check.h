// What the trainer requires of a sample, checked before it touches anything. Errors name the
// sample's id, the field, the limit and the value seen.
#pragma once
#include <span>

#include "data/sample.h"
#include "model/head.h"
#include "train/options/trainer_options.h"

namespace rl {

struct SampleLimits {
  int64_t vocab;
  int64_t max_positions;
  int64_t max_rows;                                 // of one micro-batch
  const char* rows_key;                             // the option that determines max_rows
  int64_t max_sample;                               // tokens
  const char* sample_key = "engine.max_model_len";  // the option that determines max_sample
};

// Ids, prompt length and temperature: what a forward needs.
void check_sequence(const Sample& sample, const SampleLimits& limits);
// Also the per-token arrays that a loss reads, and that the sample is not from an evaluation.
// Log-probs may be missing as a whole.
void check_trainable(const Sample& sample, const SampleLimits& limits);
// True if the sample has generated tokens but no log-probs.
inline bool lacks_logprobs(const Sample& s) { return s.logprobs.empty() && s.generated() > 0; }
// The samples form pairs, as the objective requires: for each ordinal a chosen response in slot 0
// and a rejected one in slot 1, to the same prompt, each with a token that carries loss.
void check_pairs(Objective objective, std::span<const Sample* const> samples);
// A per-token array passed along with the sample.
void check_token_array(const Sample& sample, const char* field, size_t size);

}  // namespace rl

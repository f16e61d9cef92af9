// Samples from rows that rules and filters shape: the TokenDistribution of
// algo/sampling/sampling.h, whose rules these are, over tempered logits. Exact for what it is
// given:
//
// - x = edited logit - largest edited logit, in fp32; mass = exp(x), in units (sampling_params.h).
// - Logits are compared as integers whose order is that of the floats (key_of in the .cu). A filter
//   has a weight per id and a limit, and finds the largest key t below which the weights sum to at
//   most the limit, four bits of t at a time. top_k: the weight is 1, the limit V - k; so t is the
//   key of the k-th largest logit. top_p: the weight is the mass of what top_k kept, T in all, the
//   limit floor((1 - top_p) T), at most T less the mass of the largest logit; ids below t go, and
//   of those equal to t the highest ids, as many as the rest of the limit covers.
// - min_p keeps x >= log(min_p).
// - The id is drawn from what is left, by mass in id order. Greedy: the lowest id with x = 0.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/kernels/head/sampling_params.h"
#include "ops/logprob.h"

namespace rl::cuda {

// What the rules say of one id; an id has one record at most.
struct LogitEdit {
  static constexpr uint32_t kAllowed = 1, kForbidden = 2, kBiased = 4, kOccurred = 8;
  int32_t id;
  uint32_t kinds;
  float bias;         // tempered, with kBiased
  int32_t generated;  // how often, with kOccurred
};

struct FilteredRequest {
  int64_t row;  // of the head
  double u;
  int32_t token;  // where the result goes
  int32_t first_edit, num_edits;
  int32_t only_allowed;  // ids without kAllowed are forbidden
  int32_t greedy;
  int32_t top_k;                                 // 0: all
  float repetition, frequency, presence, scale;  // penalties; scale tempers what is added
  double dropped;                                // 1 - top_p
  double least;                                  // log(min_p), or -inf
};
struct SampleFilteredParams {
  const FilteredRequest* requests;  // (count)
  const LogitEdit* edits;
  const float* z;         // (head rows, V)
  const RowStats* stats;  // (head rows)
  float* x;               // (count, V) scratch
  SampledToken* tokens;
  int64_t count, vocab;
  double units;  // of a mass of 1
};
void sample_filtered(cudaStream_t stream, const SampleFilteredParams& params);

}  // namespace rl::cuda

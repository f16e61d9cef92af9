// Launchers of the backward of attention. With S the scores of the forward, P = exp(S - lse) and
// dS = P (d_out v - delta), where delta = sum of d_out out: dv = sum of P d_out, dk = scale * sum
// of dS q, dq = scale * sum of dS k. No two blocks of a grid write one element.
//
// Order: dq adds keys in order, dk and dv add (row, query head) pairs in order, beginning with the
// first row that attends a key of the tile; the runs of a key tile follow one another. In fp32
// (attention_..._fma.cu) these are chains of fused multiply-adds. In bf16 (attention_..._mma.cu)
// they are chains of mma of 16 keys or pairs; P and dS are rounded to bf16, and d_out, which is
// fp32, is the sum of two bf16, each of which is multiplied.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda/kernels/attention/attention_params.h"

namespace rl::cuda {

// delta (N, H): lanes add every 32nd product, then by exchanges at distances 16, 8, 4, 2 and 1.
struct AttentionDeltaParams {
  const void* out;     // (N, H, D)
  const float* d_out;  // (N, H, D)
  float* delta;        // (N, H)
  Dtype dtype;
  int64_t places;  // N H
  int32_t head_dim;
};
void attention_delta(cudaStream_t stream, const AttentionDeltaParams& params);

// What both passes read.
struct AttentionGradientInputs {
  AttentionSizes sizes;
  const AttentionRun* runs = nullptr;
  const int32_t* blocks = nullptr;  // the tables of the runs
  const void* q;                    // (N, H, W)
  const std::byte* pool;
  const float *lse, *delta;  // (N, H)
  const float* d_out;        // (N, H, D)
  bool adds = false;         // to the gradients of earlier launches
};

struct QueryGradientParams {
  AttentionGradientInputs in;
  const AttentionTile* tiles;  // without splits
  int64_t num_tiles;
  float* dqkv;  // (N, (H + 2 KH) D), of which the columns of queries are written
};
// Most pairs of a tile.
int query_gradient_pairs_mma(int width);
int query_gradient_pairs_fma(int width);
void query_gradient_mma(cudaStream_t stream, const QueryGradientParams& params);
void query_gradient_fma(cudaStream_t stream, const QueryGradientParams& params);

// Keys of one sequence and the rows of `runs` that may attend them. The first run's table finds
// them.
struct KeyTile {
  int32_t first_run, end_run;
  int32_t first_key, end_key;  // positions, at most a step's, between two multiples of a step
  float* to;       // gradient of the first key of kv head 0; that of values follows KH D
                   // floats later
  int64_t stride;  // floats from key to key
};
struct KeyGradientParams {
  AttentionGradientInputs in;
  const KeyTile* tiles;
  int64_t num_tiles;
};
// Positions of a step.
int key_gradient_keys_mma(int width);
int key_gradient_keys_fma(int width);
void key_gradient_mma(cudaStream_t stream, const KeyGradientParams& params);
void key_gradient_fma(cudaStream_t stream, const KeyGradientParams& params);

}  // namespace rl::cuda

// A thread reads back only what it wrote itself, so a row that is made here needs no barrier before
// its norm.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/norm_kernels.h"
#include "ops/cuda/kernels/rows/norm_row.h"

namespace rl::cuda {
namespace {

// Row `team.row` of x, normed and rounded into y: one code for every kernel below.
RL_DEVICE void norm_row(const RowTeam& team, const NormRowsParams& p) {
  if (p.norm.weight == nullptr) return;
  const int64_t at = team.row * p.hidden;
  const float inverse = inverse_rms(team, p.x + at, p.hidden, p.norm.eps);
  each_ahead(
      team, p.hidden, [&](int64_t i) { return normed(p.norm, i, p.x[at + i], inverse); },
      [&](int64_t i, float value) { store_element(p.dtype, p.y, at + i, value); });
}

RL_KERNEL void norm_rows_kernel(NormRowsParams p) {
  const RowTeam team = row_team(p.hidden);
  if (team.row < p.rows) norm_row(team, p);
}

RL_KERNEL void embed_rows_kernel(EmbedRowsParams p) {
  const RowTeam team = row_team(p.hidden);
  if (team.row >= p.rows) return;
  const int32_t id = p.ids[team.row];
  const float* from = p.table + id * p.hidden;
  float* x = p.x + team.row * p.hidden;
  each_ahead(
      team, p.hidden,
      [&](int64_t i) {
        return id < 0 ? 0.0f : round_to(p.dtype, round_to(p.dtype, from[i]) * p.scale);
      },
      [&](int64_t i, float value) { x[i] = value; });
  norm_row(team, {p.x, p.norm, p.y, p.dtype, p.rows, p.hidden});
}

RL_KERNEL void add_norm_rows_kernel(AddNormRowsParams p) {
  const RowTeam team = row_team(p.hidden);
  if (team.row >= p.rows) return;
  const int64_t at = team.row * p.hidden;
  const float* added = p.added + at;
  const bool sandwich = p.added_norm.weight != nullptr;
  const float inverse = sandwich ? inverse_rms(team, added, p.hidden, p.added_norm.eps) : 0.0f;
  each_ahead(
      team, p.hidden,
      [&](int64_t i) {
        const float term = sandwich ? normed(p.added_norm, i, added[i], inverse) : added[i];
        return p.residual[at + i] + term;
      },
      [&](int64_t i, float value) { p.sum[at + i] = value; });
  norm_row(team, {p.sum, p.norm, p.y, p.dtype, p.rows, p.hidden});
}

RL_KERNEL void norm_rows_backward_kernel(NormBackwardParams p) {
  const RowTeam team = row_team(p.hidden);
  if (team.row >= p.rows) return;
  const float* x = p.x + team.row * p.hidden;
  const float* dy = p.dy + team.row * p.hidden;
  float* dx = p.dx + team.row * p.hidden;
  const float inverse = inverse_rms(team, x, p.hidden, p.norm.eps);
  float sum = 0;
  for (int64_t i = team.thread; i < p.hidden; i += team.threads)
    sum = fma_rn(dy[i] * norm_weight(p.norm, i), x[i], sum);
  const NormSlope slope = norm_slope(inverse, add_team(team, sum), p.hidden);
  each_ahead(
      team, p.hidden,
      [&](int64_t i) { return dx[i] + norm_gradient(p.norm, i, slope, x[i], dy[i]); },
      [&](int64_t i, float value) { dx[i] = value; });
  if (team.thread == 0) p.inverse[team.row] = inverse;
}

}  // namespace

void norm_rows(cudaStream_t stream, const NormRowsParams& params) {
  launch("norm_rows", norm_rows_kernel, row_teams(params.rows, params.hidden), stream, params);
}
void embed_rows(cudaStream_t stream, const EmbedRowsParams& params) {
  launch("embed_rows", embed_rows_kernel, row_teams(params.rows, params.hidden), stream, params);
}
void add_norm_rows(cudaStream_t stream, const AddNormRowsParams& params) {
  launch("add_norm_rows", add_norm_rows_kernel, row_teams(params.rows, params.hidden), stream,
         params);
}
void norm_rows_backward(cudaStream_t stream, const NormBackwardParams& params) {
  launch("norm_rows_backward", norm_rows_backward_kernel, row_teams(params.rows, params.hidden),
         stream, params);
}

}  // namespace rl::cuda

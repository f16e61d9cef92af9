// The ops of a device: one function per whole-batch op. RL_OPS is the one list of them; adding an
// op means a record of its arguments in a contract header, a row here and a function per device.
//
// In the arguments a span, a reference or a callback is memory of the host, and a raw pointer to
// elements is memory of the device, which the host cannot touch. What an op writes to the host is
// there when it returns; a host array may change once it has returned. These pointers are memory of
// the host too: to records (HeadNorm, RopeTable, PackedMatrix, RopeKvArgs, SamplingParams,
// FloatReader), whose own pointers to elements are the device's, and tables of integers (block
// tables of sequences, RopeKvArgs::places, RopeBackwardArgs::places). copy_bytes() copies between
// any two.
#pragma once
#include "ops/backward_ops.h"
#include "ops/forward_ops.h"
#include "ops/head_ops.h"
#include "ops/optimizer_ops.h"
#include "ops/sample_ops.h"
#include "ops/weight_ops.h"

namespace rl {

class Compute;

#define RL_OPS(OP)                                     \
  OP(embed_rows, EmbedRowsArgs)                        \
  OP(project_qkv, ProjectQkvArgs)                      \
  OP(copy_partial_blocks, CopyPartialBlocksArgs)       \
  OP(attend, AttendArgs)                               \
  OP(project_residual, ProjectResidualArgs)            \
  OP(add_residual, AddResidualArgs)                    \
  OP(project_gated, ProjectGatedArgs)                  \
  OP(gather_rows, GatherRowsArgs)                      \
  OP(scatter_add_rows, ScatterAddRowsArgs)             \
  OP(head_logits, HeadLogitsArgs)                      \
  OP(combine_tiles, CombineTilesArgs)                  \
  OP(head_logprobs, HeadLogprobsArgs)                  \
  OP(distill_rows, DistillRowsArgs)                    \
  OP(head_logits_backward, HeadLogitsBackwardArgs)     \
  OP(value_rows, ValueRowsArgs)                        \
  OP(value_rows_backward, ValueRowsBackwardArgs)       \
  OP(project, ProjectArgs)                             \
  OP(weight_gradient, WeightGradientArgs)              \
  OP(norm_rows, NormRowsArgs)                          \
  OP(norm_rows_backward, NormRowsBackwardArgs)         \
  OP(round_floats, RoundFloatsArgs)                    \
  OP(glu_rows, GluRowsArgs)                            \
  OP(project_gated_backward, ProjectGatedBackwardArgs) \
  OP(attend_backward, AttendBackwardArgs)              \
  OP(rope_rows_backward, RopeRowsBackwardArgs)         \
  OP(bias_gradient, BiasGradientArgs)                  \
  OP(embed_rows_backward, EmbedRowsBackwardArgs)       \
  OP(read_floats, ReadFloatsArgs)                      \
  OP(pack_rows, PackRowsArgs)                          \
  OP(pack_columns, PackColumnsArgs)                    \
  OP(unpack_rows, UnpackRowsArgs)                      \
  OP(prepare_gradient, PrepareGradientArgs)            \
  OP(zero_floats, ZeroFloatsArgs)                      \
  OP(copy_bytes, CopyBytesArgs)                        \
  OP(copy_columns, CopyColumnsArgs)                    \
  OP(squared_norm, SquaredNormArgs)                    \
  OP(square_chunk, SquareChunkArgs)                    \
  OP(adamw, AdamwArgs)                                 \
  OP(sample_rows, SampleRowsArgs)                      \
  OP(adamw_bf16, AdamwBf16Args)                        \
  OP(adamw_int8, AdamwInt8Args)                        \
  OP(scale_add, ScaleAddArgs)                          \
  OP(transpose_rows, TransposeRowsArgs)                \
  OP(average_floats, AverageFloatsArgs)                \
  OP(exchange_floats, ExchangeFloatsArgs)              \
  OP(add_rounded, AddRoundedArgs)                      \
  OP(widen_bf16, WidenBf16Args)

struct OpTable {
#define RL_OP_ENTRY(name, Args) void (*name)(Compute&, const Args&) = nullptr;
  RL_OPS(RL_OP_ENTRY)
#undef RL_OP_ENTRY
};

// Error(kUnsupported) naming the device and the first op it lacks.
void require_complete(const OpTable& table, const char* device);

}  // namespace rl

// Which memory the arguments of each op are in (ops/op_table.h): check(device, host, args) calls
// device(pointer) for every pointer to elements, null ones included, and host(pointer) for the data
// of every span.
#pragma once
#include "ops/op_table.h"

namespace rl::testing {

template <typename Device, typename Host>
struct OpMemory {
  const Device& device;
  const Host& host;

  template <typename... T>
  void on_device(const T*... pointers) const {
    (device(static_cast<const void*>(pointers)), ...);
  }
  template <typename... Spans>
  void in_host(const Spans&... spans) const {
    (host(static_cast<const void*>(spans.data())), ...);
  }
  void at(const RowNorm& norm) const { on_device(norm.weight); }
  void at(const NextNorm& then) const {
    at(then.norm);
    if (then.norm.weight != nullptr) on_device(then.y);
  }
  void at(const PackedMatrix& w) const { on_device(w.data()); }
  void at(const HeadNorm* norm) const {
    if (norm != nullptr) on_device(norm->q, norm->k);
  }
  void at(const RopeKvArgs& a) const {
    on_device(a.qkv, a.bias, static_cast<const std::byte*>(a.q), a.pool);
    at(a.norm);
    host(a.places);
    in_host(a.table->cos, a.table->sin);
  }

  void at(const EmbedRowsArgs& a) const {
    on_device(a.table, a.x);
    in_host(a.ids);
    at(a.then);
  }
  void at(const ProjectQkvArgs& a) const {
    at(a.w);
    on_device(a.x, a.qkv);
    at(a.heads);
  }
  void at(const SequenceRows& s) const { host(s.blocks); }
  void at(const CopyPartialBlocksArgs& a) const {
    on_device(a.pool);
    in_host(a.sequences);
    for (const SequenceRows& s : a.sequences) at(s);
  }
  void at(const AttendArgs& a) const {
    on_device(static_cast<const std::byte*>(a.attention.q), a.attention.pool,
              static_cast<const std::byte*>(a.attention.out), a.attention.lse, a.attention.partial,
              a.workspace);
    for (const AttentionRows& rows : a.work.by_sequence()) {
      host(rows.blocks);
      for (const KeyRun& run : rows.runs) host(run.blocks);
    }
    if (a.heads != nullptr) at(*a.heads);
  }
  void at(const ProjectResidualArgs& a) const {
    at(a.w);
    on_device(a.x, a.residual, a.sum, a.product);
    at(a.norm);
    at(a.then);
  }
  void at(const AddResidualArgs& a) const {
    on_device(a.product, a.residual, a.sum);
    at(a.norm);
    at(a.then);
  }
  void at(const ProjectGatedArgs& a) const {
    at(a.w);
    on_device(a.x, a.h, a.gate_up);
  }
  void at(const GatherRowsArgs& a) const {
    on_device(a.from, a.to);
    in_host(a.rows);
  }
  void at(const ScatterAddRowsArgs& a) const {
    on_device(a.from, a.to);
    in_host(a.rows);
  }
  void at(const HeadLogitsArgs& a) const {
    at(a.w);
    on_device(a.x, a.z, a.tiles, a.stats);
    in_host(a.inv_temperature);
  }
  void at(const CombineTilesArgs& a) const { on_device(a.tiles, a.stats); }
  void at(const HeadLogprobsArgs& a) const {
    on_device(a.z, a.stats);
    in_host(a.ids, a.logprobs, a.entropies);
  }
  void at(const SampleRowsArgs& a) const {
    on_device(a.z, a.tiles, a.stats, a.scratch);
    in_host(a.rows, a.choices);
    for (const SampleRow& row : a.rows) in_host(row.previous_ids, row.forbidden_ids);
  }
  void at(const DistillRowsArgs& a) const {
    on_device(a.student, a.student_stats, a.teacher, a.teacher_stats);
    in_host(a.weight, a.value);
  }
  void at(const HeadLogitsBackwardArgs& a) const {
    on_device(a.z, a.stats, a.d_tempered, a.d_logits);
    in_host(a.ids, a.d_logprob, a.d_entropy, a.inv_temperature);
  }
  void at(const ValueRowsArgs& a) const {
    on_device(a.hidden, a.w);
    in_host(a.rows, a.values);
  }
  void at(const ValueRowsBackwardArgs& a) const {
    on_device(a.hidden, a.w, a.d_hidden, a.grad);
    in_host(a.rows, a.d_value);
  }
  void at(const ProjectArgs& a) const {
    at(a.w);
    on_device(a.x, a.y);
  }
  void at(const WeightGradientArgs& a) const { on_device(a.dy, a.x, a.grad); }
  void at(const NormRowsArgs& a) const {
    on_device(a.x, a.y);
    at(a.norm);
  }
  void at(const NormRowsBackwardArgs& a) const {
    on_device(a.x, a.dy, a.dx, a.grad, a.partial);
    at(a.norm);
  }
  void at(const RoundFloatsArgs& a) const { on_device(a.from, a.to); }
  void at(const GluRowsArgs& a) const { on_device(a.gate_up, a.h); }
  void at(const ProjectGatedBackwardArgs& a) const {
    at(a.w);
    on_device(a.dy, a.gate_up, a.d_gate_up, a.h);
  }
  void at(const AttendBackwardArgs& a) const {
    const AttentionBackwardArgs& b = a.attention;
    on_device(static_cast<const std::byte*>(b.q), b.pool, static_cast<const std::byte*>(b.out),
              b.lse, b.d_out, b.dqkv, a.work.sums(), a.workspace);
  }
  void at(const RopeRowsBackwardArgs& a) const {
    on_device(a.rope.dqkv, static_cast<const std::byte*>(a.rope.dqkv_rounded), a.rope.qkv,
              a.q_norm_grad, a.k_norm_grad, a.partial, a.work.sums());
    at(a.rope.norm);
    host(a.rope.places);
  }
  void at(const BiasGradientArgs& a) const { on_device(a.dy, a.partial, a.grad); }
  void at(const EmbedRowsBackwardArgs& a) const {
    on_device(a.dx, a.grad);
    in_host(a.ids);
  }
  void at(const ReadFloatsArgs& a) const {
    on_device(a.from);
    in_host(a.runs);
    for (const FloatRun& run : a.runs) on_device(run.to);
  }
  void at(const PackRowsArgs& a) const {
    on_device(a.bytes, a.rows);
    in_host(a.staging);
  }
  void at(const PackColumnsArgs& a) const { on_device(a.bytes, a.w); }
  void at(const UnpackRowsArgs& a) const {
    at(a.from);
    on_device(a.rows);
  }
  void at(const PrepareGradientArgs&) const {}
  void at(const ZeroFloatsArgs& a) const { on_device(a.to); }
  void at(const CopyBytesArgs&) const {}
  void at(const CopyColumnsArgs& a) const { on_device(a.from, a.to); }
  void at(const SquaredNormArgs& a) const {
    on_device(a.values);
    in_host(a.chunk_sums);
  }
  void at(const SquareChunkArgs& a) const { in_host(a.values); }
  void at(const AdamwArgs& a) const { on_device(a.param, a.m, a.v, a.grad); }
  void at(const AdamwBf16Args& a) const { on_device(a.all.param, a.all.m, a.all.v, a.all.grad); }
  void at(const AdamwInt8Args& a) const {
    on_device(a.all.param, a.all.m, a.all.m_scales, a.all.v, a.all.v_scales, a.all.grad);
  }
  void at(const ScaleAddArgs& a) const { on_device(a.all.y, a.all.x); }
  void at(const TransposeRowsArgs& a) const { on_device(a.from, a.to); }
  void at(const AverageFloatsArgs& a) const { on_device(a.weights, a.averages); }
  void at(const ExchangeFloatsArgs& a) const { on_device(a.a, a.b); }
  void at(const AddRoundedArgs& a) const {
    on_device(a.all.from, a.all.to);
    in_host(a.rows);
  }
  void at(const WidenBf16Args& a) const { on_device(a.from, a.to); }
};

template <typename Device, typename Host, typename Args>
void check_memory(const Device& device, const Host& host, const Args& args) {
  OpMemory<Device, Host>{device, host}.at(args);
}

}  // namespace rl::testing

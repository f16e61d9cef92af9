// The backward of the transformer, from the last layer to the first. Cheap values (norm outputs,
// gated units) are recomputed; they have the forward's bits because the same kernels compute them
// from the same saved inputs.
#include <algorithm>

#include "core/error.h"
#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
#include "model/transformer.h"
#include "ops/compute.h"

namespace rl {
namespace {

class BackwardPass {
 public:
  BackwardPass(const Model& model, const ForwardBatch& batch, const KvPool& kv,
               ForwardBuffers& buffers, SavedActivations& saved, BackwardBuffers& scratch,
               const BackwardArgs& args)
      : compute_(model.compute()),
        model_(model),
        config_(model.config()),
        batch_(batch),
        kv_(kv),
        f_(buffers),
        saved_(saved),
        b_(scratch),
        args_(args),
        layout_(args.layout != nullptr ? *args.layout : model.layout()),
        n_(batch.rows()),
        hidden_(config_.hidden),
        item_(static_cast<int64_t>(dtype_bytes(compute_.dtype()))),
        rows_(model.tensor_ranks(), n_, scratch.limits.row_ranks > 1, compute_.space()) {
    RL_CHECK(scratch.limits.row_ranks == buffers.limits.row_ranks);
  }

  void run() {
    cut_attention();
    begin();
    for (int64_t l = config_.layers - 1; l >= layout_.first_trained_layer(); --l) {
      recompute(l);
      mlp_half(l);
      attention_half(l);
      if (args_.layer_done != nullptr) (*args_.layer_done)(l);
      fetch_input(saved_.layers[static_cast<size_t>(l)]);
    }
    if (!config_.has_embedding()) return model_.stage_ranks().start_gradient(dx());
    if (!config_.stage.divides() || !config_.tied_head) embedding_gradient();
  }

 private:
  std::span<float> dx() const { return {b_.dx, static_cast<size_t>(n_ * hidden_)}; }

  // The gradient of the residual after the last layer.
  void begin() {
    const StageRanks& stages = model_.stage_ranks();
    stages.wait_gradient();
    if (!config_.has_head()) return stages.receive_gradient(dx());
    const RowRange own = rows_.own();
    zero(b_.dx, own.count);
    norm_gradient({rows_.all(), f_.x, args_.d_hidden + own.first * hidden_, b_.dx},
                  layout_.final_norm());
  }

  // Calls add with the gradient of the parameter of `size` elements at this offset of the masters;
  // null: it is frozen or absent.
  void with_grad(int64_t offset, int64_t size, FunctionRef<void(float* grad)> add) const {
    const int64_t at = offset >= 0 ? layout_.gradient_of(offset) : -1;
    at >= 0 ? args_.grads.add(at, size, add) : add(nullptr);
  }
  RowNorm norm(int64_t weight) const {
    return {model_.held_masters().at(weight), config_.rms_eps, config_.norm_weight};
  }
  void zero(float* x, int64_t rows) { zero_floats(compute_, {x, rows * hidden_}); }

  // Of some rows, of which the rank has some: what a norm read, the gradient of its output, and
  // where that of its input is added.
  struct NormRows {
    RowRange rows;
    const float *x, *dy;  // (own rows, C)
    float* dx;
  };
  // Adds to dx and to the norm weight's gradient.
  void norm_gradient(const NormRows& r, int64_t weight) {
    const int64_t own = rows_.own(r.rows).count;
    with_grad(weight, hidden_, [&](float* grad) {
      const bool apart = rows_.divides() && grad != nullptr;
      float* const partial = b_.partial + (apart ? rows_.first_chunk(r.rows) * hidden_ : 0);
      norm_rows_backward(compute_, {r.x, r.dy, norm(weight), r.dx, apart ? b_.unused_grad : grad,
                                    own, hidden_, partial});
      if (apart) add_chunks(r.rows, grad);
    });
  }

  // Chunks of all ranks, in the order in which one rank adds them.
  void add_chunks(const RowRange& rows, float* grad) {
    rows_.gather_chunks(b_.partial, hidden_, rows);
    for (int64_t chunk = 0; chunk < num_gradient_chunks(rows.count); ++chunk)
      scale_add(compute_, {{1.0f, grad, 1.0f, b_.partial + chunk * hidden_}, hidden_});
  }

  // Operands of a weight gradient, dy^T x.
  struct Operands {
    int64_t rows;
    std::byte* dy;  // (rows, n)
    int64_t n;
    std::byte* x;  // (rows, k)
    int64_t k;
  };
  // Adds to the gradients of the trained rows of the matrix (n, k) at this offset.
  void matrix_gradient(int64_t offset, const Operands& g) {
    layout_.for_each_trained(offset, g.n * g.k, [&](const TrainedRun& run) {
      std::byte* const columns = g.dy + (run.master - offset) / g.k * item_;
      args_.grads.add_matrix(
          {run.gradient, run.size, g.k}, [&](float* to, int64_t first, int64_t count) {
            weight_gradient(
                compute_, {columns + first / g.k * item_, count / g.k, g.x, g.k, g.rows, to, g.n});
          });
    });
  }

  // d_normed and the products of parts are free by now.
  void embedding_gradient() {
    const int64_t gradient = layout_.gradient_of(layout_.embedding());
    if (gradient < 0) return;
    const float* dx = b_.dx;
    if (rows_.divides()) dx = all_rows_of_dx();
    add_embedding_gradient(model_, {batch_.ids, dx, gradient, args_.grads, f_.parts, b_.d_normed});
  }

  const float* all_rows_of_dx() {
    const RowRange own = rows_.own();
    const auto row_bytes = static_cast<uint64_t>(hidden_) * sizeof(float);
    copy_bytes(compute_, {b_.dx, b_.d_normed + own.first * hidden_,
                          static_cast<uint64_t>(own.count) * row_bytes});
    rows_.gather(bytes_of(b_.d_normed), row_bytes, rows_.all());
    return b_.d_normed;
  }

  // The values of a whole group, when its last layer is reached.
  void recompute(int64_t l) {
    const SavedActivations::Layer& s = saved_.layers[static_cast<size_t>(l)];
    if (!s.kept.all() && l + 1 == s.group.end)
      recompute_layers(model_, batch_, kv_, f_, saved_, s.group);
  }
  // The forward left the last inputs on the device. The buffer of one that was read gets the next
  // that is not there; the copy may run while the one between them is read.
  void fetch_input(const SavedActivations::Layer& read) {
    if (read.host_input == nullptr || read.input < kInputsOnDevice) return;
    const int64_t before = saved_.inputs[static_cast<size_t>(read.input - kInputsOnDevice)];
    const SavedActivations::Layer& next = saved_.layers[static_cast<size_t>(before)];
    if (next.group.end <= layout_.first_trained_layer()) return;
    const auto floats = static_cast<uint64_t>(rows_.own().count * hidden_);
    copy_bytes(compute_, {next.host_input, next.x_in, floats * sizeof(float)});
  }

  // Recomputes a norm's output of some rows into the forward's buffer, from its first row on.
  void renorm(const float* x, int64_t weight, const RowRange& rows) {
    const RowRange own = rows_.own(rows);
    std::byte* const to = f_.normed + (own.first - rows.first) * hidden_ * item_;
    norm_rows(compute_, {x, norm(weight), to, own.count, hidden_});
    gather(f_.normed, rows);
  }

  // Of rows in the compute dtype, from the first of the range on.
  void gather(std::byte* values, const RowRange& rows) const {
    rows_.gather(values, static_cast<uint64_t>(hidden_ * item_), rows);
  }

  // The output of attention or MLP before its sandwich norm, and that norm.
  struct Added {
    const float* values;
    int64_t out_norm;  // negative: none
  };
  // Some rows of the residual's gradient and of the buffers beside it: the rank's in dx and
  // d_normed, all of them in rounded.
  struct GradientRange {
    RowRange rows;
    int64_t own;
    float *dx, *d_normed;
    std::byte* rounded;
  };
  GradientRange gradient_range(const RowRange& rows) const {
    const int64_t at = rows_.place(rows) * hidden_;
    return {rows, rows_.own(rows).count, b_.dx + at, b_.d_normed + rows.first * hidden_,
            b_.rounded + rows.first * hidden_ * item_};
  }

  // Rounds the gradient of the output projection of attention or MLP: the residual's gradient,
  // passed back through the sandwich norm if there is one.
  void round_output_gradient(const GradientRange& r, const Added& added) {
    const float* d = r.dx;
    if (added.out_norm >= 0) {
      zero(r.d_normed, r.own);
      norm_gradient({r.rows, added.values, r.dx, r.d_normed}, added.out_norm);
      d = r.d_normed;
    }
    const int64_t before = rows_.own(r.rows).first - r.rows.first;
    round_floats(compute_, {d, r.own * hidden_, r.rounded + before * hidden_ * item_});
    gather(r.rounded, r.rows);
  }

  // Of some rows.
  struct MlpRows {
    const float* x_mid;
    float* added;        // null without sandwich norms
    std::byte* gate_up;  // of the first part; null: not kept, nor what was added
    int64_t part_rows;   // the most of gate_up of a part (PartOffsets)
  };

  // As many rows at a time as the buffers have room for.
  void mlp_half(int64_t l) {
    const SavedActivations::Layer s = saved_.values(l, f_);
    const int64_t most = b_.limits.mlp_rows, width = 2 * config_.part(l).ffn;
    RL_CHECK(most == f_.limits.mlp_rows);
    for (int64_t first = 0; first < n_; first += most) {
      const GradientRange r = gradient_range({first, std::min(most, n_ - first)});
      const int64_t own = rows_.place(r.rows) * hidden_;
      MlpRows mlp{s.x_mid + own, nullptr, nullptr, f_.limits.rows};
      if (s.gate_up != nullptr) mlp.gate_up = s.gate_up + first * width * item_;
      if (s.mlp_added != nullptr) mlp.added = s.mlp_added + own;
      mlp_gradient(l, r, mlp);
    }
  }

  int64_t num_parts() const { return config_.split.count; }
  PartSums part_sums(int64_t rows) const { return {f_.parts, config_.split, rows * hidden_}; }
  std::byte* gate_up_of(const MlpRows& mlp, int64_t l, int64_t p) const {
    return mlp.gate_up + 2 * PartOffsets(config_.part(l), p, mlp.part_rows).h * item_;
  }
  std::byte* units_of(int64_t l, int64_t p) const {
    return f_.h + PartOffsets(config_.part(l), p, f_.limits.mlp_rows).h * item_;
  }

  // Gate, up and gated units from the residual; the norm's output stays in the forward's buffer.
  void mlp_again(int64_t l, const RowRange& range, MlpRows& mlp) {
    const int64_t rows = range.count;
    mlp.gate_up = saved_.gate_up_again;
    mlp.added = saved_.mlp_added_again;
    mlp.part_rows = f_.limits.mlp_rows;
    renorm(mlp.x_mid, model_.layout().layer(l).mlp_norm, range);
    const PartSums sums = part_sums(rows);
    for (int64_t p = 0; p < num_parts(); ++p) {
      const PackedLayer& forward = forward_weights().packed().layer(l, p);
      project_gated(compute_, {forward.gate_up, f_.normed, rows, units_of(l, p),
                               gate_up_of(mlp, l, p), config_.activation, &forward.down});
      if (mlp.added == nullptr) continue;
      float* const to = config_.split.divides() ? sums.part(p) : mlp.added;
      project(compute_, {forward.down, units_of(l, p), rows, to, true});
    }
    if (mlp.added != nullptr) add_parts(sums, range, mlp.added);
  }
  const ComputeCopy& forward_weights() const {
    return batch_.weights != nullptr ? *batch_.weights : model_.trained();
  }

  // to = the sum of the parts' products of the rank's rows; undivided it is there already.
  void add_parts(const PartSums& products, const RowRange& rows, float* to) {
    if (!config_.split.divides()) return;
    const float* const sum = rows_.sum(compute_, products, rows, f_.own_parts);
    const int64_t floats = rows_.own(rows).count * hidden_;
    copy_bytes(compute_, {sum, to, static_cast<uint64_t>(floats) * sizeof(float)});
  }

  // The last product of a part on the way back, dx = dy W, goes where it is added to the others.
  void project_back(const PackedMatrix& w, const std::byte* dy, const PartSums& sums, int64_t part,
                    const GradientRange& r) {
    float* const to = config_.split.divides() ? sums.part(part) : r.d_normed;
    project(compute_, {w, dy, r.rows.count, to});
  }

  void mlp_gradient(int64_t l, const GradientRange& r, MlpRows mlp) {
    const int64_t rows = r.rows.count;
    const LayerOffsets& whole = model_.layout().layer(l);
    const int64_t ffn = config_.part(l).ffn;
    const bool again = mlp.gate_up == nullptr;
    if (again) mlp_again(l, r.rows, mlp);
    round_output_gradient(r, {mlp.added, whole.mlp_out_norm});
    const PartSums sums = part_sums(rows);
    for (int64_t p = 0; p < num_parts(); ++p) {
      const LayerOffsets& at = model_.layout().layer(l, p);
      const PackedLayer& packed = args_.packed.layer(l, p);
      std::byte* const h = units_of(l, p);
      project_gated_backward(compute_, {packed.down, r.rounded, gate_up_of(mlp, l, p), b_.d_gate_up,
                                        rows, config_.activation, again ? nullptr : h});
      matrix_gradient(at.down, {rows, r.rounded, hidden_, h, ffn});
      if (!again && p == 0) renorm(mlp.x_mid, at.mlp_norm, r.rows);
      matrix_gradient(at.gate_up, {rows, b_.d_gate_up, 2 * ffn, f_.normed, hidden_});
      project_back(packed.gate_up, b_.d_gate_up, sums, p, r);
    }
    add_parts(sums, r.rows, r.d_normed);
    norm_gradient({r.rows, mlp.x_mid, r.d_normed, r.dx}, whole.mlp_norm);
  }

  // The values of one part of a layer's heads.
  SavedActivations::Layer heads_of(SavedActivations::Layer s, int64_t l, int64_t p) const {
    const PartOffsets by(config_.part(l), p, f_.limits.rows);
    s.q += by.q * item_;
    s.mixed += by.mixed * item_;
    s.lse += by.lse;
    if (s.qkv != nullptr) s.qkv += by.qkv;
    return s;
  }

  void attention_half(int64_t l) {
    const SavedActivations::Layer all = saved_.values(l, f_);
    const LayerOffsets& whole = model_.layout().layer(l);
    const GradientRange r = gradient_range(rows_.all());
    round_output_gradient(r, {all.attention_added, whole.attention_out_norm});
    const PartSums sums = part_sums(n_);
    for (int64_t p = 0; p < num_parts(); ++p) {
      const LayerOffsets& at = model_.layout().layer(l, p);
      const PackedLayer& packed = args_.packed.layer(l, p);
      const LayerShape shape = config_.part(l);
      const SavedActivations::Layer s = heads_of(all, l, p);
      matrix_gradient(at.o, {n_, b_.rounded, hidden_, s.mixed, shape.q_width()});
      project(compute_, {packed.o, b_.rounded, n_, b_.d_mixed});
      attention_gradient(l, p, s);
      rope_gradient(l, p, s);
      if (at.qkv_bias >= 0) qkv_bias_gradient(at.qkv_bias, shape.qkv_width());
      if (p == 0) renorm(s.x_in, at.input_norm, rows_.all());
      matrix_gradient(at.qkv, {n_, b_.dqkv_rounded, shape.qkv_width(), f_.normed, hidden_});
      project_back(packed.qkv, b_.dqkv_rounded, sums, p, r);
    }
    add_head_norms(whole);
    add_parts(sums, rows_.all(), b_.d_normed);
    norm_gradient({rows_.all(), all.x_in, b_.d_normed, b_.dx}, whole.input_norm);
  }

  void qkv_bias_gradient(int64_t offset, int64_t width) {
    layout_.for_each_trained(offset, width, [&](const TrainedRun& run) {
      args_.grads.add(run.gradient, run.size, [&](float* to) {
        bias_gradient(compute_,
                      {b_.dqkv + (run.master - offset), n_, run.size, b_.partial, to, width});
      });
    });
  }

  int64_t entry_of(int64_t l, int64_t p) const { return l * num_parts() + p; }

  void cut_attention() {
    if (batch_.context == nullptr) return b_.work.cut(batch_.sequences, b_.d_prompts);
    RL_CHECK(batch_.context->rows.rows <= b_.limits.all_rows);
    if (in_ring()) return;
    if (by_heads()) return b_.work.cut(batch_.all_sequences(), b_.d_prompts);
    b_.work.cut(batch_.sequences, batch_.context->rows, b_.d_prompts);
  }

  // This rank's heads of the rows of all ranks, then all heads of its rows.
  bool by_heads() const { return batch_.context != nullptr && batch_.context->by_heads(); }
  bool in_ring() const { return batch_.context != nullptr && batch_.context->in_ring(); }
  HeadExchange exchange_of_rows() const {
    return {compute_, batch_.context->ranks, batch_.context->row_places, b_.heads.room};
  }
  static std::byte* bytes_of(float* values) { return reinterpret_cast<std::byte*>(values); }

  void attention_gradient_by_heads(int64_t l, int64_t p, const SavedActivations::Layer& s) {
    const int64_t entry = entry_of(l, p);
    const AttentionShape& shape = kv_.shape.layers[static_cast<size_t>(entry)];
    const int64_t q = shape.heads * shape.head_dim, k = shape.kv_heads * shape.head_dim;
    const HeadExchange rows = exchange_of_rows();
    rows.to_heads({bytes_of(b_.d_mixed), bytes_of(b_.heads.d_mixed), {1, {q * 4}}});
    rows.to_heads({s.mixed, f_.heads.mixed, {1, {q * item_}}});
    b_.work.set_sum_width(2 * k);
    const AttentionBackwardArgs args{
        shape, attention_rule(config_, l), s.q,          kv_.layer(entry), f_.heads.mixed,
        s.lse, b_.heads.d_mixed,           b_.heads.dqkv};
    attend_backward(compute_, {args, b_.work, b_.attention});
    b_.work.for_each_part([&](int64_t first_row, int64_t count, const float* sums) {
      for (int64_t r = 0; r < count; ++r) {
        float* const to = b_.heads.dqkv + (first_row + r) * (q + 2 * k) + q;
        scale_add(compute_, {{1.0f, to, 1.0f, sums + r * 2 * k}, 2 * k});
      }
    });
    rows.to_rows({bytes_of(b_.dqkv), bytes_of(b_.heads.dqkv), {3, {q * 4, k * 4, k * 4}}});
    if (batch_.context->rows.own_rows == 0)
      zero_floats(compute_, {b_.dqkv, config_.part(l).qkv_width()});
  }

  void attention_gradient(int64_t l, int64_t p, const SavedActivations::Layer& s) {
    if (by_heads()) return attention_gradient_by_heads(l, p, s);
    b_.work.set_sum_width(config_.part(l).kv_width());
    const AttentionBackwardArgs args{kv_.shape.layers[static_cast<size_t>(entry_of(l, p))],
                                     attention_rule(config_, l),
                                     s.q,
                                     kv_.layer(entry_of(l, p)),
                                     s.mixed,
                                     s.lse,
                                     b_.d_mixed,
                                     b_.dqkv};
    if (in_ring()) {
      const RingLayer layer{compute_, *batch_.context, batch_.sequences, f_.ring, b_.attention};
      return attend_ring_backward(layer, args, b_.ring, b_.work);
    }
    attend_backward(compute_, {args, b_.work, b_.attention});
    if (batch_.context != nullptr)
      batch_.context->sum_rows(b_.work.sums(), config_.part(l).kv_width());
  }

  // Gradients of q and k become gradients of the QKV projection.
  void rope_gradient(int64_t l, int64_t p, const SavedActivations::Layer& s) {
    const HeadNorm norms = head_norm(config_, model_.trained().layer(l));
    AttentionShape shape = kv_.shape.layers[static_cast<size_t>(entry_of(l, p))];
    shape.heads *= b_.limits.head_ranks;
    shape.kv_heads *= b_.limits.head_ranks;
    const RopeBackwardArgs args{shape,           b_.dqkv, f_.places.data(),         &model_.rope(l),
                                b_.dqkv_rounded, n_,      s.qkv ? &norms : nullptr, s.qkv,
                                nullptr};
    const auto run = [&](float* q_grad, float* k_grad) {
      const BackwardWork& work = by_heads() ? no_sums_ : b_.work;
      rope_rows_backward(compute_, {args, work, q_grad, k_grad, b_.partial});
    };
    const LayerOffsets& at = model_.layout().layer(l);
    const int64_t size = config_.head_dim;
    if (config_.split.divides() && at.q_norm >= 0) {
      float* const own = head_norm_sums().part(p);
      zero_floats(compute_, {own, 2 * size});
      return run(own, own + size);
    }
    with_grad(at.q_norm, size, [&](float* q_grad) {
      with_grad(at.k_norm, size, [&](float* k_grad) { run(q_grad, k_grad); });
    });
  }

  PartSums head_norm_sums() const { return {b_.head_norms, config_.split, 2 * config_.head_dim}; }

  // All parts have the q and k norms, and each has a gradient of its own heads.
  void add_head_norms(const LayerOffsets& at) {
    if (!config_.split.divides() || at.q_norm < 0) return;
    const float* const sum = model_.tensor_ranks().sum(compute_, head_norm_sums());
    const int64_t size = config_.head_dim;
    const auto add = [&](int64_t offset, const float* from) {
      with_grad(offset, size, [&](float* grad) {
        if (grad != nullptr) scale_add(compute_, {{1.0f, grad, 1.0f, from}, size});
      });
    };
    add(at.q_norm, sum);
    add(at.k_norm, sum + size);
  }

  Compute& compute_;
  const Model& model_;
  const ModelConfig& config_;
  const ForwardBatch& batch_;
  const KvPool& kv_;
  ForwardBuffers& f_;
  SavedActivations& saved_;
  BackwardBuffers& b_;
  const BackwardArgs& args_;
  const WeightLayout& layout_;
  const BackwardWork no_sums_{0, 0};
  const int64_t n_, hidden_, item_;
  const ResidualRows rows_;
};

}  // namespace

void backward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
              ForwardBuffers& buffers, SavedActivations& saved, BackwardBuffers& scratch,
              const BackwardArgs& args) {
  BackwardPass(model, batch, kv, buffers, saved, scratch, args).run();
}

}  // namespace rl

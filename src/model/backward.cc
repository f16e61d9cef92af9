// The backward of the transformer, from the last layer to the first. Cheap values (norm outputs,
// gated units) are recomputed; they have the forward's bits because the same kernels compute them
// from the same saved inputs.
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
        hidden_(config_.hidden) {}

  void run() {
    b_.work.cut(batch_.sequences, b_.d_prompts);
    zero(b_.dx);
    norm_gradient(saved_.x_out, args_.d_hidden, layout_.final_norm(), b_.dx);
    for (int64_t l = config_.layers - 1; l >= layout_.first_trained_layer(); --l) {
      recompute(l);
      mlp_half(l);
      attention_half(l);
      fetch_input(saved_.layers[static_cast<size_t>(l)]);
    }
    embedding_gradient();
  }

 private:
  // Calls add with the gradient of the parameter of `size` elements at this offset of the masters;
  // null: it is frozen or absent.
  void with_grad(int64_t offset, int64_t size, FunctionRef<void(float* grad)> add) const {
    const int64_t at = offset >= 0 ? layout_.gradient_of(offset) : -1;
    at >= 0 ? args_.grads.add(at, size, add) : add(nullptr);
  }
  RowNorm norm(int64_t weight) const {
    return {model_.master() + weight, config_.rms_eps, config_.norm_weight};
  }
  void zero(float* x) { zero_floats(compute_, {x, n_ * hidden_}); }

  // Adds to dx (N, C) and to the norm weight's gradient.
  void norm_gradient(const float* x, const float* dy, int64_t weight, float* dx) {
    with_grad(weight, hidden_, [&](float* grad) {
      norm_rows_backward(compute_, {x, dy, norm(weight), dx, grad, n_, hidden_, b_.partial});
    });
  }

  // Adds dy^T x to the gradients of the trained rows of the matrix (n, k) at this offset.
  void matrix_gradient(int64_t offset, std::byte* dy, int64_t n, std::byte* x, int64_t k) {
    const auto item = static_cast<int64_t>(dtype_bytes(compute_.dtype()));
    layout_.for_each_trained(offset, n * k, [&](const TrainedRun& run) {
      std::byte* const columns = dy + (run.master - offset) / k * item;
      args_.grads.add_matrix(
          {run.gradient, run.size, k}, [&](float* to, int64_t first, int64_t count) {
            weight_gradient(compute_, {columns + first / k * item, count / k, x, k, n_, to, n});
          });
    });
  }

  // d_normed is free by now.
  void embedding_gradient() {
    const int64_t at = layout_.gradient_of(layout_.embedding());
    if (at < 0) return;
    const float scale = embedding_scale(config_, compute_.dtype());
    args_.grads.add_rows(at, batch_.ids, hidden_, b_.d_normed,
                         [&](float* to, std::span<const int32_t> ids) {
                           embed_rows_backward(compute_, {b_.dx, ids, hidden_, scale, to});
                         });
  }

  // The values of a whole group, when its last layer is reached.
  void recompute(int64_t l) {
    const SavedActivations::Layer& s = saved_.layers[static_cast<size_t>(l)];
    if (!s.kept.all() && l + 1 == s.group.end)
      recompute_layers(model_, batch_, kv_, f_, saved_, s.group);
  }
  // Gated units of the layer computed again last are still in the forward's buffer.
  bool has_gated_units(const SavedActivations::Layer& s, int64_t l) const {
    return !s.kept.mlp && l + 1 == s.group.end;
  }

  // The forward left the last inputs on the device. The buffer of one that was read gets the next
  // that is not there; the copy may run while the one between them is read.
  void fetch_input(const SavedActivations::Layer& read) {
    if (read.host_input == nullptr || read.input < kInputsOnDevice) return;
    const int64_t before = saved_.inputs[static_cast<size_t>(read.input - kInputsOnDevice)];
    const SavedActivations::Layer& next = saved_.layers[static_cast<size_t>(before)];
    if (next.group.end <= layout_.first_trained_layer()) return;
    copy_bytes(compute_,
               {next.host_input, next.x_in, static_cast<uint64_t>(n_ * hidden_) * sizeof(float)});
  }

  // Recomputes a norm's output into the forward's buffer.
  void renorm(const float* x, int64_t weight) {
    norm_rows(compute_, {x, norm(weight), f_.normed, n_, hidden_});
  }

  // Rounds the gradient of the output projection of attention or MLP: the residual's gradient,
  // passed back through the sandwich norm if there is one.
  void round_output_gradient(const float* added, int64_t out_norm) {
    const float* d = b_.dx;
    if (out_norm >= 0) {
      zero(b_.d_normed);
      norm_gradient(added, b_.dx, out_norm, b_.d_normed);
      d = b_.d_normed;
    }
    round_floats(compute_, {d, n_ * hidden_, b_.rounded});
  }

  void mlp_half(int64_t l) {
    const SavedActivations::Layer s = saved_.values(l, f_);
    const LayerOffsets& at = model_.layout().layer(l);
    const PackedLayer& packed = args_.packed.layer(l);
    const int64_t ffn = config_.layer(l).ffn;
    round_output_gradient(s.mlp_added, at.mlp_out_norm);
    project_gated_backward(compute_, {packed.down, b_.rounded, s.gate_up, b_.d_gate_up, n_,
                                      config_.activation, has_gated_units(s, l) ? nullptr : f_.h});
    matrix_gradient(at.down, b_.rounded, hidden_, f_.h, ffn);
    renorm(s.x_mid, at.mlp_norm);
    matrix_gradient(at.gate_up, b_.d_gate_up, 2 * ffn, f_.normed, hidden_);
    project(compute_, {packed.gate_up, b_.d_gate_up, n_, b_.d_normed});
    norm_gradient(s.x_mid, b_.d_normed, at.mlp_norm, b_.dx);
  }

  void attention_half(int64_t l) {
    const SavedActivations::Layer s = saved_.values(l, f_);
    const LayerOffsets& at = model_.layout().layer(l);
    const PackedLayer& packed = args_.packed.layer(l);
    const LayerShape shape = config_.layer(l);
    round_output_gradient(s.attention_added, at.attention_out_norm);
    matrix_gradient(at.o, b_.rounded, hidden_, s.mixed, shape.q_width());
    project(compute_, {packed.o, b_.rounded, n_, b_.d_mixed});
    attention_gradient(l, s);
    rope_gradient(l, s, at);
    if (at.qkv_bias >= 0) qkv_bias_gradient(at.qkv_bias, shape.qkv_width());
    renorm(s.x_in, at.input_norm);
    matrix_gradient(at.qkv, b_.dqkv_rounded, shape.qkv_width(), f_.normed, hidden_);
    project(compute_, {packed.qkv, b_.dqkv_rounded, n_, b_.d_normed});
    norm_gradient(s.x_in, b_.d_normed, at.input_norm, b_.dx);
  }

  void qkv_bias_gradient(int64_t offset, int64_t width) {
    layout_.for_each_trained(offset, width, [&](const TrainedRun& run) {
      args_.grads.add(run.gradient, run.size, [&](float* to) {
        bias_gradient(compute_,
                      {b_.dqkv + (run.master - offset), n_, run.size, b_.partial, to, width});
      });
    });
  }

  void attention_gradient(int64_t l, const SavedActivations::Layer& s) {
    b_.work.set_sum_width(config_.layer(l).kv_width());
    const AttentionBackwardArgs args{kv_.shape.layers[static_cast<size_t>(l)],
                                     attention_rule(config_, l),
                                     s.q,
                                     kv_.layer(l),
                                     s.mixed,
                                     s.lse,
                                     b_.d_mixed,
                                     b_.dqkv};
    attend_backward(compute_, {args, b_.work, b_.attention});
  }

  // Gradients of q and k become gradients of the QKV projection.
  void rope_gradient(int64_t l, const SavedActivations::Layer& s, const LayerOffsets& at) {
    const HeadNorm norms = head_norm(config_, model_.trained().layer(l));
    const RopeBackwardArgs args{kv_.shape.layers[static_cast<size_t>(l)],
                                b_.dqkv,
                                f_.places.data(),
                                &model_.rope(l),
                                b_.dqkv_rounded,
                                n_,
                                s.qkv ? &norms : nullptr,
                                s.qkv,
                                nullptr};
    const int64_t size = config_.layer(l).head_dim;
    with_grad(at.q_norm, size, [&](float* q_grad) {
      with_grad(at.k_norm, size, [&](float* k_grad) {
        rope_rows_backward(compute_, {args, b_.work, q_grad, k_grad, b_.partial});
      });
    });
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
  const int64_t n_, hidden_;
};

}  // namespace

void backward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
              ForwardBuffers& buffers, SavedActivations& saved, BackwardBuffers& scratch,
              const BackwardArgs& args) {
  BackwardPass(model, batch, kv, buffers, saved, scratch, args).run();
}

}  // namespace rl

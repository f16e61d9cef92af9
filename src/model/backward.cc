// The backward of the transformer, from the last layer to the first. Cheap values (norm outputs,
// gated units) are recomputed; they have the forward's bits because the same kernels compute them
// from the same saved inputs.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "model/transformer.h"
#include "ops/convert.h"
#include "ops/embedding.h"
#include "ops/glu.h"
#include "ops/rms_norm.h"

namespace rl {
namespace {

constexpr int64_t kRowsPerTask = 64;  // also the unit in which norm-weight gradients are summed
constexpr int64_t kEmbedColumns = 64;

int64_t num_chunks(int64_t rows) { return (rows + kRowsPerTask - 1) / kRowsPerTask; }

uint64_t carve_backward(BackwardBuffers& b, const ModelConfig& c, const KvShape& kv,
                        int64_t max_rows, int num_threads, std::byte* data) {
  const int64_t q = c.heads * c.head_dim, qkv = q + 2 * c.kv_heads * c.head_dim;
  const uint64_t rows = Matmul::padded_rows(max_rows), item = dtype_bytes(kv.attention.dtype);
  ArenaPlan plan;
  const auto take = [&](const char* name, uint64_t bytes) {
    const uint64_t offset = plan.book(name, bytes);
    return data ? data + offset : nullptr;
  };
  const auto floats = [&](const char* name, uint64_t n) {
    return reinterpret_cast<float*>(take(name, n * 4));
  };
  b.dx = floats("dx", rows * c.hidden);
  b.d_normed = floats("d normed", rows * c.hidden);
  b.rounded = take("rounded", rows * c.hidden * item);
  b.d_gate_up = take("d gate up", rows * 2 * c.ffn * item);
  b.d_mixed = floats("d attention output", rows * q);
  b.dqkv = floats("d qkv", rows * qkv);
  b.dqkv_rounded = take("d qkv rounded", rows * qkv * item);
  b.partial = floats("norm gradients", num_chunks(max_rows) * std::max(c.hidden, qkv));
  b.d_prompts = floats("d prompts", max_rows * (qkv - q));
  b.attention_stride = attention_backward_scratch_floats(kv.attention);
  b.attention = floats("attention backward scratch", num_threads * b.attention_stride);
  return plan.total_bytes();
}

class BackwardPass {
 public:
  BackwardPass(const Model& model, const ForwardBatch& batch, const KvPool& kv,
               ForwardBuffers& buffers, const SavedActivations& saved, BackwardBuffers& scratch,
               const BackwardArgs& args)
      : model_(model),
        config_(model.config()),
        batch_(batch),
        kv_(kv),
        f_(buffers),
        saved_(saved),
        b_(scratch),
        args_(args),
        executor_(model.matmul().executor()),
        dtype_(model.compute_dtype()),
        item_(dtype_bytes(dtype_)),
        n_(batch.rows()),
        hidden_(config_.hidden),
        ffn_(config_.ffn),
        q_(config_.heads * config_.head_dim),
        qkv_(q_ + 2 * config_.kv_heads * config_.head_dim) {}

  void run() {
    b_.work.cut(batch_.sequences, b_.d_prompts);
    std::fill_n(b_.dx, n_ * hidden_, 0.0f);
    norm_backward({saved_.x_out, args_.d_hidden, model_.layout().final_norm(), b_.dx});
    for (int64_t l = config_.layers - 1; l >= 0; --l) {
      mlp_half(l);
      attention_half(l);
    }
    embedding();
  }

 private:
  void for_rows(FunctionRef<void(int64_t row0, int64_t rows, int64_t chunk)> body) {
    executor_.parallel_for(num_chunks(n_), [&](int64_t chunk, int) {
      const int64_t row0 = chunk * kRowsPerTask;
      body(row0, std::min(kRowsPerTask, n_ - row0), chunk);
    });
  }

  // Weight-gradient GEMMs read rows past the batch, which must be zero.
  void zero_tail(void* data, int64_t width) {
    std::memset(static_cast<std::byte*>(data) + n_ * width * item_, 0,
                (Matmul::padded_depth(n_) - n_) * width * item_);
  }

  // grad[n, k] += dy^T x.
  void weight_grad(void* dy, int64_t n, void* x, int64_t k, int64_t offset) {
    zero_tail(dy, n);
    zero_tail(x, k);
    model_.matmul().accumulate_weight_grad({dy, n, x, n_, n, k, args_.grads + offset});
  }

  // Adds the partial sums of every chunk, in order, to a gradient vector.
  void reduce_partials(int64_t width, float* grad) {
    for (int64_t chunk = 0; chunk < num_chunks(n_); ++chunk)
      add_elements(b_.partial + chunk * width, width, grad);
  }

  // Adds to dx (N, C) and to the weight's gradient.
  struct Norm {
    const float *x, *dy;
    int64_t weight;
    float* dx;
  };
  void norm_backward(const Norm& n) {
    for_rows([&](int64_t row0, int64_t rows, int64_t chunk) {
      const int64_t at = row0 * hidden_;
      float* dw = b_.partial + chunk * hidden_;
      std::fill_n(dw, hidden_, 0.0f);
      rms_norm_backward({n.x + at, model_.master() + n.weight, n.dy + at, n.dx + at, dw, rows,
                         hidden_, config_.rms_eps, config_.norm_weight});
    });
    reduce_partials(hidden_, args_.grads + n.weight);
  }

  // Recomputes a norm's output into the forward's buffer.
  void renorm(const float* x, int64_t weight) {
    for_rows([&](int64_t row0, int64_t rows, int64_t) {
      rms_norm({x + row0 * hidden_, model_.master() + weight, f_.normed + row0 * hidden_ * item_,
                dtype_, rows, hidden_, config_.rms_eps, config_.norm_weight});
    });
  }

  // Rounds the gradient of the output projection of attention or MLP: the residual's gradient,
  // passed back through the sandwich norm if there is one.
  void round_output_gradient(const float* added, int64_t norm) {
    const float* d = b_.dx;
    if (norm >= 0) {
      std::fill_n(b_.d_normed, n_ * hidden_, 0.0f);
      norm_backward({added, b_.dx, norm, b_.d_normed});
      d = b_.d_normed;
    }
    for_rows([&](int64_t row0, int64_t rows, int64_t) {
      round_elements(d + row0 * hidden_, rows * hidden_, dtype_,
                     b_.rounded + row0 * hidden_ * item_);
    });
  }

  void product(const PackedMatrix& w, const void* dy, float* out) {
    model_.matmul().run_into({out, w.shape().slices.n}, w, dy, n_);
  }

  void mlp_half(int64_t l) {
    const SavedActivations::Layer& s = saved_.layers[l];
    const LayerOffsets& at = model_.layout().layer(l);
    const PackedWeights::Layer& packed = args_.packed.layer(l);
    round_output_gradient(s.mlp_added, at.mlp_out_norm);
    for_rows([&](int64_t row0, int64_t rows, int64_t) {
      glu_recompute({s.gate_up + row0 * 2 * ffn_ * item_, f_.h + row0 * ffn_ * item_, dtype_, rows,
                     ffn_, config_.activation});
    });
    weight_grad(b_.rounded, hidden_, f_.h, ffn_, at.down);
    model_.matmul().run(packed.down, b_.rounded, n_, [&](const MatmulTile& t) {
      glu_backward({t.data, s.gate_up + t.row0 * 2 * ffn_ * item_,
                    b_.d_gate_up + t.row0 * 2 * ffn_ * item_, dtype_, t.rows, t.col0, t.cols, ffn_,
                    config_.activation});
    });
    renorm(s.x_mid, at.mlp_norm);
    weight_grad(b_.d_gate_up, 2 * ffn_, f_.normed, hidden_, at.gate_up);
    product(packed.gate_up, b_.d_gate_up, b_.d_normed);
    norm_backward({s.x_mid, b_.d_normed, at.mlp_norm, b_.dx});
  }

  void attention_half(int64_t l) {
    const SavedActivations::Layer& s = saved_.layers[l];
    const LayerOffsets& at = model_.layout().layer(l);
    const PackedWeights::Layer& packed = args_.packed.layer(l);
    round_output_gradient(s.attention_added, at.attention_out_norm);
    weight_grad(b_.rounded, hidden_, s.mixed, q_, at.o);
    product(packed.o, b_.rounded, b_.d_mixed);
    attend(l);
    unrotate(l);
    if (at.qkv_bias >= 0) bias_grad(at.qkv_bias);
    renorm(s.x_in, at.input_norm);
    weight_grad(b_.dqkv_rounded, qkv_, f_.normed, hidden_, at.qkv);
    product(packed.qkv, b_.dqkv_rounded, b_.d_normed);
    norm_backward({s.x_in, b_.d_normed, at.input_norm, b_.dx});
  }

  void attend(int64_t l) {
    const SavedActivations::Layer& s = saved_.layers[l];
    const AttentionBackwardArgs args{kv_.shape.attention,
                                     attention_rule(config_, l),
                                     s.q,
                                     kv_.layer(l),
                                     s.mixed,
                                     s.lse,
                                     b_.d_mixed,
                                     b_.dqkv};
    const int64_t heads = config_.kv_heads;
    zero_sums();
    for (int64_t step = 0; step < b_.work.steps(); ++step) {
      const std::span<const AttentionBackwardPiece> pieces = b_.work.pieces(step, args.rule);
      executor_.parallel_for(static_cast<int64_t>(pieces.size()) * heads,
                             [&](int64_t task, int worker) {
                               attention_backward(args, pieces[task / heads], task % heads,
                                                  b_.attention + worker * b_.attention_stride);
                             });
    }
  }

  void zero_sums() {
    constexpr int64_t kFloatsPerTask = 1 << 16;
    const std::span<float> sums = b_.work.sums();
    const auto size = static_cast<int64_t>(sums.size());
    executor_.parallel_for((size + kFloatsPerTask - 1) / kFloatsPerTask, [&](int64_t task, int) {
      const int64_t first = task * kFloatsPerTask;
      std::fill_n(sums.data() + first, std::min(kFloatsPerTask, size - first), 0.0f);
    });
  }

  // Takes gradients of q and k back through RoPE and their norms, to gradients of the QKV
  // projection.
  void unrotate(int64_t l) {
    const float* qkv = saved_.layers[l].qkv;
    const HeadNorm norms = head_norm(config_, model_.trained().layer(l));
    const int64_t width = 2 * config_.head_dim;
    for_rows([&](int64_t row0, int64_t rows, int64_t chunk) {
      b_.work.add_sums(row0, rows, [&](int64_t row) { return b_.dqkv + row * qkv_ + q_; });
      RopeBackwardArgs args{kv_.shape.attention,
                            b_.dqkv + row0 * qkv_,
                            f_.places + row0,
                            &model_.rope(l),
                            b_.dqkv_rounded + row0 * qkv_ * item_,
                            rows,
                            nullptr,
                            nullptr,
                            nullptr};
      if (qkv) {
        args.norm = &norms;
        args.qkv = qkv + row0 * qkv_;
        args.d_norm = b_.partial + chunk * width;
        std::fill_n(args.d_norm, width, 0.0f);
      }
      rope_backward(args);
    });
    if (!qkv) return;
    const LayerOffsets& at = model_.layout().layer(l);
    for (int64_t chunk = 0; chunk < num_chunks(n_); ++chunk) {
      const float* sums = b_.partial + chunk * width;
      add_elements(sums, config_.head_dim, args_.grads + at.q_norm);
      add_elements(sums + config_.head_dim, config_.head_dim, args_.grads + at.k_norm);
    }
  }

  void bias_grad(int64_t offset) {
    for_rows([&](int64_t row0, int64_t rows, int64_t chunk) {
      float* sum = b_.partial + chunk * qkv_;
      std::fill_n(sum, qkv_, 0.0f);
      for (int64_t r = 0; r < rows; ++r) add_elements(b_.dqkv + (row0 + r) * qkv_, qkv_, sum);
    });
    reduce_partials(qkv_, args_.grads + offset);
  }

  void embedding() {
    const int64_t tasks = (hidden_ + kEmbedColumns - 1) / kEmbedColumns;
    const float scale = embedding_scale(config_, dtype_);
    executor_.parallel_for(tasks, [&](int64_t task, int) {
      const int64_t col0 = task * kEmbedColumns;
      embed_backward({b_.dx, batch_.ids.data(), n_, hidden_, col0,
                      std::min(kEmbedColumns, hidden_ - col0), scale,
                      args_.grads + model_.layout().embedding()});
    });
  }

  const Model& model_;
  const ModelConfig& config_;
  const ForwardBatch& batch_;
  const KvPool& kv_;
  ForwardBuffers& f_;
  const SavedActivations& saved_;
  BackwardBuffers& b_;
  const BackwardArgs& args_;
  Executor& executor_;
  const Dtype dtype_;
  const int64_t item_, n_, hidden_, ffn_, q_, qkv_;
};

}  // namespace

uint64_t BackwardBuffers::bytes(const ModelConfig& config, const KvShape& kv, int64_t max_rows,
                                int num_threads) {
  BackwardBuffers b(config, kv, max_rows, num_threads, nullptr);
  return carve_backward(b, config, kv, max_rows, num_threads, nullptr);
}
BackwardBuffers::BackwardBuffers(const ModelConfig& config, const KvShape& kv, int64_t max_rows,
                                 int num_threads, std::byte* data)
    : work(data ? max_rows : 0, 2 * config.kv_heads * config.head_dim) {
  carve_backward(*this, config, kv, max_rows, num_threads, data);
}

void backward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
              ForwardBuffers& buffers, const SavedActivations& saved, BackwardBuffers& scratch,
              const BackwardArgs& args) {
  BackwardPass(model, batch, kv, buffers, saved, scratch, args).run();
}

}  // namespace rl

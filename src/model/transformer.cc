// The forward. One layer is: norm, QKV projection, RoPE and KV write, attention, output projection
// with residual, norm, gate/up projection with gated unit, down projection with residual. A norm is
// part of the op that completes the residual it reads; RoPE and the KV write are part of the
// projection or, in decode, of attention.
#include "model/transformer.h"

#include <cmath>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {

// Where one layer reads and writes: in place for inference, separate buffers for training.
struct LayerPlaces {
  float *x_in, *x_mid, *x_out;
  std::byte *q, *mixed, *gate_up;
  float *lse, *qkv, *attention_added, *mlp_added;
};

LayerPlaces places_of(const ForwardBuffers& b, const SavedActivations* saved, int64_t l) {
  if (!saved) return {b.x, b.x, b.x, b.q, b.mixed, nullptr, nullptr, b.qkv, b.added, b.added};
  const SavedActivations::Layer& s = saved->layers[l];
  float* out =
      l + 1 < static_cast<int64_t>(saved->layers.size()) ? saved->layers[l + 1].x_in : saved->x_out;
  float* qkv = s.qkv ? s.qkv : b.qkv;
  return {s.x_in, s.x_mid,           out,        s.q, s.mixed, s.gate_up, s.lse,
          qkv,    s.attention_added, s.mlp_added};
}

class Pass {
 public:
  Pass(const Model& model, const ForwardBatch& batch, const KvPool& kv, ForwardBuffers& buffers,
       SavedActivations* saved)
      : compute_(model.compute()),
        model_(model),
        weights_(batch.weights ? *batch.weights : model.trained()),
        config_(model.config()),
        batch_(batch),
        kv_(kv),
        b_(buffers),
        saved_(saved) {}

  void run() {
    fill_places();
    b_.work.cut(batch_.sequences, model_.block_size());
    embed();
    for (int64_t l = 0; l < config_.layers; ++l) {
      attention_half(l, places_of(b_, saved_, l));
      mlp_half(l, places_of(b_, saved_, l));
    }
  }

 private:
  void fill_places() {
    const int64_t block = model_.block_size();
    int64_t next = 0;
    RL_CHECK(batch_.rows() <= b_.max_rows);
    RL_CHECK(!batch_.decode || saved_ == nullptr);
    for (const SequenceRows& s : batch_.sequences) {
      RL_CHECK(!batch_.decode || (s.rows == 1 && s.prefix_sequence < 0));
      RL_CHECK(s.first_row == next && s.rows > 0 && next + s.rows <= batch_.rows() &&
               s.first_position + s.rows <= model_.max_positions());
      has_partial_blocks_ =
          has_partial_blocks_ || (s.prefix_sequence >= 0 && s.first_position % block != 0);
      for (int32_t r = 0; r < s.rows; ++r) {
        const int32_t position = s.first_position + r;
        b_.places[static_cast<size_t>(next++)] = {position, s.blocks[position / block]};
      }
    }
    RL_CHECK(next == batch_.rows());
  }

  RowNorm norm(const float* weight) const { return {weight, config_.rms_eps, config_.norm_weight}; }
  // The norm of the residual after layer l, and the matrix that reads it; null: a scalar head,
  // which is not packed.
  NextNorm norm_after(int64_t l) const {
    if (l + 1 < config_.layers) return {norm(weights_.layer(l + 1).input_norm), b_.normed};
    return {norm(weights_.final_norm()), b_.hidden};
  }
  const PackedMatrix* read_after(int64_t l) const {
    const PackedWeights& packed = weights_.packed();
    if (l + 1 < config_.layers) return &packed.layer(l + 1).qkv;
    return config_.scalar_head ? nullptr : &packed.head();
  }

  // x = E[ids].
  void embed() {
    float* x = saved_ ? saved_->layers[0].x_in : b_.x;
    const float scale = embedding_scale(config_, model_.compute_dtype());
    embed_rows(compute_,
               {weights_.embedding(), batch_.ids, config_.hidden, scale, x, norm_after(-1)});
  }

  // With normed heads, the backward needs the projection itself too.
  QkvResult qkv_result() const {
    if (batch_.decode) return QkvResult::kProjection;
    return saved_ && config_.qk_norm ? QkvResult::kBoth : QkvResult::kHeads;
  }

  // x_mid = x_in + attention(norm(x_in)) Wo^T.
  void attention_half(int64_t l, const LayerPlaces& at) {
    const LayerVectors& vectors = weights_.layer(l);
    const PackedLayer& packed = weights_.packed().layer(l);
    const AttentionShape& shape = kv_.shape.layers[static_cast<size_t>(l)];
    const HeadNorm norms = head_norm(config_, vectors);
    const RopeKvArgs heads{shape,
                           at.qkv,
                           vectors.qkv_bias,
                           config_.qk_norm ? &norms : nullptr,
                           b_.places.data(),
                           &model_.rope(l),
                           at.q,
                           kv_.layer(l),
                           batch_.rows()};
    const AttentionArgs attention{shape, attention_rule(config_, l), at.q, kv_.layer(l), at.mixed,
                                  at.lse};
    project_qkv(compute_, {packed.qkv, b_.normed, qkv_result(), at.qkv, heads, &packed.o});
    if (has_partial_blocks_) copy_partial_blocks(compute_, {shape, kv_.layer(l), batch_.sequences});
    attend(compute_, {attention, b_.work, batch_.decode ? &heads : nullptr, b_.attention});
    project_residual(compute_, {packed.o,
                                at.mixed,
                                batch_.rows(),
                                at.x_in,
                                at.x_mid,
                                norm(vectors.attention_out_norm),
                                at.attention_added,
                                {norm(vectors.mlp_norm), b_.normed},
                                &packed.gate_up});
  }

  // x_out = x_mid + gated(norm(x_mid)) Wdown^T.
  void mlp_half(int64_t l, const LayerPlaces& at) {
    const PackedLayer& packed = weights_.packed().layer(l);
    project_gated(compute_, {packed.gate_up, b_.normed, batch_.rows(), b_.h, at.gate_up,
                             config_.activation, &packed.down});
    project_residual(compute_, {packed.down, b_.h, batch_.rows(), at.x_mid, at.x_out,
                                norm(weights_.layer(l).mlp_out_norm), at.mlp_added, norm_after(l),
                                read_after(l)});
  }

  Compute& compute_;
  const Model& model_;
  const ComputeCopy& weights_;
  const ModelConfig& config_;
  const ForwardBatch& batch_;
  const KvPool& kv_;
  ForwardBuffers& b_;
  SavedActivations* saved_;
  bool has_partial_blocks_ = false;  // some shared prefix ends inside a block
};

}  // namespace

HeadNorm head_norm(const ModelConfig& config, const LayerVectors& layer) {
  if (layer.q_norm == nullptr) return {};
  return {layer.q_norm, layer.k_norm, config.rms_eps, config.norm_weight};
}

float embedding_scale(const ModelConfig& config, Dtype compute) {
  if (!config.scaled_embedding) return 1.0f;
  return round_to(compute, static_cast<float>(std::sqrt(static_cast<double>(config.hidden))));
}

void forward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
             ForwardBuffers& buffers, SavedActivations* saved) {
  Pass(model, batch, kv, buffers, saved).run();
}

}  // namespace rl

// The forward. One layer is: norm, QKV projection, RoPE and KV write, attention, output projection
// with residual, norm, gate/up projection with gated unit, down projection with residual. A norm is
// part of the op that completes the residual it reads; RoPE and the KV write are part of the
// projection or, in decode, of attention.
#include "model/transformer.h"

#include <algorithm>

#include "core/error.h"
#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
#include "ops/compute.h"

namespace rl {
namespace {

// Where one layer reads and writes: in place for inference, separate buffers for what training
// keeps.
struct LayerPlaces {
  float *x_in, *x_mid, *x_out;
  std::byte *q, *mixed, *gate_up;
  float *lse, *qkv, *attention_added, *mlp_added;
  QkvResult result;
};

LayerPlaces in_place(const ForwardBuffers& b, bool decode) {
  const QkvResult result = decode ? QkvResult::kProjection : QkvResult::kHeads;
  return {b.x, b.x, b.x, b.q, b.mixed, nullptr, nullptr, b.qkv, b.added, b.added, result};
}

// The input of the layer after this one.
float* input_after(const ForwardBuffers& b, const SavedActivations& saved, int64_t l) {
  if (l + 1 == static_cast<int64_t>(saved.layers.size())) return b.x;
  const SavedActivations::Layer& next = saved.layers[static_cast<size_t>(l + 1)];
  return next.kept.input ? next.x_in : b.x;
}

// Of a layer whose values are kept, apart from some that are computed again.
LayerPlaces places_to_keep(const ForwardBuffers& b, const SavedActivations& saved, int64_t l) {
  const SavedActivations::Layer& s = saved.layers[static_cast<size_t>(l)];
  LayerPlaces at = in_place(b, false);
  if (s.kept.input) at.x_in = s.x_in;
  at.x_out = input_after(b, saved, l);
  if (s.kept.residual) {
    at.x_mid = s.x_mid;
    at.attention_added = s.attention_added;
  }
  if (s.kept.qkv) {
    at.q = s.q;
    if (saved.head_norms) at.qkv = s.qkv;
    if (saved.head_norms) at.result = QkvResult::kBoth;
  }
  if (s.kept.attention) {
    at.mixed = s.mixed;
    at.lse = s.lse;
  }
  if (!s.kept.mlp) return at;
  at.gate_up = s.gate_up;
  at.mlp_added = s.mlp_added;
  return at;
}

// Of a layer that is computed again.
LayerPlaces places_again(const ForwardBuffers& b, const SavedActivations& saved, int64_t l) {
  const SavedActivations::Layer s = saved.values(l, b);
  float* const x_out =
      l + 1 < s.group.end ? saved.layers[static_cast<size_t>(l + 1)].x_in : nullptr;
  return {s.x_in,
          s.x_mid,
          x_out,
          s.q,
          s.mixed,
          s.gate_up,
          s.lse,
          saved.head_norms ? s.qkv : b.qkv,
          s.attention_added,
          s.mlp_added != nullptr ? s.mlp_added : b.added,
          saved.head_norms ? QkvResult::kBoth : QkvResult::kHeads};
}

// Whether some shared prefix ends inside a block.
bool has_partial_blocks(const ForwardBatch& batch, int64_t block_size) {
  return std::ranges::any_of(batch.all_sequences(), [&](const SequenceRows& s) {
    return s.prefix_sequence >= 0 && s.first_position % block_size != 0;
  });
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
        saved_(saved),
        rows_(model.tensor_ranks(), batch.rows(), buffers.limits.row_ranks > 1,
              model.compute().space()),
        has_partial_blocks_(has_partial_blocks(batch, model.block_size())) {}

  void run() {
    place();
    begin();
    for (int64_t l = 0; l < config_.layers; ++l) {
      const LayerPlaces at = saved_ ? places_to_keep(b_, *saved_, l) : in_place(b_, batch_.decode);
      if (saved_) offload_input(saved_->layers[static_cast<size_t>(l)]);
      project_heads(l, at);
      attend_rows(l, at);
      add_attention(l, at);
      run_mlp(l, at);
    }
    if (!config_.stage.last()) model_.stage_ranks().send_rows(residual());
  }

  // Places of the rows, and how attention is cut.
  void place() {
    fill_places();
    if (batch_.context != nullptr && (by_heads() || in_ring()))
      RL_CHECK(batch_.context->blocks.longest() <= static_cast<uint64_t>(b_.limits.own_blocks));
    b_.work.cut(by_heads() ? batch_.all_sequences() : batch_.sequences, model_.block_size());
  }

  // Places, blocks and how attention is cut are those of run().
  void run_again(const LayerGroup& group) {
    for (int64_t l = group.first; l < group.end; ++l) again(l, places_again(b_, *saved_, l));
  }

 private:
  // The copy may run while the layer reads the input; the buffer is written again two inputs later.
  void offload_input(const SavedActivations::Layer& s) {
    if (s.host_input == nullptr) return;
    const auto floats = static_cast<uint64_t>(rows_.own().count * config_.hidden);
    copy_bytes(compute_, {s.x_in, s.host_input, floats * sizeof(float)});
  }

  // What of one layer was not kept. Keys and values are part of it, as other layers may have had
  // their place since.
  void again(int64_t l, const LayerPlaces& at) {
    const SavedActivations::Layer& s = saved_->layers[static_cast<size_t>(l)];
    const LayerVectors& vectors = weights_.layer(l);
    const bool continues = l + 1 < s.group.end;
    if (!s.kept.qkv) {
      if (s.kept.input) normalize(at.x_in, vectors.input_norm);
      project_heads(l, at);
    }
    if (!s.kept.attention) attend_rows(l, at);
    if (!s.kept.residual) add_attention(l, at);
    if (continues) run_mlp(l, at);
  }

  void normalize(const float* x, const float* weight) {
    const RowRange own = rows_.own();
    norm_rows(compute_, {x, norm(weight), b_.normed + own.first * config_.hidden * item(),
                         own.count, config_.hidden});
    gather(b_.normed, rows_.all());
  }

  // What each rank has normed of its rows of a range comes to all.
  void gather(std::byte* normed, const RowRange& range) const {
    const int64_t bytes = config_.hidden * item();
    rows_.gather(normed + range.first * bytes, static_cast<uint64_t>(bytes), range);
  }

  void fill_places() {
    const int64_t block = model_.block_size();
    int64_t next = 0;
    RL_CHECK(batch_.rows() <= b_.limits.rows);
    RL_CHECK(!batch_.decode || (saved_ == nullptr && b_.limits.decodes));
    for (const SequenceRows& s : batch_.sequences) {
      RL_CHECK(!batch_.decode || (s.rows == 1 && s.prefix_sequence < 0));
      RL_CHECK(s.first_row == next && s.rows > 0 && next + s.rows <= batch_.rows() &&
               s.first_position + s.rows <= model_.max_positions());
      for (int32_t r = 0; r < s.rows; ++r) {
        const int32_t position = s.first_position + r;
        b_.places[static_cast<size_t>(next++)] = {position, own_block(s.blocks[position / block])};
      }
    }
    RL_CHECK(next == batch_.rows());
  }

  // Ranks that divide heads have the blocks of their rows apart from those of their heads.
  bool by_heads() const { return batch_.context != nullptr && batch_.context->by_heads(); }
  bool in_ring() const { return batch_.context != nullptr && batch_.context->in_ring(); }
  int32_t own_block(int32_t block) const {
    if (!by_heads()) return block;
    if (batch_.context->rows.own_rows == 0) return 0;
    return block - static_cast<int32_t>(batch_.context->blocks[batch_.context->ranks.rank()].begin);
  }

  RowNorm norm(const float* weight) const { return {weight, config_.rms_eps, config_.norm_weight}; }
  // The norm of the residual after layer l, and the matrix that reads it; null: a scalar head,
  // which is not packed, or another stage's layer. That stage has the norm too, so here it is one
  // that nobody reads.
  NextNorm norm_after(int64_t l) const {
    if (l + 1 < config_.layers) return {norm(weights_.layer(l + 1).input_norm), b_.normed};
    if (!config_.has_head()) return {norm(weights_.layer(l).input_norm), b_.normed};
    return {norm(weights_.final_norm()), b_.hidden};
  }
  const PackedMatrix* read_after(int64_t l) const {
    const PackedWeights& packed = weights_.packed();
    if (l + 1 < config_.layers) return &packed.layer(l + 1).qkv;
    return config_.scalar_head || !config_.has_head() ? nullptr : &packed.head();
  }

  // After the last layer.
  std::span<float> residual() const {
    return {b_.x, static_cast<size_t>(batch_.rows() * config_.hidden)};
  }

  // The residual at the first layer, from the ids or from the stage before.
  void begin() {
    float* const x = saved_ ? saved_->layers[0].x_in : b_.x;
    if (config_.has_embedding()) return embed(x);
    model_.stage_ranks().receive_rows({x, residual().size()});
    normalize(x, weights_.layer(0).input_norm);
  }

  // All ranks find all rows, and each keeps its own.
  void embed(float* x) {
    float* const all = rows_.divides() ? b_.parts : x;
    embed_tokens(model_, weights_, {batch_.ids, all, norm_after(-1)});
    if (!rows_.divides()) return;
    const RowRange own = rows_.own();
    copy_bytes(compute_, {all + own.first * config_.hidden, x,
                          static_cast<uint64_t>(own.count * config_.hidden) * sizeof(float)});
  }

  // One of the parts of a layer that this rank has.
  struct Part {
    int64_t layer, index;
    LayerPlaces at;
    int64_t entry;  // of the KV pool
  };
  template <typename Step>
  void for_parts(int64_t l, const LayerPlaces& all, const Step& step) const {
    for (int64_t p = 0; p < config_.split.count; ++p) {
      const PartOffsets by(config_.part(l), p, b_.limits.rows);
      LayerPlaces at = all;
      at.q += by.q * item();
      at.mixed += by.mixed * item();
      if (at.gate_up != nullptr) at.gate_up += 2 * by.h * item();
      if (at.lse != nullptr) at.lse += by.lse;
      if (at.qkv != nullptr) at.qkv += by.qkv;
      step(Part{l, p, at, l * config_.split.count + p});
    }
  }
  const PackedLayer& packed(const Part& part) const {
    return weights_.packed().layer(part.layer, part.index);
  }
  const AttentionShape& shape_of(const Part& part) const {
    return kv_.shape.layers[static_cast<size_t>(part.entry)];
  }

  // With all heads of the rows.
  AttentionShape row_shape(const Part& part) const {
    AttentionShape shape = shape_of(part);
    if (!by_heads()) return shape;
    shape.heads *= b_.limits.head_ranks;
    shape.kv_heads *= b_.limits.head_ranks;
    return shape;
  }

  RopeKvArgs heads_of(const Part& part, const HeadNorm& norms) const {
    return {row_shape(part),
            part.at.qkv,
            weights_.layer(part.layer).qkv_bias[static_cast<size_t>(part.index)],
            config_.qk_norm ? &norms : nullptr,
            b_.places.data(),
            &model_.rope(part.layer),
            by_heads() ? b_.heads.q : part.at.q,
            by_heads() ? b_.heads.kv : kv_.layer(part.entry),
            batch_.rows()};
  }

  // q, and keys and values of the pool, from norm(x_in).
  void project_heads(int64_t l, const LayerPlaces& all) {
    const HeadNorm norms = head_norm(config_, weights_.layer(l));
    for_parts(l, all, [&](const Part& part) {
      if (in_ring() && has_partial_blocks_) clear_blocks(part);
      project_qkv(compute_, {packed(part).qkv, b_.normed, part.at.result, part.at.qkv,
                             heads_of(part, norms), &packed(part).o});
      if (in_ring()) return;
      if (batch_.context != nullptr) meet_ranks(part);
      if (!has_partial_blocks_) return;
      copy_partial_blocks(compute_,
                          {shape_of(part), kv_.layer(part.entry), batch_.all_sequences()});
    });
  }

  // In a ring rows read a prompt's last keys in the prompt's own block. The beginning of the block
  // that continues it is never written, but must be finite.
  void clear_blocks(const Part& part) {
    const uint64_t blocks = batch_.context->blocks[batch_.context->ranks.rank()].count();
    const uint64_t bytes = blocks * shape_of(part).block_bytes();
    zero_floats(compute_, {reinterpret_cast<float*>(kv_.layer(part.entry)),
                           static_cast<int64_t>(bytes / sizeof(float))});
  }

  // Keys and values of the rows of all ranks, or of this rank's heads with their queries.
  void meet_ranks(const Part& part) {
    const ContextBatch& context = *batch_.context;
    const AttentionShape& shape = shape_of(part);
    if (!by_heads()) return context.gather_blocks(kv_.layer(part.entry), shape.block_bytes());
    const auto blocks = static_cast<int64_t>(shape.block_bytes());
    exchange_of(context.row_places)
        .to_heads({b_.heads.q, part.at.q, {1, {shape.heads * shape.padded_dim() * item()}}});
    exchange_of(context.blocks).to_heads({b_.heads.kv, kv_.layer(part.entry), {1, {blocks}}});
  }
  RingLayer ring_layer() const {
    return {compute_, *batch_.context, batch_.sequences, b_.ring, b_.attention};
  }
  HeadExchange exchange_of(const Pieces& units) const {
    return {compute_, batch_.context->ranks, units, b_.heads.room};
  }

  // The rows of all heads, from this rank's heads of all rows.
  void return_heads(const Part& part) {
    const int64_t width = config_.part(part.layer).q_width();
    exchange_of(batch_.context->row_places)
        .to_rows({part.at.mixed, b_.heads.mixed, {1, {width / b_.limits.head_ranks * item()}}});
    if (batch_.context->rows.own_rows == 0)
      zero_floats(compute_, {reinterpret_cast<float*>(part.at.mixed), width * item() / 4});
  }

  void attend_rows(int64_t l, const LayerPlaces& all) {
    const HeadNorm norms = head_norm(config_, weights_.layer(l));
    for_parts(l, all, [&](const Part& part) {
      const RopeKvArgs heads = heads_of(part, norms);
      const AttentionArgs attention{shape_of(part),
                                    attention_rule(config_, l),
                                    part.at.q,
                                    kv_.layer(part.entry),
                                    by_heads() ? b_.heads.mixed : part.at.mixed,
                                    part.at.lse};
      if (in_ring()) return attend_ring(ring_layer(), attention, b_.work);
      attend(compute_, {attention, b_.work, batch_.decode ? &heads : nullptr, b_.attention});
      if (by_heads()) return_heads(part);
    });
  }

  // What a layer adds to some rows of the residual, of which the rank has some.
  struct Addition {
    RowRange rows;
    const float* residual;
    float* sum;
    RowNorm norm;    // of what is added, or none
    float* product;  // what is added, before its norm; null without one
    NextNorm then;   // of all rows of the batch
  };

  PartSums part_sums(int64_t rows) const {
    return {b_.parts, config_.split, rows * config_.hidden};
  }

  // The parts' products are complete.
  void add_parts(const PartSums& products, const Addition& a) {
    const RowRange own = rows_.own(a.rows);
    const float* product = rows_.sum(compute_, products, a.rows, b_.own_parts);
    if (a.norm.weight != nullptr) {
      const auto bytes = static_cast<uint64_t>(own.count * config_.hidden) * sizeof(float);
      copy_bytes(compute_, {product, a.product, bytes});
      product = a.product;
    }
    add_residual(compute_, {product, own.count, config_.hidden, a.residual, a.sum, a.norm,
                            behind(a.then, own.first)});
    gather(a.then.y, a.rows);
  }

  NextNorm behind(NextNorm then, int64_t row) const {
    then.y += row * config_.hidden * item();
    return then;
  }

  // x_mid = x_in + attention Wo^T.
  void add_attention(int64_t l, const LayerPlaces& all) {
    const LayerVectors& vectors = weights_.layer(l);
    const int64_t n = batch_.rows();
    const Addition a{rows_.all(),         all.x_in,
                     all.x_mid,           norm(vectors.attention_out_norm),
                     all.attention_added, {norm(vectors.mlp_norm), b_.normed}};
    if (!config_.split.divides()) {
      const PackedLayer& w = weights_.packed().layer(l);
      return project_residual(
          compute_, {w.o, all.mixed, n, a.residual, a.sum, a.norm, a.product, a.then, &w.gate_up});
    }
    const PartSums sums = part_sums(n);
    for_parts(l, all, [&](const Part& part) {
      project(compute_, {packed(part).o, part.at.mixed, n, sums.part(part.index), true});
    });
    add_parts(sums, a);
  }

  // As many rows at a time as the buffers have room for.
  void run_mlp(int64_t l, const LayerPlaces& at) {
    const int64_t n = batch_.rows(), most = b_.limits.mlp_rows;
    for (int64_t first = 0; first < n; first += most) {
      add_mlp(l, at, {first, std::min(most, n - first)});
    }
  }

  int64_t item() const { return static_cast<int64_t>(dtype_bytes(model_.compute_dtype())); }

  // h = gated(norm(x_mid)).
  void gate(const Part& part, const RowRange& rows) {
    const int64_t width = 2 * config_.part(part.layer).ffn;
    std::byte* const gate_up =
        part.at.gate_up != nullptr ? part.at.gate_up + rows.first * width * item() : nullptr;
    project_gated(compute_, {packed(part).gate_up, b_.normed + rows.first * config_.hidden * item(),
                             rows.count, b_.h, gate_up, config_.activation, &packed(part).down});
  }

  // x_out = x_mid + h Wdown^T. The parts use the same h, one after the other.
  void add_mlp(int64_t l, const LayerPlaces& all, const RowRange& rows) {
    const int64_t first = rows_.place(rows) * config_.hidden;
    const Addition a{rows,
                     all.x_mid + first,
                     all.x_out + first,
                     norm(weights_.layer(l).mlp_out_norm),
                     all.mlp_added != nullptr ? all.mlp_added + first : nullptr,
                     norm_after(l)};
    const PartSums sums = part_sums(rows.count);
    for_parts(l, all, [&](const Part& part) {
      gate(part, rows);
      const PackedMatrix& down = packed(part).down;
      if (config_.split.divides())
        return project(compute_, {down, b_.h, rows.count, sums.part(part.index), true});
      project_residual(compute_, {down, b_.h, rows.count, a.residual, a.sum, a.norm, a.product,
                                  behind(a.then, rows.first), read_after(l)});
    });
    if (config_.split.divides()) add_parts(sums, a);
  }

  Compute& compute_;
  const Model& model_;
  const ComputeCopy& weights_;
  const ModelConfig& config_;
  const ForwardBatch& batch_;
  const KvPool& kv_;
  ForwardBuffers& b_;
  SavedActivations* saved_;
  const ResidualRows rows_;
  const bool has_partial_blocks_;
};

}  // namespace

HeadNorm head_norm(const ModelConfig& config, const LayerVectors& layer) {
  if (layer.q_norm == nullptr) return {};
  return {layer.q_norm, layer.k_norm, config.rms_eps, config.norm_weight};
}

void forward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
             ForwardBuffers& buffers, SavedActivations* saved) {
  Pass(model, batch, kv, buffers, saved).run();
}

void place_rows(const Model& model, const ForwardBatch& batch, const KvPool& kv,
                ForwardBuffers& buffers) {
  Pass(model, batch, kv, buffers, nullptr).place();
}

void recompute_layers(const Model& model, const ForwardBatch& batch, const KvPool& kv,
                      ForwardBuffers& buffers, SavedActivations& saved, const LayerGroup& group) {
  Pass(model, batch, kv, buffers, &saved).run_again(group);
}

}  // namespace rl

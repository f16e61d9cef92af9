// Sizes of the transformer's buffers, and pointers into them: one function of each kind adds its
// regions, to plan and to carve alike.
#include <algorithm>

#include "core/error.h"
#include "model/ranks/tensor_ranks.h"
#include "model/transformer.h"

namespace rl {
namespace {

struct Carver {
  std::byte* base;
  ArenaPlan plan;
  template <typename T = std::byte>
  T* take(const char* name, uint64_t bytes) {
    const uint64_t offset = plan.add_region(name, bytes);
    return base ? reinterpret_cast<T*>(base + offset) : nullptr;
  }
};

// Of one layer, or the largest of all layers.
struct Widths {
  Widths(const ModelConfig& c, int64_t l) : Widths(c.own(l), c.hidden) {}
  explicit Widths(const ModelConfig& c) : Widths(c, 0) {
    for (int64_t l = 1; l < c.layers; ++l) {
      const Widths w(c, l);
      q = std::max(q, w.q);
      padded_q = std::max(padded_q, w.padded_q);
      kv = std::max(kv, w.kv);
      qkv = std::max(qkv, w.qkv);
      ffn = std::max(ffn, w.ffn);
    }
  }
  int64_t q, padded_q, kv, qkv, hidden, ffn;

 private:
  Widths(const LayerShape& s, int64_t hidden)
      : q(s.q_width()),
        padded_q(s.heads * padded_head_dim(s.head_dim)),
        kv(s.kv_width()),
        qkv(s.qkv_width()),
        hidden(hidden),
        ffn(s.ffn) {}
};

// The most that a layer needs.
template <typename Bytes>
uint64_t max_bytes(const KvShape& kv, const Bytes& bytes) {
  uint64_t most = 0;
  for (const AttentionShape& shape : kv.layers) most = std::max(most, bytes(shape));
  return most;
}

// Keys and values of one rank's rows, in the largest layer.
uint64_t own_kv_bytes(const KvShape& kv, const BatchLimits& limits) {
  return limits.own_blocks * max_bytes(kv, [](const AttentionShape& s) { return s.block_bytes(); });
}

void carve_heads(Carver& carver, const Widths& w, const KvShape& kv, const BatchLimits& limits,
                 SharedHeads& heads) {
  if (limits.head_ranks == 1) return;
  const uint64_t rows = padded_rows(limits.rows), item = dtype_bytes(kv.dtype());
  heads.q = carver.take("q of own rows", rows * w.padded_q * item);
  heads.kv = carver.take("KV of own rows", own_kv_bytes(kv, limits));
  heads.mixed = carver.take("attention output of own heads",
                            limits.all_rows * w.q / limits.head_ranks * item);
  // The ranks' pieces together are all heads of the rows and blocks of the rank that has most.
  const uint64_t bytes = std::max(own_kv_bytes(kv, limits), rows * w.padded_q * item);
  heads.room = {carver.take("heads, out", bytes), carver.take("heads, in", bytes)};
}

void carve_ring(Carver& carver, const Widths& w, const KvShape& kv, const BatchLimits& limits,
                RingRoom& ring) {
  if (limits.ring_ranks == 1) return;
  const uint64_t rows = padded_rows(limits.rows);
  const uint64_t heads =
      max_bytes(kv, [](const AttentionShape& s) { return static_cast<uint64_t>(s.heads); });
  for (int64_t i = 0; i < RingRoom::kv_count(limits.ring_ranks); ++i)
    ring.kv[i] = carver.take("KV of another rank", own_kv_bytes(kv, limits));
  ring.partial = carver.take<float>("attention output so far", rows * w.q * 4);
  ring.lse = carver.take<float>("lse so far", rows * heads * 4);
}

uint64_t carve_forward(ForwardBuffers& b, const ModelConfig& c, const KvShape& kv, int num_threads,
                       std::byte* data) {
  const Widths w(c);
  const uint64_t rows = padded_rows(b.limits.rows), item = dtype_bytes(kv.dtype());
  const uint64_t own_rows = padded_rows(b.limits.own_rows());
  Carver carver{data, {}};
  b.x = carver.take<float>("residual", own_rows * w.hidden * 4);
  b.normed = carver.take("normed", rows * w.hidden * item);
  const bool has_qkv = b.limits.decodes || c.qk_norm;
  b.qkv = has_qkv ? carver.take<float>("qkv", rows * w.qkv * 4) : nullptr;
  b.q = carver.take("q", rows * w.padded_q * item);
  b.mixed = carver.take("attention output", rows * w.q * item);
  b.h = carver.take("gated units", padded_rows(b.limits.mlp_rows) * w.ffn * item);
  b.parts = c.split.divides() ? carver.take<float>("products of parts",
                                                   PartSums::slots(c.split) * rows * w.hidden * 4)
                              : nullptr;
  const bool adds_own = b.limits.row_ranks > 1 && c.split.count > 1;
  b.own_parts =
      adds_own ? carver.take<float>("products of own rows", c.split.parts * own_rows * w.hidden * 4)
               : nullptr;
  b.hidden = carver.take("final hidden", rows * w.hidden * item);
  b.added = c.sandwich_norms ? carver.take<float>("added", own_rows * w.hidden * 4) : nullptr;
  b.attention = carver.take("attention scratch", max_bytes(kv, [&](const AttentionShape& s) {
                              return attention_workspace_bytes(s, num_threads);
                            }));
  carve_heads(carver, w, kv, b.limits, b.heads);
  carve_ring(carver, w, kv, b.limits, b.ring);
  return carver.plan.total_bytes();
}

// Of one layer, or memory for the values of any.
struct LayerSizes {
  LayerSizes(const ModelConfig& c, int64_t l) : widths(c, l), heads(c.own(l).heads) {}
  explicit LayerSizes(const ModelConfig& c) : widths(c), heads(0) {
    for (int64_t l = 0; l < c.layers; ++l) heads = std::max(heads, c.own(l).heads);
  }
  Widths widths;
  int64_t heads;
};

struct SavedRows {
  uint64_t rows, own_rows, item;  // own: of the residual
  const ModelConfig& config;
};

void take_input(Carver& carver, const SavedRows& of, SavedActivations::Layer& layer) {
  layer.x_in = carver.take<float>("x in", of.own_rows * of.config.hidden * 4);
}

void take_parts(Carver& carver, const SavedRows& of, const LayerSizes& sizes,
                const LayerParts& parts, SavedActivations::Layer& layer) {
  const ModelConfig& c = of.config;
  const Widths& w = sizes.widths;
  const uint64_t rows = of.rows, residual = of.own_rows * c.hidden * 4;
  if (parts.residual) layer.x_mid = carver.take<float>("x mid", residual);
  if (parts.qkv) layer.q = carver.take("q", rows * w.padded_q * of.item);
  if (parts.attention) {
    layer.mixed = carver.take("attention output", rows * w.q * of.item);
    layer.lse = carver.take<float>("lse", rows * sizes.heads * 4);
  }
  if (parts.mlp) layer.gate_up = carver.take("gate up", rows * 2 * w.ffn * of.item);
  if (parts.qkv && c.qk_norm) layer.qkv = carver.take<float>("qkv", rows * w.qkv * 4);
  if (!c.sandwich_norms) return;
  if (parts.residual) layer.attention_added = carver.take<float>("attention added", residual);
  if (parts.mlp) layer.mlp_added = carver.take<float>("mlp added", residual);
}

// What the forward's buffers have no room for of the layer that is computed last in its group.
void take_last(Carver& carver, const SavedRows& of, const LayerSizes& sizes,
               const ActivationRule& rule, SavedActivations::Layer& layer) {
  const bool full = rule.is_full();
  if (full || rule.attention) layer.lse = carver.take<float>("lse", of.rows * sizes.heads * 4);
  if ((full || rule.residual) && of.config.sandwich_norms)
    layer.attention_added =
        carver.take<float>("attention added", of.own_rows * of.config.hidden * 4);
}

// For MLPs that the backward computes again.
void take_again(Carver& carver, uint64_t rows, const SavedRows& of, SavedActivations& s) {
  SavedActivations::Layer layer = {};
  take_parts(carver, {rows, std::min(rows, of.own_rows), of.item, of.config}, LayerSizes(of.config),
             {false, false, false, false, true}, layer);
  s.gate_up_again = layer.gate_up;
  s.mlp_added_again = layer.mlp_added;
}

// Memory for what is computed again, by the place in a group. A layer before the last of its group
// has gate and up there if its MLP is computed as a whole.
std::vector<SavedActivations::Layer> take_places(Carver& carver, const SavedRows& of,
                                                 const ActivationRule& rule, bool whole_mlp) {
  if (rule.granularity == RecomputeGranularity::kNone) return {};
  const LayerSizes sizes(of.config);
  const LayerGroup longest = rule.group_of(0, of.config.layers);
  std::vector<SavedActivations::Layer> places(static_cast<size_t>(longest.end));
  for (int64_t i = 0; i < longest.end; ++i) {
    SavedActivations::Layer& place = places[static_cast<size_t>(i)];
    if (i > 0) take_input(carver, of, place);
    if (i + 1 < longest.end)
      take_parts(carver, of, sizes, {true, true, true, true, whole_mlp}, place);
    else
      take_last(carver, of, sizes, rule, place);
  }
  return places;
}

uint64_t input_bytes(const ModelConfig& c, const BatchLimits& limits) {
  return static_cast<uint64_t>(padded_rows(limits.own_rows()) * c.hidden) * sizeof(float);
}

// The inputs that layers keep: on the device each has memory of its own, or shares that of every
// second one.
class InputPlaces {
 public:
  InputPlaces(Carver& carver, const SavedRows& of, const ActivationRule& rule, std::byte* host)
      : carver_(carver), of_(of), offload_(rule.offload), host_(host) {
    if (!offload_) return;
    for (SavedActivations::Layer& turn : turns_) take_input(carver, of, turn);
  }
  void place(SavedActivations::Layer& layer) {
    layer.input = count_++;
    if (!offload_) return take_input(carver_, of_, layer);
    layer.x_in = turns_[layer.input % kInputsOnDevice].x_in;
    const uint64_t elements = of_.own_rows * of_.config.hidden;
    if (host_ != nullptr)
      layer.host_input = reinterpret_cast<float*>(host_) + layer.input * elements;
  }

 private:
  Carver& carver_;
  const SavedRows& of_;
  const bool offload_;
  std::byte* const host_;
  int64_t count_ = 0;
  SavedActivations::Layer turns_[kInputsOnDevice] = {};
};

struct SavedSizes {
  Dtype compute;
  const BatchLimits& limits;
};

struct SavedMemory {
  std::byte *device, *host;  // null: to plan
};

uint64_t carve_saved(SavedActivations& s, const ModelConfig& c, const SavedSizes& sizes,
                     const ActivationRule& rule, const SavedMemory& memory) {
  const BatchLimits& limits = sizes.limits;
  const SavedRows of{static_cast<uint64_t>(padded_rows(limits.rows)),
                     static_cast<uint64_t>(padded_rows(limits.own_rows())),
                     dtype_bytes(sizes.compute), c};
  Carver carver{memory.device, {}};
  s.head_norms = c.qk_norm;
  InputPlaces inputs(carver, of, rule, memory.host);
  const std::vector<SavedActivations::Layer> places =
      take_places(carver, of, rule, limits.mlp_rows >= limits.rows);
  if (rule.is_full() || rule.mlp)
    take_again(carver, static_cast<uint64_t>(padded_rows(limits.mlp_rows)), of, s);
  s.layers.resize(c.layers);
  s.inputs.clear();
  for (int64_t l = 0; l < c.layers; ++l) {
    const LayerParts kept = rule.kept(l);
    const LayerGroup group = rule.group_of(l, c.layers);
    SavedActivations::Layer& layer = s.layers[static_cast<size_t>(l)];
    layer = kept.all() ? SavedActivations::Layer{} : places[static_cast<size_t>(l - group.first)];
    layer.kept = kept;
    layer.group = group;
    layer.input = -1;
    if (!kept.mlp && l + 1 == group.end) {
      layer.gate_up = nullptr;
      layer.mlp_added = nullptr;
    }
    if (kept.input) {
      inputs.place(layer);
      s.inputs.push_back(l);
    }
    take_parts(carver, of, LayerSizes(c, l), kept, layer);
  }
  return carver.plan.total_bytes();
}

uint64_t carve_backward(BackwardBuffers& b, const ModelConfig& c, const KvShape& kv,
                        const BatchLimits& limits, int num_threads, std::byte* data) {
  const Widths w(c);
  const uint64_t rows = padded_rows(limits.rows), item = dtype_bytes(kv.dtype());
  const uint64_t mlp = padded_rows(limits.mlp_rows) * 2 * w.ffn;
  Carver carver{data, {}};
  b.d_normed = carver.take<float>("d normed", rows * std::max(c.hidden, w.q) * 4);
  b.d_mixed = b.d_normed;
  b.free_before = carver.plan.total_bytes();
  b.dx = carver.take<float>("dx", padded_rows(limits.own_rows()) * c.hidden * 4);
  b.rounded = carver.take("rounded", rows * c.hidden * item);
  b.d_gate_up = carver.take("d gate up", std::max<uint64_t>(mlp, rows * w.qkv) * item);
  b.dqkv_rounded = b.d_gate_up;
  b.dqkv = carver.take<float>("d qkv", rows * w.qkv * 4);
  b.partial = carver.take<float>("norm gradients",
                                 row_sum_floats(limits.rows, std::max(c.hidden, w.qkv)) * 4);
  b.unused_grad = limits.row_ranks > 1 ? carver.take<float>("unused", c.hidden * 4) : nullptr;
  b.head_norms =
      c.split.divides() && c.qk_norm
          ? carver.take<float>("head norm gradients", PartSums::slots(c.split) * 2 * c.head_dim * 4)
          : nullptr;
  const bool in_ring = limits.ring_ranks > 1;
  b.d_prompts = in_ring ? nullptr : carver.take<float>("d prompts", limits.all_rows * w.kv * 4);
  for (int64_t i = 0; in_ring && i < RingGradients::count(limits.ring_ranks); ++i)
    b.ring.kv[i] = carver.take<float>("d keys and values of a rank", limits.rows * w.kv * 4);
  b.attention =
      carver.take("attention backward scratch", max_bytes(kv, [&](const AttentionShape& s) {
                    return attention_backward_workspace_bytes(s, num_threads);
                  }));
  if (limits.head_ranks == 1) return carver.plan.total_bytes();
  b.heads.d_mixed = carver.take<float>("d attention output of own heads",
                                       limits.all_rows * w.q / limits.head_ranks * 4);
  b.heads.dqkv =
      carver.take<float>("d qkv of own heads", limits.all_rows * w.qkv / limits.head_ranks * 4);
  const uint64_t bytes = rows * w.qkv * 4;
  b.heads.room = {carver.take("heads, out", bytes), carver.take("heads, in", bytes)};
  return carver.plan.total_bytes();
}

}  // namespace

uint64_t ForwardBuffers::bytes(const ModelConfig& config, const KvShape& kv,
                               const BatchLimits& limits, int num_threads) {
  ForwardBuffers b(config, kv, limits, num_threads, nullptr);
  return carve_forward(b, config, kv, num_threads, nullptr);
}
ForwardBuffers::ForwardBuffers(const ModelConfig& config, const KvShape& kv,
                               const BatchLimits& limits, int num_threads, std::byte* data)
    : limits(limits),
      work(data ? limits.all_rows : 0),
      places(static_cast<size_t>(data ? limits.rows : 0)) {
  RL_CHECK(limits.mlp_rows == limits.rows || limits.mlp_rows % kMlpRowUnit == 0);
  carve_forward(*this, config, kv, num_threads, data);
}

uint64_t SavedActivations::bytes(const ModelConfig& config, Dtype compute,
                                 const BatchLimits& limits, const ActivationRule& rule) {
  SavedActivations s(config, compute, limits, nullptr, rule);
  return carve_saved(s, config, {compute, limits}, rule, {nullptr, nullptr});
}
uint64_t SavedActivations::host_bytes(const ModelConfig& config, const BatchLimits& limits,
                                      const ActivationRule& rule) {
  if (!rule.offload) return 0;
  return static_cast<uint64_t>(rule.num_inputs(config.layers)) * input_bytes(config, limits);
}
SavedActivations::SavedActivations(const ModelConfig& config, Dtype compute,
                                   const BatchLimits& limits, std::byte* data,
                                   const ActivationRule& rule, std::byte* host)
    : gate_up_again(nullptr), mlp_added_again(nullptr) {
  RL_CHECK(data == nullptr || !rule.offload || host != nullptr);
  carve_saved(*this, config, {compute, limits}, rule, {data, host});
}

PartOffsets::PartOffsets(const LayerShape& part, int64_t index, int64_t rows) {
  const int64_t before = index == 0 ? 0 : index * padded_rows(rows);
  q = before * part.heads * padded_head_dim(part.head_dim);
  mixed = before * part.q_width();
  lse = before * part.heads;
  qkv = before * part.qkv_width();
  h = before * part.ffn;
}

SavedActivations::Layer SavedActivations::values(int64_t l, const ForwardBuffers& buffers) const {
  Layer v = layers[static_cast<size_t>(l)];
  if (v.x_mid == nullptr) v.x_mid = buffers.x;
  if (v.q == nullptr) v.q = buffers.q;
  if (v.mixed == nullptr) v.mixed = buffers.mixed;
  if (v.qkv == nullptr && head_norms) v.qkv = buffers.qkv;
  return v;
}

uint64_t BackwardBuffers::bytes(const ModelConfig& config, const KvShape& kv,
                                const BatchLimits& limits, int num_threads) {
  BackwardBuffers b(config, kv, limits, num_threads, nullptr);
  return carve_backward(b, config, kv, limits, num_threads, nullptr);
}
BackwardBuffers::BackwardBuffers(const ModelConfig& config, const KvShape& kv,
                                 const BatchLimits& limits, int num_threads, std::byte* data)
    : limits(limits), work(data ? limits.all_rows : 0, Widths(config).kv) {
  carve_backward(*this, config, kv, limits, num_threads, data);
}

}  // namespace rl

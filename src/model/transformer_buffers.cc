// Sizes of the transformer's buffers, and pointers into them: one function of each kind adds its
// regions, to plan and to carve alike.
#include <algorithm>

#include "core/error.h"
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
  Widths(const ModelConfig& c, int64_t l) : Widths(c.layer(l), c.hidden) {}
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

uint64_t carve_forward(ForwardBuffers& b, const ModelConfig& c, const KvShape& kv, int num_threads,
                       std::byte* data) {
  const Widths w(c);
  const uint64_t rows = padded_rows(b.max_rows), item = dtype_bytes(kv.dtype());
  Carver carver{data, {}};
  b.x = carver.take<float>("residual", rows * w.hidden * 4);
  b.normed = carver.take("normed", rows * w.hidden * item);
  b.qkv = carver.take<float>("qkv", rows * w.qkv * 4);
  b.q = carver.take("q", rows * w.padded_q * item);
  b.mixed = carver.take("attention output", rows * w.q * item);
  b.h = carver.take("gated units", rows * w.ffn * item);
  b.hidden = carver.take("final hidden", rows * w.hidden * item);
  b.added = c.sandwich_norms ? carver.take<float>("added", rows * w.hidden * 4) : nullptr;
  b.attention = carver.take("attention scratch", max_bytes(kv, [&](const AttentionShape& s) {
                              return attention_workspace_bytes(s, num_threads);
                            }));
  return carver.plan.total_bytes();
}

// Of one layer, or memory for the values of any.
struct LayerSizes {
  LayerSizes(const ModelConfig& c, int64_t l) : widths(c, l), heads(c.layer(l).heads) {}
  explicit LayerSizes(const ModelConfig& c) : widths(c), heads(0) {
    for (int64_t l = 0; l < c.layers; ++l) heads = std::max(heads, c.layer(l).heads);
  }
  Widths widths;
  int64_t heads;
};

struct SavedRows {
  uint64_t rows, item;
  const ModelConfig& config;
};

void take_input(Carver& carver, const SavedRows& of, SavedActivations::Layer& layer) {
  layer.x_in = carver.take<float>("x in", of.rows * of.config.hidden * 4);
}

void take_parts(Carver& carver, const SavedRows& of, const LayerSizes& sizes,
                const LayerParts& parts, SavedActivations::Layer& layer) {
  const ModelConfig& c = of.config;
  const Widths& w = sizes.widths;
  const uint64_t rows = of.rows, residual = rows * c.hidden * 4;
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
  take_parts(carver, of, sizes, {false, false, false, false, full || rule.mlp}, layer);
  if (full || rule.attention) layer.lse = carver.take<float>("lse", of.rows * sizes.heads * 4);
  if (full && of.config.sandwich_norms)
    layer.attention_added = carver.take<float>("attention added", of.rows * of.config.hidden * 4);
}

// Memory for what is computed again, by the place in a group.
std::vector<SavedActivations::Layer> take_places(Carver& carver, const SavedRows& of,
                                                 const ActivationRule& rule) {
  if (rule.granularity == RecomputeGranularity::kNone) return {};
  const LayerSizes sizes(of.config);
  const LayerGroup longest = rule.group_of(0, of.config.layers);
  std::vector<SavedActivations::Layer> places(static_cast<size_t>(longest.end));
  for (int64_t i = 0; i < longest.end; ++i) {
    SavedActivations::Layer& place = places[static_cast<size_t>(i)];
    if (i > 0) take_input(carver, of, place);
    if (i + 1 < longest.end)
      take_parts(carver, of, sizes, {}, place);
    else
      take_last(carver, of, sizes, rule, place);
  }
  return places;
}

uint64_t input_bytes(const ModelConfig& c, int64_t max_rows) {
  return static_cast<uint64_t>(padded_rows(max_rows) * c.hidden) * sizeof(float);
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
    const uint64_t elements = of_.rows * of_.config.hidden;
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

struct SavedMemory {
  std::byte *device, *host;  // null: to plan
};

uint64_t carve_saved(SavedActivations& s, const ModelConfig& c, Dtype compute, int64_t max_rows,
                     const ActivationRule& rule, const SavedMemory& memory) {
  const SavedRows of{static_cast<uint64_t>(padded_rows(max_rows)), dtype_bytes(compute), c};
  Carver carver{memory.device, {}};
  s.head_norms = c.qk_norm;
  InputPlaces inputs(carver, of, rule, memory.host);
  const std::vector<SavedActivations::Layer> places = take_places(carver, of, rule);
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
    if (kept.input) {
      inputs.place(layer);
      s.inputs.push_back(l);
    }
    take_parts(carver, of, LayerSizes(c, l), kept, layer);
  }
  s.x_out = carver.take<float>("x out", of.rows * c.hidden * 4);
  return carver.plan.total_bytes();
}

uint64_t carve_backward(BackwardBuffers& b, const ModelConfig& c, const KvShape& kv,
                        int64_t max_rows, int num_threads, std::byte* data) {
  const Widths w(c);
  const uint64_t rows = padded_rows(max_rows), item = dtype_bytes(kv.dtype());
  Carver carver{data, {}};
  b.dx = carver.take<float>("dx", rows * c.hidden * 4);
  b.d_normed = carver.take<float>("d normed", rows * c.hidden * 4);
  b.rounded = carver.take("rounded", rows * c.hidden * item);
  b.d_gate_up = carver.take("d gate up", rows * 2 * w.ffn * item);
  b.d_mixed = carver.take<float>("d attention output", rows * w.q * 4);
  b.dqkv = carver.take<float>("d qkv", rows * w.qkv * 4);
  b.dqkv_rounded = carver.take("d qkv rounded", rows * w.qkv * item);
  b.partial =
      carver.take<float>("norm gradients", row_sum_floats(max_rows, std::max(c.hidden, w.qkv)) * 4);
  b.d_prompts = carver.take<float>("d prompts", max_rows * w.kv * 4);
  b.attention =
      carver.take("attention backward scratch", max_bytes(kv, [&](const AttentionShape& s) {
                    return attention_backward_workspace_bytes(s, num_threads);
                  }));
  return carver.plan.total_bytes();
}

}  // namespace

uint64_t ForwardBuffers::bytes(const ModelConfig& config, const KvShape& kv, int64_t max_rows,
                               int num_threads) {
  ForwardBuffers b(config, kv, max_rows, num_threads, nullptr);
  return carve_forward(b, config, kv, num_threads, nullptr);
}
ForwardBuffers::ForwardBuffers(const ModelConfig& config, const KvShape& kv, int64_t max_rows,
                               int num_threads, std::byte* data)
    : max_rows(max_rows),
      work(data ? max_rows : 0),
      places(static_cast<size_t>(data ? max_rows : 0)) {
  carve_forward(*this, config, kv, num_threads, data);
}

uint64_t SavedActivations::bytes(const ModelConfig& config, Dtype compute, int64_t max_rows,
                                 const ActivationRule& rule) {
  SavedActivations s(config, compute, max_rows, nullptr, rule);
  return carve_saved(s, config, compute, max_rows, rule, {nullptr, nullptr});
}
uint64_t SavedActivations::host_bytes(const ModelConfig& config, int64_t max_rows,
                                      const ActivationRule& rule) {
  if (!rule.offload) return 0;
  return static_cast<uint64_t>(rule.num_inputs(config.layers)) * input_bytes(config, max_rows);
}
SavedActivations::SavedActivations(const ModelConfig& config, Dtype compute, int64_t max_rows,
                                   std::byte* data, const ActivationRule& rule, std::byte* host) {
  RL_CHECK(data == nullptr || !rule.offload || host != nullptr);
  carve_saved(*this, config, compute, max_rows, rule, {data, host});
}

SavedActivations::Layer SavedActivations::values(int64_t l, const ForwardBuffers& buffers) const {
  Layer v = layers[static_cast<size_t>(l)];
  if (v.x_mid == nullptr) v.x_mid = buffers.x;
  if (v.q == nullptr) v.q = buffers.q;
  if (v.mixed == nullptr) v.mixed = buffers.mixed;
  if (v.qkv == nullptr && head_norms) v.qkv = buffers.qkv;
  return v;
}

uint64_t BackwardBuffers::bytes(const ModelConfig& config, const KvShape& kv, int64_t max_rows,
                                int num_threads) {
  BackwardBuffers b(config, kv, max_rows, num_threads, nullptr);
  return carve_backward(b, config, kv, max_rows, num_threads, nullptr);
}
BackwardBuffers::BackwardBuffers(const ModelConfig& config, const KvShape& kv, int64_t max_rows,
                                 int num_threads, std::byte* data)
    : work(data ? max_rows : 0, Widths(config).kv) {
  carve_backward(*this, config, kv, max_rows, num_threads, data);
}

}  // namespace rl

// Sizes of the transformer's buffers, and pointers into them: one function of each kind adds its
// regions, to plan and to carve alike.
#include <algorithm>

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

uint64_t carve_saved(SavedActivations& s, const ModelConfig& c, Dtype compute, int64_t max_rows,
                     std::byte* data) {
  const uint64_t rows = padded_rows(max_rows), item = dtype_bytes(compute);
  Carver carver{data, {}};
  s.layers.resize(c.layers);
  for (int64_t l = 0; l < c.layers; ++l) {
    const Widths w(c, l);
    SavedActivations::Layer& layer = s.layers[static_cast<size_t>(l)];
    layer.x_in = carver.take<float>("x in", rows * w.hidden * 4);
    layer.x_mid = carver.take<float>("x mid", rows * w.hidden * 4);
    layer.q = carver.take("q", rows * w.padded_q * item);
    layer.mixed = carver.take("attention output", rows * w.q * item);
    layer.lse = carver.take<float>("lse", rows * c.layer(l).heads * 4);
    layer.gate_up = carver.take("gate up", rows * 2 * w.ffn * item);
    layer.qkv = c.qk_norm ? carver.take<float>("qkv", rows * w.qkv * 4) : nullptr;
    layer.attention_added =
        c.sandwich_norms ? carver.take<float>("attention added", rows * w.hidden * 4) : nullptr;
    layer.mlp_added =
        c.sandwich_norms ? carver.take<float>("mlp added", rows * w.hidden * 4) : nullptr;
  }
  s.x_out = carver.take<float>("x out", rows * c.hidden * 4);
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

uint64_t SavedActivations::bytes(const ModelConfig& config, Dtype compute, int64_t max_rows) {
  SavedActivations s(config, compute, max_rows, nullptr);
  return carve_saved(s, config, compute, max_rows, nullptr);
}
SavedActivations::SavedActivations(const ModelConfig& config, Dtype compute, int64_t max_rows,
                                   std::byte* data) {
  carve_saved(*this, config, compute, max_rows, data);
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

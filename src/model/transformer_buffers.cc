// Sizes of the transformer's buffers, and pointers into them: one function of each kind books its
// pieces, to plan and to carve alike.
#include <algorithm>

#include "model/transformer.h"

namespace rl {
namespace {

struct Carver {
  std::byte* base;
  ArenaPlan plan;
  template <typename T = std::byte>
  T* take(const char* name, uint64_t bytes) {
    const uint64_t offset = plan.book(name, bytes);
    return base ? reinterpret_cast<T*>(base + offset) : nullptr;
  }
};

struct Widths {
  explicit Widths(const ModelConfig& c)
      : q(c.heads * c.head_dim),
        padded_q(c.heads * padded_head_dim(c.head_dim)),
        qkv(q + 2 * c.kv_heads * c.head_dim),
        hidden(c.hidden),
        ffn(c.ffn) {}
  int64_t q, padded_q, qkv, hidden, ffn;
};

uint64_t carve_forward(ForwardBuffers& b, const ModelConfig& c, const KvShape& kv, int num_threads,
                       std::byte* data) {
  const Widths w(c);
  const uint64_t rows = padded_rows(b.max_rows), item = dtype_bytes(kv.attention.dtype);
  Carver carver{data, {}};
  b.x = carver.take<float>("residual", rows * w.hidden * 4);
  b.normed = carver.take("normed", rows * w.hidden * item);
  b.qkv = carver.take<float>("qkv", rows * w.qkv * 4);
  b.q = carver.take("q", rows * w.padded_q * item);
  b.mixed = carver.take("attention output", rows * w.q * item);
  b.h = carver.take("gated units", rows * w.ffn * item);
  b.hidden = carver.take("final hidden", rows * w.hidden * item);
  b.added = c.sandwich_norms ? carver.take<float>("added", rows * w.hidden * 4) : nullptr;
  b.places = carver.take<RowPlace>("row places", rows * sizeof(RowPlace));
  b.attention =
      carver.take("attention scratch", attention_workspace_bytes(kv.attention, num_threads));
  return carver.plan.total_bytes();
}

uint64_t carve_saved(SavedActivations& s, const ModelConfig& c, Dtype compute, int64_t max_rows,
                     std::byte* data) {
  const Widths w(c);
  const uint64_t rows = padded_rows(max_rows), item = dtype_bytes(compute);
  Carver carver{data, {}};
  s.layers.resize(c.layers);
  for (auto& layer : s.layers) {
    layer.x_in = carver.take<float>("x in", rows * w.hidden * 4);
    layer.x_mid = carver.take<float>("x mid", rows * w.hidden * 4);
    layer.q = carver.take("q", rows * w.padded_q * item);
    layer.mixed = carver.take("attention output", rows * w.q * item);
    layer.lse = carver.take<float>("lse", rows * c.heads * 4);
    layer.gate_up = carver.take("gate up", rows * 2 * w.ffn * item);
    layer.qkv = c.qk_norm ? carver.take<float>("qkv", rows * w.qkv * 4) : nullptr;
    layer.attention_added =
        c.sandwich_norms ? carver.take<float>("attention added", rows * w.hidden * 4) : nullptr;
    layer.mlp_added =
        c.sandwich_norms ? carver.take<float>("mlp added", rows * w.hidden * 4) : nullptr;
  }
  s.x_out = carver.take<float>("x out", rows * w.hidden * 4);
  return carver.plan.total_bytes();
}

uint64_t carve_backward(BackwardBuffers& b, const ModelConfig& c, const KvShape& kv,
                        int64_t max_rows, int num_threads, std::byte* data) {
  const int64_t q = c.heads * c.head_dim, qkv = q + 2 * c.kv_heads * c.head_dim;
  const uint64_t rows = padded_rows(max_rows), item = dtype_bytes(kv.attention.dtype);
  Carver carver{data, {}};
  b.dx = carver.take<float>("dx", rows * c.hidden * 4);
  b.d_normed = carver.take<float>("d normed", rows * c.hidden * 4);
  b.rounded = carver.take("rounded", rows * c.hidden * item);
  b.d_gate_up = carver.take("d gate up", rows * 2 * c.ffn * item);
  b.d_mixed = carver.take<float>("d attention output", rows * q * 4);
  b.dqkv = carver.take<float>("d qkv", rows * qkv * 4);
  b.dqkv_rounded = carver.take("d qkv rounded", rows * qkv * item);
  b.partial =
      carver.take<float>("norm gradients", row_sum_floats(max_rows, std::max(c.hidden, qkv)) * 4);
  b.d_prompts = carver.take<float>("d prompts", max_rows * (qkv - q) * 4);
  b.attention = carver.take("attention backward scratch",
                            attention_backward_workspace_bytes(kv.attention, num_threads));
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
    : max_rows(max_rows), work(data ? max_rows : 0) {
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
    : work(data ? max_rows : 0, 2 * config.kv_heads * config.head_dim) {
  carve_backward(*this, config, kv, max_rows, num_threads, data);
}

}  // namespace rl

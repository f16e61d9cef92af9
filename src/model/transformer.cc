// The forward. One layer is: norm, QKV projection, RoPE and KV write, attention, output projection
// with residual, norm, gate/up projection with gated unit, down projection with residual. Each
// GEMM's epilogue finishes its tile in place; with few rows the task of the last tile also norms
// the residual. Sandwich norms need whole rows, so they take a separate pass before the residual.
// In decode the attention thread also applies RoPE and writes K/V, so the block is already in its
// cache.
#include "model/transformer.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/error.h"
#include "ops/embedding.h"
#include "ops/glu.h"
#include "ops/rms_norm.h"

namespace rl {
namespace {

constexpr int64_t kRowsPerTask = 8;  // few, so that a decode step of 16 rows is still shared

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
  const uint64_t rows = Matmul::padded_rows(b.max_rows), item = dtype_bytes(kv.attention.dtype);
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
  b.attention_stride = attention_scratch_floats(kv.attention);
  b.attention = carver.take<float>("attention scratch", num_threads * b.attention_stride * 4);
  return carver.plan.total_bytes();
}

uint64_t carve_saved(SavedActivations& s, const ModelConfig& c, Dtype compute, int64_t max_rows,
                     std::byte* data) {
  const Widths w(c);
  const uint64_t rows = Matmul::padded_rows(max_rows), item = dtype_bytes(compute);
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

// to = from + tile on the tile's rows and columns.
void add_tile(const MatmulTile& t, const float* from, float* to, int64_t stride) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t at = (t.row0 + r) * stride + t.col0;
    for (int64_t c = 0; c < t.cols; ++c) to[at + c] = from[at + c] + t.data[r * t.cols + c];
  }
}

class Pass {
 public:
  Pass(const Model& model, const ForwardBatch& batch, const KvPool& kv, ForwardBuffers& buffers,
       SavedActivations* saved)
      : model_(model),
        weights_(batch.weights ? *batch.weights : model.trained()),
        config_(model.config()),
        batch_(batch),
        kv_(kv),
        b_(buffers),
        saved_(saved),
        w_(config_),
        executor_(model.matmul().executor()),
        item_(dtype_bytes(model.compute_dtype())) {}

  void run() {
    fill_places();
    b_.work.cut(batch_.sequences, model_.block_size());
    embed_rows();
    for (int64_t l = 0; l < config_.layers; ++l) {
      attention_half(l, places_of(b_, saved_, l));
      mlp_half(l, places_of(b_, saved_, l));
    }
  }

 private:
  void for_rows(FunctionRef<void(int64_t row0, int64_t rows, int worker)> body) {
    const int64_t n = batch_.rows(), tasks = (n + kRowsPerTask - 1) / kRowsPerTask;
    executor_.parallel_for(tasks, [&](int64_t task, int worker) {
      const int64_t row0 = task * kRowsPerTask;
      body(row0, std::min(kRowsPerTask, n - row0), worker);
    });
  }

  void fill_places() {
    const int64_t block = model_.block_size();
    int64_t next = 0;
    RL_CHECK(!batch_.decode || saved_ == nullptr);
    for (const SequenceRows& s : batch_.sequences) {
      RL_CHECK(!batch_.decode || (s.rows == 1 && s.trunk < 0));
      RL_CHECK(s.first_row == next && s.rows > 0 &&
               s.first_position + s.rows <= model_.max_positions());
      has_tails_ = has_tails_ || (s.trunk >= 0 && s.first_position % block != 0);
      for (int32_t r = 0; r < s.rows; ++r) {
        const int32_t position = s.first_position + r;
        b_.places[next++] = {position, s.blocks[position / block]};
      }
    }
    RL_CHECK(next == batch_.rows() && next <= b_.max_rows);
  }

  // If a shared prefix ends inside a block, copies that block's keys and values to each sequence
  // that continues it.
  void copy_tails(int64_t l) {
    const int64_t block = model_.block_size();
    executor_.parallel_for(static_cast<int64_t>(batch_.sequences.size()), [&](int64_t i, int) {
      const SequenceRows& s = batch_.sequences[i];
      if (s.trunk < 0 || s.first_position % block == 0) return;
      const int64_t at = s.first_position / block;
      copy_kv({kv_.shape.attention, kv_.layer(l), batch_.sequences[s.trunk].blocks[at],
               s.blocks[at], s.first_position % block});
    });
  }

  void embed_rows() {
    float* x = saved_ ? saved_->layers[0].x_in : b_.x;
    const float scale = embedding_scale(config_, model_.compute_dtype());
    const ResidualNorm norm = norm_after(-1);
    for_rows([&](int64_t row0, int64_t rows, int) {
      embed({weights_.embedding(), batch_.ids.data() + row0, rows, w_.hidden, scale,
             model_.compute_dtype(), x + row0 * w_.hidden});
      norm_rows(x, norm, row0, rows);
    });
  }

  // The norm of the residual that the next GEMM or the head reads. It is computed where the
  // residual is complete, to save a pass: with the embedding, after a sandwich norm, or, with few
  // rows, in the epilogue of the output GEMM.
  struct ResidualNorm {
    const float* weight;
    std::byte* y;
  };
  ResidualNorm norm_after(int64_t l) const {
    if (l + 1 < config_.layers) return {weights_.layer(l + 1).input_norm, b_.normed};
    return {weights_.final_norm(), b_.hidden};
  }
  void norm_rows(const float* x, const ResidualNorm& norm, int64_t row0, int64_t rows) {
    rms_norm({x + row0 * w_.hidden, norm.weight, norm.y + row0 * w_.hidden * item_,
              model_.compute_dtype(), rows, w_.hidden, config_.rms_eps, config_.norm_weight});
  }

  // Adds an output projection to the residual: x_out = x_in + product, or x_in + norm(product).
  struct Joint {
    const float* x_in;
    float *x_out, *added;
    const float* norm;  // or null
    ResidualNorm then;
  };
  void join(const PackedMatrix& w, const std::byte* in, const Joint& j, const PackedMatrix* next) {
    if (j.norm == nullptr) return add_and_norm(w, in, j, next);
    model_.matmul().run_into({j.added, w_.hidden}, w, in, batch_.rows(), next);
    for_rows([&](int64_t row0, int64_t rows, int) {
      const int64_t at = row0 * w_.hidden;
      rms_norm_add({j.added + at, j.norm, j.x_in + at, j.x_out + at, rows, w_.hidden,
                    config_.rms_eps, config_.norm_weight});
      norm_rows(j.x_out, j.then, row0, rows);
    });
  }

  // A few rows are normed by the task that completes them: a core norms that many floats in 3 us
  // (Zen 3), and only more rows are worth a pass of all threads.
  void add_and_norm(const PackedMatrix& w, const std::byte* in, const Joint& j,
                    const PackedMatrix* next) {
    constexpr int64_t kFewFloats = 1 << 14;
    const int64_t n = batch_.rows();
    const bool few = n * w_.hidden <= kFewFloats;
    std::atomic<int64_t> missing{n * w_.hidden};
    model_.matmul().run(
        w, in, n,
        [&](const MatmulTile& t) {
          add_tile(t, j.x_in, j.x_out, w_.hidden);
          const int64_t done =
              t.rows * t.cols;  // acquires what the other tasks released: their tiles
          if (few && missing.fetch_sub(done, std::memory_order_acq_rel) == done)
            norm_rows(j.x_out, j.then, 0, n);
        },
        next);
    if (!few)
      for_rows([&](int64_t row0, int64_t rows, int) { norm_rows(j.x_out, j.then, row0, rows); });
  }

  // KV heads per task: all if there are enough calls to fill the threads, else one. Bit-identical
  // either way.
  int64_t heads_of_task(int64_t calls, int64_t shared_calls) const {
    constexpr int64_t kCallsOfThread = 4;
    const bool enough = shared_calls == 0 && calls >= kCallsOfThread * executor_.num_threads();
    return enough && batch_.decode ? std::min(config_.kv_heads, most_kv_heads_together(1)) : 1;
  }

  // A task is some kv heads of one call; calls on shared blocks are the longest and go first.
  // `before` runs ahead of a call for its rows and each kv head.
  void attend(const AttentionArgs& args,
              FunctionRef<void(int64_t row0, int64_t rows, int64_t kv_head)> before) {
    const AttentionWork& work = b_.work;
    const bool windowed = args.rule.window > 0;
    const std::span<const AttentionRows> alone = windowed ? work.by_sequence() : work.alone();
    const int64_t heads = config_.kv_heads;
    const int64_t together = windowed ? 0 : static_cast<int64_t>(work.together().size());
    const int64_t calls = together + static_cast<int64_t>(alone.size());
    const int64_t each = heads_of_task(calls, together), groups = (heads + each - 1) / each,
                  tasks = calls * groups;
    const auto first_block = [&](int64_t task) {
      const int64_t call = task / groups;
      const int32_t* blocks = call < together ? work.together()[call].rows.front().blocks : nullptr;
      if (!blocks) {
        const AttentionRows& rows = alone[call - together];
        blocks = rows.blocks + args.rule.first_key(rows.first_position) / args.shape.block_size;
      }
      return args.pool + (*blocks * heads + task % groups * each) * args.shape.kv_head_bytes();
    };
    executor_.parallel_for(tasks, [&](int64_t task, int worker) {
      const int64_t call = task / groups, head = task % groups * each;
      float* scratch = b_.attention + worker * b_.attention_stride;
      AttentionArgs own = args;
      own.next = task + 1 < tasks ? first_block(task + 1) : nullptr;
      if (call < together) {
        const SharedAttentionRows& rows = work.together()[call];
        before(rows.first_row, static_cast<int64_t>(rows.rows.size()), head);
        attention_shared(own, rows, head, scratch);
      } else {
        const AttentionRows& rows = alone[call - together];
        const KvHeads range{head, std::min(heads, head + each)};
        for (int64_t h = range.first; h < range.end; ++h) before(rows.first_row, rows.rows, h);
        attention(own, rows, range, scratch);
      }
    });
  }

  // For rows whose QKV projection is at `qkv`.
  RopeKvArgs rope_args(int64_t l, const LayerPlaces& at, const HeadNorm& norms, int64_t row0,
                       int64_t rows, const float* qkv) const {
    return {kv_.shape.attention,
            qkv,
            weights_.layer(l).qkv_bias,
            config_.qk_norm ? &norms : nullptr,
            b_.places + row0,
            &model_.rope(l),
            at.q + row0 * w_.padded_q * item_,
            kv_.layer(l),
            rows};
  }

  // QKV projection whose epilogue applies RoPE and writes K/V. With normed heads, the backward
  // needs the projection itself too, so it is stored.
  void project_and_write(int64_t l, const LayerPlaces& at) {
    const PackedWeights::Layer& packed = weights_.packed().layer(l);
    const HeadNorm norms = head_norm(config_, weights_.layer(l));
    const auto write = [&](const MatmulTile& t) {
      RopeKvArgs args = rope_args(l, at, norms, t.row0, t.rows, t.data);
      args.first_head = t.col0 / config_.head_dim;
      args.end_head = (t.col0 + t.cols) / config_.head_dim;
      args.stride = t.stride;
      rope_and_write_kv(args);
    };
    if (saved_ && config_.qk_norm) {
      model_.matmul().run_into({at.qkv, w_.qkv}, packed.qkv, b_.normed, batch_.rows(), write,
                               &packed.o);
    } else {
      model_.matmul().run(packed.qkv, b_.normed, batch_.rows(), write, &packed.o);
    }
  }

  void attention_half(int64_t l, const LayerPlaces& at) {
    const LayerVectors& vectors = weights_.layer(l);
    const PackedWeights::Layer& packed = weights_.packed().layer(l);
    const AttentionArgs args{
        kv_.shape.attention, attention_rule(config_, l), at.q, kv_.layer(l), at.mixed, at.lse};
    if (batch_.decode) {
      model_.matmul().run_into({at.qkv, w_.qkv}, packed.qkv, b_.normed, batch_.rows(), &packed.o);
      const HeadNorm norms = head_norm(config_, vectors);
      attend(args, [&](int64_t row0, int64_t rows, int64_t head) {
        rope_and_write_kv(rope_args(l, at, norms, row0, rows, at.qkv + row0 * w_.qkv), head);
      });
    } else {
      project_and_write(l, at);
      if (has_tails_) copy_tails(l);
      attend(args, [](int64_t, int64_t, int64_t) {});
    }
    join(packed.o, at.mixed,
         {at.x_in,
          at.x_mid,
          at.attention_added,
          vectors.attention_out_norm,
          {vectors.mlp_norm, b_.normed}},
         &packed.gate_up);
  }

  void mlp_half(int64_t l, const LayerPlaces& at) {
    const LayerVectors& vectors = weights_.layer(l);
    const PackedWeights::Layer& packed = weights_.packed().layer(l);
    model_.matmul().run(
        packed.gate_up, b_.normed, batch_.rows(),
        [&](const MatmulTile& t) {
          const int64_t col0 = t.col0 / 2, row_gu = t.row0 * 2 * w_.ffn;
          std::byte* gate = at.gate_up ? at.gate_up + (row_gu + col0) * item_ : nullptr;
          std::byte* up = at.gate_up ? gate + w_.ffn * item_ : nullptr;
          glu({t.data, b_.h + (t.row0 * w_.ffn + col0) * item_, gate, up, w_.ffn, 2 * w_.ffn,
               model_.compute_dtype(), t.rows, t.cols / 2, config_.activation});
        },
        &packed.down);
    join(packed.down, b_.h, {at.x_mid, at.x_out, at.mlp_added, vectors.mlp_out_norm, norm_after(l)},
         read_after(l));
  }

  // The matrix read after a layer; null: a scalar head, which is not packed.
  const PackedMatrix* read_after(int64_t l) const {
    const PackedWeights& packed = weights_.packed();
    if (l + 1 < config_.layers) return &packed.layer(l + 1).qkv;
    return config_.scalar_head ? nullptr : &packed.head();
  }

  const Model& model_;
  const ComputeCopy& weights_;
  const ModelConfig& config_;
  const ForwardBatch& batch_;
  const KvPool& kv_;
  ForwardBuffers& b_;
  SavedActivations* saved_;
  const Widths w_;
  Executor& executor_;
  const int64_t item_;
  bool has_tails_ = false;  // some shared prefix ends inside a block
};

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

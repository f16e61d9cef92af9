// The only forward of the library, and its backward. Prefill, decode and training call the same
// function with the same kernels; training also has it keep activations. Explicit layer code, no
// autograd.
//
// A batch is packed (ops/sequence_rows.h): rows of several sequences. Rows write their K and V
// into the pool before attention reads it, so a chunk of a prompt, a single decode token and a
// whole training sequence are the same case.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/arena.h"
#include "model/activation_rule.h"
#include "model/backward_weights.h"
#include "model/gradient_sink.h"
#include "model/model.h"
#include "model/ranks/context_ring.h"
#include "model/ranks/head_exchange.h"
#include "model/ranks/residual_rows.h"
#include "model/token_embedding.h"
#include "ops/backward_ops.h"
#include "ops/forward_ops.h"

namespace rl {

struct ForwardBatch {
  std::span<const int32_t> ids;  // (N) token ids, each in [0, vocab): checked by the caller
  std::span<const SequenceRows> sequences;  // in row order, covering all N rows
  const ComputeCopy* weights = nullptr;     // of the model; null: the ones packed last
  // Decode: every sequence has one row, its newest, and reads no key that another row of the batch
  // writes. Changes no bit, only how work is distributed.
  bool decode = false;
  // If ranks divide the rows: ids and sequences are those of this rank, whose tables have the
  // blocks of all positions; in a ring, counted from the first of the rank that has them. Null:
  // they are all.
  const ContextBatch* context = nullptr;
  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  std::span<const SequenceRows> all_sequences() const {
    return context != nullptr ? context->rows.sequences : sequences;
  }
};

// The largest batch of a pass, and how it is computed. Buffers of one pass have the same limits.
struct BatchLimits {
  BatchLimits(int64_t rows) : BatchLimits(rows, rows, true) {}
  BatchLimits(int64_t rows, int64_t mlp_rows, bool decodes)
      : BatchLimits(rows, mlp_rows, decodes, rows) {}
  BatchLimits(int64_t rows, int64_t mlp_rows, bool decodes, int64_t all_rows)
      : rows(rows), mlp_rows(mlp_rows), decodes(decodes), all_rows(all_rows) {}
  int64_t rows;
  // Rows that go through an MLP at a time, so that its wide values exist for no more. Fewer than
  // `rows`: a multiple of kMlpRowUnit, with which no bit of values or fp32 gradients depends on it
  // on a CPU.
  int64_t mlp_rows;
  bool decodes;            // batches may have ForwardBatch::decode
  int64_t all_rows;        // of all ranks that divide a batch
  int64_t head_ranks = 1;  // which divide the heads of attention too
  int64_t ring_ranks = 1;  // which keys and values go round
  int64_t row_ranks = 1;   // which divide the rows of the residual (ResidualRows)
  int64_t own_blocks = 0;  // KV blocks of one rank's rows, of ranks that divide heads or in a ring
  // Of the residual.
  int64_t own_rows() const { return ResidualRows::most(rows, row_ranks); }
};
constexpr int64_t kMlpRowUnit = 512;
static_assert(kMlpRowUnit % kGradientRows == 0);

// Of ranks that divide heads: what belongs to all heads of a rank's rows besides the buffers of an
// undivided batch, and what belongs to its heads of all rows. Null without such ranks.
struct SharedHeads {
  std::byte* q = nullptr;      // (N, H, W)
  std::byte* kv = nullptr;     // blocks of this rank's rows
  std::byte* mixed = nullptr;  // (rows of all, H / ranks, D)
  float* d_mixed = nullptr;    // (rows of all, H / ranks, D)
  float* dqkv = nullptr;       // (rows of all, (H + 2 KH) / ranks, D)
  ExchangeRoom room;
};

// Working memory of a forward, in memory of the device. Sizes are a pure function of shape; the
// caller owns the bytes. What belongs to the heads or MLP units of a layer is an array of each part
// that the rank has (ModelConfig::split), one after the other, each with room for all rows. Of
// ranks that divide the rows of the residual a rank has R of them.
class ForwardBuffers {
 public:
  static uint64_t bytes(const ModelConfig& config, const KvShape& kv, const BatchLimits& limits,
                        int num_threads);
  ForwardBuffers(const ModelConfig& config, const KvShape& kv, const BatchLimits& limits,
                 int num_threads, std::byte* data);

  BatchLimits limits;
  float* x;           // (R, C) residual stream
  std::byte* normed;  // (N, C) compute dtype
  float* qkv;         // (N, (H + 2 KH) D); null if neither decode nor head norms need it
  std::byte* q;       // (N, H, W) compute dtype
  std::byte* mixed;   // (N, H, D) attention output, compute dtype
  std::byte* h;       // (M, F) compute dtype, of M = limits.mlp_rows rows
  float* parts;       // (slots, N, C) products to be added (PartSums); null undivided
  float* own_parts;  // (parts, R, C) the same of this rank's rows, if it has several parts and rows
                     // are divided
  float* added;  // (R, C) output of attention or MLP before its sandwich norm; null without these
                 // norms
  std::byte* hidden;     // (N, C) final norm output, compute dtype: the forward's result
  std::byte* attention;  // attention_workspace_bytes()
  SharedHeads heads;     // of a forward
  RingRoom ring;
  AttentionWork work;
  std::vector<RowPlace> places;  // (N), in memory of the host
};

// What training keeps per layer; carved from the activations arena. Values that are not kept have
// memory too, where the backward computes them again: some in the forward's buffers, the others
// here once for all layers at the same place of their group.
class SavedActivations {
 public:
  static uint64_t bytes(const ModelConfig& config, Dtype compute, const BatchLimits& limits,
                        const ActivationRule& rule = {});
  // Bytes in host memory, which hold layer inputs; 0 if they stay on the device.
  static uint64_t host_bytes(const ModelConfig& config, const BatchLimits& limits,
                             const ActivationRule& rule);
  SavedActivations(const ModelConfig& config, Dtype compute, const BatchLimits& limits,
                   std::byte* data, const ActivationRule& rule = {}, std::byte* host = nullptr);
  struct Layer {
    float* x_in;         // (R, C) residual at entry
    float* x_mid;        // (R, C) residual after attention
    std::byte* q;        // (N, H, W) RoPE applied
    std::byte* mixed;    // (N, H, D)
    float* lse;          // (N, H)
    std::byte* gate_up;  // (N, 2F); null: the backward computes it, some rows at a time
    float* qkv;  // (N, (H + 2 KH) D) QKV projection before the q and k norms; null without them
    float* attention_added;  // (R, C) attention output before its sandwich norm; null without these
                             // norms
    float* mlp_added;        // (R, C) the same for the MLP
    LayerParts kept;
    LayerGroup group;
    int64_t input;      // number of the kept input among all; -1: it is not kept
    float* host_input;  // (R, C) where it goes; null: it stays
  };
  // The values of a layer, with those in the forward's buffers.
  Layer values(int64_t l, const ForwardBuffers& buffers) const;

  std::vector<Layer> layers;    // null: in the forward's buffers
  std::vector<int64_t> inputs;  // layers whose input is kept
  // For layers without gate_up: (M, 2F), and (M, C) of sandwich norms.
  std::byte* gate_up_again;
  float* mlp_added_again;
  bool head_norms;  // whether there is a qkv
};

// The values of one part of a layer's heads and MLP units begin so many elements behind those of
// the first part. Each part has room for padded_rows(rows) rows.
struct PartOffsets {
  PartOffsets(const LayerShape& part, int64_t index, int64_t rows);
  int64_t q, mixed, lse, qkv, h;  // h: of arrays (rows, F); twice that for (rows, 2F)
};

// The norm over query and key heads of one layer; only in models that have it.
HeadNorm head_norm(const ModelConfig& config, const LayerVectors& layer);

// Runs the layers and the final norm into buffers.hidden (N, C). Of a stage: its layers, on what
// the stage before sends; the last one alone has the norm, and the others send the residual. All
// stages of a model make the same calls. K and V are written to kv, whose layers may share places
// if no later call reads them, or as training_kv() has it. With `saved`, activations of this batch
// are kept for backward(), which also reads buffers.x, the residual after the last layer.
void forward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
             ForwardBuffers& buffers, SavedActivations* saved);

// What forward() leaves in the buffers that depends on the batch alone. A backward() of another
// batch than the last forward() needs it.
void place_rows(const Model& model, const ForwardBatch& batch, const KvPool& kv,
                ForwardBuffers& buffers);

// After forward() with `saved`: computes again what was not kept of the layers of a group, except
// the MLP of its last layer.
void recompute_layers(const Model& model, const ForwardBatch& batch, const KvPool& kv,
                      ForwardBuffers& buffers, SavedActivations& saved, const LayerGroup& group);

class BackwardBuffers {
 public:
  static uint64_t bytes(const ModelConfig& config, const KvShape& kv, const BatchLimits& limits,
                        int num_threads);
  BackwardBuffers(const ModelConfig& config, const KvShape& kv, const BatchLimits& limits,
                  int num_threads, std::byte* data);

  BatchLimits limits;
  uint64_t free_before;  // what follows these bytes, which d_normed has, is free until backward()
  float* dx;             // (R, C)
  float* d_normed;       // (N, C)
  float* d_mixed;        // (N, H D), in the bytes of d_normed
  std::byte* rounded;    // (N, C) compute dtype
  std::byte* d_gate_up;  // (M, 2F) compute dtype
  std::byte* dqkv_rounded;  // (N, (H + 2 KH) D), in the bytes of d_gate_up
  float* dqkv;              // (N, (H + 2 KH) D)
  float* partial;           // (row chunks, C) norm-weight gradients
  float* unused_grad;       // (C) if rows are divided
  float* head_norms;        // (slots, 2 D) gradients of q and k norms; null undivided
  float* d_prompts;         // (rows of all ranks, 2 KH D) key and value gradients of prefixes; null
                            // if keys go round
  std::byte* attention;     // attention_backward_workspace_bytes()
  SharedHeads heads;        // of a backward
  RingGradients ring;
  BackwardWork work;
};

// What the backward needs besides the forward's buffers (which it reuses for recomputed values).
using LayerDone = std::function<void(int64_t layer)>;
struct BackwardArgs {
  BackwardWeights& packed;  // of the version the forward ran with
  GradientSink grads;       // of trained parameters; accumulated
  const float* d_hidden;  // (N, C) gradient of buffers.hidden; it may be scratch.d_normed. Null of
                          // a stage without a head, which gets its gradient from the next one
  const WeightLayout* layout = nullptr;  // what is trained; null: everything
  // Called once the gradients of a layer are complete, and so those of all later ones and of the
  // head; null: not.
  const LayerDone* layer_done = nullptr;
};
// Each sequence of the batch, of all ranks that divide it, starts at position 0 or continues a
// shared prefix, whose rows receive the gradients of all sequences that continue it. A stage that
// is not the first starts to send the gradient scratch.dx of its input, which must stay until
// StageRanks::wait_gradient() has returned. If another stage has a copy of the embedding, the first
// stage leaves scratch.dx for it.
void backward(const Model& model, const ForwardBatch& batch, const KvPool& kv,
              ForwardBuffers& buffers, SavedActivations& saved, BackwardBuffers& scratch,
              const BackwardArgs& args);

}  // namespace rl

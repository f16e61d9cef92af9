// The list of parameters and the place of each: in the fp32 masters, and for a trainable one in the
// gradients and the optimizer state. A WeightLayout is a pure function of the configuration and of
// what is trained. Masters, gradients and each array of the optimizer state are flat fp32 arrays;
// if everything is trained, they have the same offsets. Invariants: q, k, v rows are contiguous
// (one fused [(H+2KH)D, C] matrix), so are their biases, and gate and up ([2F, C]); every parameter
// starts on a 64-byte boundary or right after its fused neighbour.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "formats/model_config.h"
#include "formats/trainable.h"

namespace rl {

struct Parameter {
  std::string name;  // Hugging Face name
  std::vector<int64_t> shape;
  int64_t offset = 0;  // in the masters, in floats
  int64_t size = 0;    // in floats
  // In the gradients and in each array of the optimizer state, in floats; -1: frozen.
  int64_t gradient = 0;
  bool trainable() const { return gradient >= 0; }
};

// Offsets of one layer's parameters in the masters, in floats; -1: absent in this model.
struct LayerOffsets {
  int64_t input_norm = -1, qkv = -1, qkv_bias = -1, q_norm = -1, k_norm = -1, o = -1;
  int64_t mlp_norm = -1, gate_up = -1, down = -1;
  int64_t attention_out_norm = -1,
          mlp_out_norm = -1;  // norms of the attention and MLP outputs, before the residual
};

// Floats that follow one another in the masters and in the gradients alike.
struct TrainedRun {
  int64_t master = 0, gradient = 0, size = 0;
};

class WeightLayout {
 public:
  // The rule's errors: formats/trainable.h.
  explicit WeightLayout(const ModelConfig& config, const TrainableRule& rule = {});
  const std::vector<Parameter>& parameters() const { return parameters_; }
  int64_t total() const { return total_; }           // floats, padding included
  int64_t num_parameters() const { return count_; }  // floats that are parameters
  // Floats of the gradients, padding included; total() if everything is trained.
  int64_t gradient_total() const { return gradient_total_; }
  // All trainable parameters, in order.
  const std::vector<TrainedRun>& trained_runs() const { return runs_; }
  const LayerOffsets& layer(int64_t l) const { return layers_[l]; }
  int64_t embedding() const { return embedding_; }
  int64_t final_norm() const { return final_norm_; }
  int64_t head() const { return head_; }  // embedding() when tied; for a scalar head, its one row
  // The last layer that a backward visits: the first one with a trained parameter; 0 if the
  // embedding is trained; the number of layers if nothing below the final norm is.
  int64_t first_trained_layer() const { return first_trained_layer_; }

  // The gradient offset of the parameter at this offset of the masters; -1: frozen.
  int64_t gradient_of(int64_t offset) const;
  // Calls visit for each trained run of the fused parameters in [offset, offset + size).
  void for_each_trained(int64_t offset, int64_t size,
                        FunctionRef<void(const TrainedRun& run)> visit) const;

 private:
  void place(const TensorInfo& tensor, bool trained);
  void add_run(const Parameter& p, bool follows);

  std::vector<Parameter> parameters_;
  std::vector<LayerOffsets> layers_;
  std::vector<TrainedRun> runs_;
  int64_t total_ = 0, count_ = 0, embedding_ = 0, final_norm_ = 0, head_ = -1;
  int64_t gradient_total_ = 0, first_trained_layer_ = 0;
};

}  // namespace rl

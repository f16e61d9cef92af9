// The location of every parameter. A WeightLayout is a pure function of the configuration: masters,
// gradients and optimizer states are flat fp32 arrays with the same layout. Invariants: q, k, v
// rows are contiguous (one fused [(H+2KH)D, C] matrix), so are their biases, and gate and up ([2F,
// C]); every parameter starts on a 64-byte boundary or right after its fused neighbour.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "formats/model_config.h"

namespace rl {

struct Parameter {
  std::string name;  // Hugging Face name
  std::vector<int64_t> shape;
  int64_t offset = 0;  // in floats
  int64_t size = 0;    // in floats
};

// Offsets of one layer's parameters, in floats; -1: absent in this model.
struct LayerOffsets {
  int64_t input_norm = -1, qkv = -1, qkv_bias = -1, q_norm = -1, k_norm = -1, o = -1;
  int64_t mlp_norm = -1, gate_up = -1, down = -1;
  int64_t attention_out_norm = -1,
          mlp_out_norm = -1;  // norms of the attention and MLP outputs, before the residual
};

class WeightLayout {
 public:
  explicit WeightLayout(const ModelConfig& config);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  int64_t total() const { return total_; }           // floats, padding included
  int64_t num_parameters() const { return count_; }  // floats that are parameters
  const LayerOffsets& layer(int64_t l) const { return layers_[l]; }
  int64_t embedding() const { return embedding_; }
  int64_t final_norm() const { return final_norm_; }
  int64_t head() const { return head_; }  // embedding() when tied; for a scalar head, its one row

 private:
  std::vector<Parameter> parameters_;
  std::vector<LayerOffsets> layers_;
  int64_t total_ = 0, count_ = 0, embedding_ = 0, final_norm_ = 0, head_ = 0;
};

}  // namespace rl

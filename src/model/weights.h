// The list of parameters and the place of each: in the fp32 masters, and for a trainable one in the
// gradients and the optimizer state. A WeightLayout is a pure function of the configuration and of
// what is trained. Masters, gradients and each array of the optimizer state are flat fp32 arrays;
// if everything is trained, they have the same offsets. Invariants: q, k, v rows are contiguous
// (one fused [(H+2KH)D, C] matrix), so are their biases, and gate and up ([2F, C]); every parameter
// starts on a 64-byte boundary or right after its fused neighbour.
//
// A layout of several parts (ModelConfig::split) has whole tensors first; then the pieces of
// embedding and head, each one behind the other, so that a rank has one matrix of all its rows of
// the vocabulary; then for each part that the rank has its pieces of the layers: rows of Q, K, V,
// gate and up by heads and MLP units, columns of the output and down projections.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "formats/model_config.h"
#include "formats/trainable.h"

namespace rl {

// A tensor of the model, or the piece of one that a part of ModelConfig::split has.
struct Parameter {
  std::string name;  // that of the tensor; of a piece with ".part" and the part's number behind it
  std::vector<int64_t> shape;
  int64_t offset = 0;  // in the masters, in floats
  int64_t size = 0;    // in floats
  // In the gradients and in each array of the optimizer state, in floats; -1: frozen.
  int64_t gradient = 0;
  int64_t part = -1;                        // that has this piece; -1: it is the whole tensor
  int64_t first_row = 0, first_column = 0;  // of the piece in the tensor; a vector is one row
  bool trainable() const { return gradient >= 0; }
  int64_t columns() const { return shape.back(); }
  int64_t rows() const { return size / columns(); }
  // The Hugging Face name of the tensor.
  std::string_view tensor() const { return std::string_view(name).substr(0, tensor_size); }

  size_t tensor_size = std::string::npos;  // of the name
};

// How the ranks of a tensor-parallel run divide a tensor: not at all, by rows or columns, or by the
// rows of the vocabulary (formats/vocabulary_cut.h).
enum class ShardRule : uint8_t { kWhole, kRows, kColumns, kVocabulary };
ShardRule shard_rule(const std::string& name);

// Offsets of one layer's parameters in the masters, in floats; -1: absent in this model.
struct LayerOffsets {
  int64_t input_norm = -1, qkv = -1, qkv_bias = -1, q_norm = -1, k_norm = -1, o = -1;
  int64_t mlp_norm = -1, gate_up = -1, down = -1;
  int64_t attention_out_norm = -1,
          mlp_out_norm = -1;  // norms of the attention and MLP outputs, before the residual
};

// A matrix of a layer as products read it: a parameter, or several that are fused.
struct LayerMatrix {
  int64_t master = 0, size = 0;
  int64_t gradient = -1;  // -1: not all of it is trained
};

// Floats of the masters and of the gradients: of whole tensors, of the layers' pieces of a part, or
// of a part's piece of embedding or head.
struct LayoutSection {
  int64_t part = -1;  // among those that the rank has; -1: whole tensors
  int64_t master = 0, gradient = 0;
  int64_t masters = 0, gradients = 0;  // sizes, padding included
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
  // Of one of the parts that this rank has; what is not divided is the same in all of them.
  const LayerOffsets& layer(int64_t l, int64_t part = 0) const {
    return layers_[static_cast<size_t>(l * split_.count + part)];
  }
  // Of all layers and parts, in the order of the masters.
  std::vector<LayerMatrix> layer_matrices() const;
  // For each layer a place of the gradients: what follows it is of this layer, of later ones or of
  // the head, so it is complete once a backward has left the layer. Of several parts it is in the
  // last one.
  std::vector<int64_t> layer_gradients() const;
  const TensorSplit& split() const { return split_; }
  const LayerStage& stage() const { return stage_; }
  // Floats of the gradients of a section before the copy of an embedding that another stage has;
  // all of them without one.
  int64_t own_gradients(const LayoutSection& section) const;
  // Whether the last stage has such a copy.
  bool has_copies() const { return stage_.divides() && tied_head_; }
  // Whether a parameter is such a copy, or a piece of it.
  bool is_copy(std::string_view parameter) const;
  // Tensors of the model of which this is a stage, each once.
  int64_t num_tensors_of_all() const;
  // Whole tensors first; then those of each part in order, of the embedding, the head and the
  // layers. Every stage has the same ones, some of them empty. Undivided all is one section.
  const std::vector<LayoutSection>& sections() const { return sections_; }
  // Of what the stage has.
  int64_t embedding() const { return embedding_; }  // its first row of this rank
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
  size_t index_at(int64_t offset) const;  // of the parameter that begins there
  void place(const TensorInfo& tensor, bool trained, int64_t part = -1);
  void set_offset(const TensorInfo& tensor, int64_t offset, int64_t part);
  // Of all parts; null: another stage has the tensor.
  void place_pieces(const TensorInfo* tensor, bool trained);
  void begin_section(int64_t part);
  void end_sections();
  void add_run(const Parameter& p, bool follows);

  std::vector<Parameter> parameters_;
  std::vector<LayerOffsets> layers_;
  std::vector<TrainedRun> runs_;
  std::vector<LayoutSection> sections_;
  TensorSplit split_;
  LayerStage stage_;
  bool tied_head_ = false;
  int64_t total_ = 0, count_ = 0, embedding_ = 0, final_norm_ = 0, head_ = -1;
  int64_t gradient_total_ = 0, first_trained_layer_ = 0;
};

}  // namespace rl

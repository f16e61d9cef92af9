// The validated description of a causal decoder, and the tensors that it implies. Differences
// between families are expressed here as data, which forward() and backward() follow; Family itself
// is only for readers and writers of files. Invariant: a ModelConfig that passed validate() has
// sizes inside kModelCaps, so products of two sizes fit int64_t.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/function_ref.h"
#include "formats/families.h"
#include "ops/glu.h"
#include "ops/rms_norm.h"
#include "ops/rope_table.h"

namespace rl {

enum class Family : uint8_t {
#define X(name) k##name,
  RL_MODEL_FAMILIES(X)
#undef X
};
const char* family_name(Family family);

// What may differ from layer to layer.
struct LayerShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t ffn = 0;
  int64_t window = 0;  // most keys that a row attends; 0: all before it

  int64_t q_width() const { return heads * head_dim; }
  int64_t kv_width() const { return 2 * kv_heads * head_dim; }  // keys and values
  int64_t qkv_width() const { return q_width() + kv_width(); }
  bool operator==(const LayerShape&) const = default;
};

// How the ranks of a tensor-parallel run divide a model: attention heads and MLP units in `parts`
// equal parts, the vocabulary in as many (formats/vocabulary_cut.h), of which a rank has `count`
// from `first` on. One rank may have several, and computes one after the other what as many ranks
// would compute.
struct TensorSplit {
  int64_t parts = 1, first = 0, count = 1;

  bool divides() const { return parts > 1; }
  int64_t ranks() const { return parts / count; }
  bool operator==(const TensorSplit&) const = default;
};

// Which of the layers one rank of a pipeline-parallel run has: a contiguous range, behind those of
// the stage before (formats/layer_stage.h). The first stage has the embedding, the last one the
// final norm and the head.
struct LayerStage {
  int64_t stages = 1, index = 0;
  int64_t first_layer = 0, all_layers = 0;  // of the model; all_layers is 0 unless divided

  bool divides() const { return stages > 1; }
  bool first() const { return index == 0; }
  bool last() const { return index + 1 == stages; }
  bool operator==(const LayerStage&) const = default;
};

struct ModelConfig {
  Family family = Family::kLlama;
  std::string model_type;  // as written in config.json
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn = 0;
  int64_t max_position = 0;
  float rms_eps = 0;
  RopeSpec rope;
  std::optional<RopeSpec> local_rope;  // of windowed layers; absent: same as rope
  Activation activation = Activation::kSilu;
  NormWeight norm_weight = NormWeight::kPlain;  // of all norms
  bool tied_head = false;
  bool scalar_head = false;  // one value per row instead of logits; never tied
  bool qkv_bias = false;
  bool qk_norm = false;           // a norm over each query and key head, before RoPE
  bool sandwich_norms = false;    // attention and MLP outputs are normed too, before the residual
  bool scaled_embedding = false;  // embeddings are multiplied by sqrt(hidden)
  double query_scalar = 0;        // scores are divided by its square root; 0: head_dim
  int64_t window = 0;             // most keys that a row of a windowed layer attends
  std::vector<uint8_t> windowed;  // per layer; empty: none, and window is 0
  // Shapes of the layers if they differ, else empty; heads, kv_heads, ffn and windows above are
  // then not read. All have the same head_dim.
  std::vector<LayerShape> own_layers;
  std::vector<int32_t> eos_ids;  // every id that ends a sequence, in file order, no repeats
  int32_t bos_id = -1;           // -1 if the file names none
  int32_t pad_id = -1;
  Dtype file_dtype = Dtype::kF32;  // the narrowest type that holds every stored value exactly
  TensorSplit split = {};          // what one rank has; sizes above are of all ranks
  LayerStage stage = {};           // of a divided model: `layers` counts those of the stage

  bool has_embedding() const { return stage.first(); }
  bool has_head() const { return stage.last(); }
  // Whether the head of this stage is a copy of an embedding that another one has.
  bool copies_embedding() const { return tied_head && stage.divides() && stage.last(); }
  bool is_windowed(int64_t layer) const {
    return !windowed.empty() && windowed[static_cast<size_t>(layer)] != 0;
  }
  LayerShape layer(int64_t l) const {
    if (!own_layers.empty()) return own_layers[static_cast<size_t>(l)];
    return {heads, kv_heads, head_dim, ffn, is_windowed(l) ? window : 0};
  }
  // One of the parts of `split`, and those that this rank has.
  LayerShape part(int64_t l) const {
    const LayerShape s = layer(l);
    const int64_t n = split.parts;
    return {s.heads / n, s.kv_heads / n, s.head_dim, s.ffn / n, s.window};
  }
  LayerShape own(int64_t l) const {
    const LayerShape s = part(l);
    const int64_t n = split.count;
    return {s.heads * n, s.kv_heads * n, s.head_dim, s.ffn * n, s.window};
  }
  int64_t num_ropes() const { return local_rope ? 2 : 1; }
  bool operator==(const ModelConfig&) const = default;
};

// Largest values a file may claim: far above any published dense model, far below any overflow.
struct ModelCaps {
  int64_t vocab = 4'000'000;
  int64_t hidden = 1 << 20;
  int64_t layers = 4096;
  int64_t heads = 1 << 16;
  int64_t head_dim = 1 << 16;
  int64_t ffn = 1 << 24;
  int64_t max_position = int64_t{1} << 31;
};
inline constexpr ModelCaps kModelCaps;

// Throws Error(kOutOfRange) naming the field, its limits and the value seen, with location (a file)
// attached. It also checks that heads is a multiple of kv_heads, head_dim is even, windows are
// given for every layer or none, and every special id lies inside the vocabulary.
void validate(const ModelConfig& config, const std::string& location);

struct TensorInfo {
  std::string name;            // Hugging Face name, e.g. model.layers.0.self_attn.q_proj.weight
  std::vector<int64_t> shape;  // Hugging Face order: [rows, cols] or [n]
  std::string
      stored_type;  // type in the file: "F32", "BF16", "Q4_1", ...; empty in expected_tensors

  int64_t rows() const { return shape.size() < 2 ? 1 : shape[0]; }  // a vector is one row
  int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
};

// The tensors of a model with this configuration: embedding, layers in order, final norm, then the
// head unless tied. Those of a stage are the ones that it has, in the same order; if its head is a
// copy of the embedding, that comes last.
inline constexpr const char* kScalarHeadName = "score.weight";
std::vector<TensorInfo> expected_tensors(const ModelConfig& config);
// The same decoder with a scalar head.
ModelConfig with_scalar_head(ModelConfig config);
// The same decoder, divided. Error(kIncompatible) names heads, KV heads or an MLP width that the
// parts do not divide, or a vocabulary with less than kVocabularyUnit tokens for each of them.
inline constexpr int64_t kVocabularyUnit = 16;
ModelConfig with_split(ModelConfig config, const TensorSplit& split);

// The tensors of an opened file, by their index in it.
class TensorListing {
 public:
  virtual ~TensorListing() = default;
  virtual size_t size() const = 0;
  virtual int64_t find(const std::string& hf_name) const = 0;  // -1 if absent
  virtual std::string_view name(size_t index) const = 0;       // as the file spells it
  virtual const std::vector<int64_t>& shape(size_t index) const = 0;
  // Whether a tensor that the model lacks may be in the file; it is then ignored.
  virtual bool may_be_extra(size_t index) const = 0;
};

// Checks that the file holds every expected tensor with its shape and nothing else, and returns the
// file's index of each expected tensor. A difference is Error(kDataLoss) naming tensor, expected
// and seen shape, and location. Memory use is proportional to the file's own list only.
std::vector<size_t> match_tensors(const ModelConfig& config, const TensorListing& file,
                                  const std::string& location);

// Calls visit for each expected tensor in order, without holding the list.
void for_each_expected_tensor(const ModelConfig& config,
                              FunctionRef<void(const TensorInfo&)> visit);

// "[64, 96]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace rl

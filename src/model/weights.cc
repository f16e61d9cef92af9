// Placement of parameters in the flat arrays, from the configuration's list of expected tensors.
#include "model/weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kAlignFloats = 16;

// The parameters of a layer in storage order. `fused` ones directly follow their neighbour; `at`
// receives the offset of the first of them.
struct LayerPart {
  std::string_view suffix;
  int64_t LayerOffsets::*at;
  bool fused;
};
constexpr LayerPart kLayerParts[] = {
    {"input_layernorm.weight", &LayerOffsets::input_norm, false},
    {"q_proj.weight", &LayerOffsets::qkv, false},
    {"k_proj.weight", nullptr, true},
    {"v_proj.weight", nullptr, true},
    {"q_proj.bias", &LayerOffsets::qkv_bias, false},
    {"k_proj.bias", nullptr, true},
    {"v_proj.bias", nullptr, true},
    {"q_norm.weight", &LayerOffsets::q_norm, false},
    {"k_norm.weight", &LayerOffsets::k_norm, false},
    {"o_proj.weight", &LayerOffsets::o, false},
    {"post_attention_layernorm.weight", &LayerOffsets::attention_out_norm, false},
    {"pre_feedforward_layernorm.weight", &LayerOffsets::mlp_norm, false},
    {"gate_proj.weight", &LayerOffsets::gate_up, false},
    {"up_proj.weight", nullptr, true},
    {"down_proj.weight", &LayerOffsets::down, false},
    {"post_feedforward_layernorm.weight", &LayerOffsets::mlp_out_norm, false},
};

const LayerPart& part_of(const std::string& name) {
  for (const LayerPart& part : kLayerParts) {
    if (name.ends_with(part.suffix)) return part;
  }
  throw Error(Code::kInternal, str("tensor ", name, " has no place in a layer"));
}

// Layer number of "model.layers.N.rest", or -1.
int64_t layer_of(const std::string& name) {
  constexpr std::string_view prefix = "model.layers.";
  if (name.compare(0, prefix.size(), prefix) != 0) return -1;
  return std::stoll(name.substr(prefix.size()));
}

}  // namespace

WeightLayout::WeightLayout(const ModelConfig& config) {
  layers_.resize(config.layers);
  std::vector<TensorInfo> tensors = expected_tensors(config);
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const int64_t la = layer_of(a.name), lb = layer_of(b.name);
    return la >= 0 && la == lb && &part_of(a.name) < &part_of(b.name);
  });
  head_ = -1;
  for (const TensorInfo& t : tensors) {
    const int64_t l = layer_of(t.name);
    const LayerPart* part = l >= 0 ? &part_of(t.name) : nullptr;
    if (!part || !part->fused) total_ = (total_ + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
    const Parameter p{t.name, t.shape, total_, t.rows() * t.cols()};
    if (part && part->at)
      layers_[l].*part->at = p.offset;
    else if (t.name == "model.embed_tokens.weight")
      embedding_ = p.offset;
    else if (t.name == "model.norm.weight")
      final_norm_ = p.offset;
    else if (t.name == "lm_head.weight" || t.name == kScalarHeadName)
      head_ = p.offset;
    total_ += p.size;
    count_ += p.size;
    parameters_.push_back(p);
  }
  total_ = (total_ + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
  if (head_ < 0) head_ = embedding_;
  if (config.sandwich_norms) return;
  // This tensor name denotes the norm between attention and MLP, whichever of the two it applies
  // to.
  for (LayerOffsets& layer : layers_) std::swap(layer.mlp_norm, layer.attention_out_norm);
}

}  // namespace rl

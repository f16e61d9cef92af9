// Placement of parameters in the flat arrays, from the configuration's list of expected tensors.
#include "model/weights.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kAlignFloats = 16;

bool ends_with(const std::string& name, std::string_view suffix) {
  return name.size() >= suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// Parts that must follow their neighbour without a gap, in fused order.
bool continues_fused(const std::string& name) {
  for (const char* suffix : {"k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias", "up_proj.weight"})
    if (ends_with(name, suffix)) return true;
  return false;
}

// Rank of a tensor inside its layer: fused parts stand together.
int rank(const std::string& name) {
  int r = 0;
  for (const char* suffix :
       {"input_layernorm.weight", "q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "k_proj.bias",
        "v_proj.bias", "o_proj.weight", "post_attention_layernorm.weight", "gate_proj.weight", "up_proj.weight",
        "down_proj.weight"}) {
    if (ends_with(name, suffix)) return r;
    ++r;
  }
  throw Error(Code::kInternal, str("tensor ", name, " has no place in a layer"));
}

void set_offset(LayerOffsets& layer, int rank, int64_t offset) {
  switch (rank) {
    case 0: layer.input_norm = offset; break;
    case 1: layer.qkv = offset; break;
    case 4: layer.qkv_bias = offset; break;
    case 7: layer.o = offset; break;
    case 8: layer.post_norm = offset; break;
    case 9: layer.gate_up = offset; break;
    case 11: layer.down = offset; break;
    default: break;
  }
}

// Layer number of "model.layers.N.rest", or -1.
int64_t layer_of(const std::string& name) {
  constexpr std::string_view prefix = "model.layers.";
  if (name.compare(0, prefix.size(), prefix) != 0) return -1;
  return std::stoll(name.substr(prefix.size()));
}

}  // namespace

WeightLayout::WeightLayout(const ModelConfig& config) {
  layers_.assign(config.layers, LayerOffsets{-1, -1, -1, -1, -1, -1, -1});
  std::vector<TensorInfo> tensors = expected_tensors(config);
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const int64_t la = layer_of(a.name), lb = layer_of(b.name);
    return la >= 0 && la == lb && rank(a.name) < rank(b.name);
  });
  head_ = -1;
  for (const TensorInfo& t : tensors) {
    if (!continues_fused(t.name)) total_ = (total_ + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
    const Parameter p{t.name, t.shape, total_, t.rows() * t.cols()};
    if (const int64_t l = layer_of(t.name); l >= 0) set_offset(layers_[l], rank(t.name), p.offset);
    else if (t.name == "model.embed_tokens.weight") embedding_ = p.offset;
    else if (t.name == "model.norm.weight") final_norm_ = p.offset;
    else if (t.name == "lm_head.weight") head_ = p.offset;
    total_ += p.size;
    count_ += p.size;
    parameters_.push_back(p);
  }
  total_ = (total_ + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
  if (head_ < 0) head_ = embedding_;
}

}  // namespace rl

// Limits of a configuration, the tensors it implies, and their comparison with the tensors of a
// file.
#include "formats/model_config.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace rl {
namespace {

void check_size(const char* field, int64_t value, int64_t limit, const std::string& location) {
  if (value >= 1 && value <= limit) return;
  throw Error(Code::kOutOfRange, str("model size ", field, " is ", value, ", expected 1..", limit))
      .with_key(field)
      .with_expected(str("1..", limit))
      .with_location(location);
}

void check_id(const char* field, int64_t id, const ModelConfig& config,
              const std::string& location) {
  if (id >= -1 && id < config.vocab) return;
  throw Error(Code::kOutOfRange,
              str(field, " is ", id, ", but the vocabulary has ", config.vocab, " ids"))
      .with_key(field)
      .with_expected(str("0..", config.vocab - 1))
      .with_location(location);
}

void check_relation(bool ok, const char* field, std::string message, const std::string& location) {
  if (ok) return;
  throw Error(Code::kOutOfRange, std::move(message)).with_key(field).with_location(location);
}

void check_heads(const LayerShape& s, const std::string& location) {
  check_size("heads", s.heads, kModelCaps.heads, location);
  check_size("kv_heads", s.kv_heads, s.heads, location);
  check_size("head_dim", s.head_dim, kModelCaps.head_dim, location);
  check_size("ffn", s.ffn, kModelCaps.ffn, location);
  check_relation(s.heads % s.kv_heads == 0, "kv_heads",
                 str("heads ", s.heads, " is not a multiple of kv_heads ", s.kv_heads), location);
  check_relation(s.head_dim % 2 == 0, "head_dim",
                 str("head_dim ", s.head_dim, " is odd; rotary positions need pairs"), location);
}

void check_own_layers(const ModelConfig& c, const std::string& location) {
  if (c.own_layers.empty()) return;
  check_relation(static_cast<int64_t>(c.own_layers.size()) == c.layers, "own_layers",
                 str(c.own_layers.size(), " layer shapes for ", c.layers, " layers"), location);
  for (const LayerShape& s : c.own_layers) {
    check_heads(s, location);
    check_relation(s.head_dim == c.head_dim, "head_dim",
                   str("a layer has head_dim ", s.head_dim, ", but the model ", c.head_dim),
                   location);
    check_relation(s.window >= 0 && s.window <= kModelCaps.max_position, "window",
                   str("window is ", s.window, ", expected 0..", kModelCaps.max_position),
                   location);
  }
}

void check_traits(const ModelConfig& c, const std::string& location) {
  check_relation(std::isfinite(c.query_scalar) && c.query_scalar >= 0, "query_scalar",
                 str("query_scalar is ", c.query_scalar, "; it must be finite and not negative"),
                 location);
  check_relation(!(c.scalar_head && c.tied_head), "scalar_head",
                 "a scalar head cannot be the embedding", location);
  check_relation(!(c.qkv_bias && c.qk_norm), "qk_norm",
                 "q/k norms cannot be combined with qkv biases", location);
  if (c.windowed.empty()) {
    check_relation(c.window == 0, "window", str("window is ", c.window, ", but no layer uses one"),
                   location);
    return;
  }
  check_size("window", c.window, kModelCaps.max_position, location);
  check_relation(static_cast<int64_t>(c.windowed.size()) == c.layers, "windowed",
                 str(c.windowed.size(), " window flags for ", c.layers, " layers"), location);
}

}  // namespace

void validate(const ModelConfig& c, const std::string& location) {
  check_size("vocab", c.vocab, kModelCaps.vocab, location);
  check_size("hidden", c.hidden, kModelCaps.hidden, location);
  check_size("layers", c.layers, kModelCaps.layers, location);
  check_size("max_position", c.max_position, kModelCaps.max_position, location);
  check_heads({c.heads, c.kv_heads, c.head_dim, c.ffn}, location);
  check_own_layers(c, location);
  check_relation(std::isfinite(c.rms_eps) && c.rms_eps > 0, "rms_eps",
                 str("rms_eps is ", c.rms_eps, "; it must be finite and above 0"), location);
  for (const RopeSpec& rope : {c.rope, c.local_rope.value_or(c.rope)}) {
    check_relation(std::isfinite(rope.theta) && rope.theta > 0, "rope_theta",
                   str("rope_theta is ", rope.theta, "; it must be finite and above 0"), location);
  }
  check_traits(c, location);
  for (int32_t id : c.eos_ids) {
    check_relation(id >= 0, "eos_ids", str("eos id ", id, " is negative"), location);
    check_id("eos_ids", id, c, location);
  }
  check_id("bos_id", c.bos_id, c, location);
  check_id("pad_id", c.pad_id, c, location);
}

void for_each_expected_tensor(const ModelConfig& c, FunctionRef<void(const TensorInfo&)> visit) {
  const auto add = [&](std::string name, std::vector<int64_t> shape) {
    visit(TensorInfo{std::move(name), std::move(shape), {}});
  };
  const auto add_embedding = [&] { add("model.embed_tokens.weight", {c.vocab, c.hidden}); };
  if (c.has_embedding()) add_embedding();
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = str("model.layers.", c.stage.first_layer + i, ".");
    const LayerShape shape = c.layer(i);
    const int64_t q = shape.q_width(), kv = shape.kv_width() / 2;
    add(layer + "self_attn.q_proj.weight", {q, c.hidden});
    add(layer + "self_attn.k_proj.weight", {kv, c.hidden});
    add(layer + "self_attn.v_proj.weight", {kv, c.hidden});
    add(layer + "self_attn.o_proj.weight", {c.hidden, q});
    if (c.qkv_bias) {
      add(layer + "self_attn.q_proj.bias", {q});
      add(layer + "self_attn.k_proj.bias", {kv});
      add(layer + "self_attn.v_proj.bias", {kv});
    }
    if (c.qk_norm) {
      add(layer + "self_attn.q_norm.weight", {c.head_dim});
      add(layer + "self_attn.k_norm.weight", {c.head_dim});
    }
    add(layer + "mlp.gate_proj.weight", {shape.ffn, c.hidden});
    add(layer + "mlp.up_proj.weight", {shape.ffn, c.hidden});
    add(layer + "mlp.down_proj.weight", {c.hidden, shape.ffn});
    add(layer + "input_layernorm.weight", {c.hidden});
    add(layer + "post_attention_layernorm.weight", {c.hidden});
    if (c.sandwich_norms) {
      add(layer + "pre_feedforward_layernorm.weight", {c.hidden});
      add(layer + "post_feedforward_layernorm.weight", {c.hidden});
    }
  }
  if (!c.has_head()) return;
  add("model.norm.weight", {c.hidden});
  if (c.copies_embedding()) add_embedding();
  if (c.scalar_head) {
    add(kScalarHeadName, {1, c.hidden});
  } else if (!c.tied_head) {
    add("lm_head.weight", {c.vocab, c.hidden});
  }
}

std::vector<TensorInfo> expected_tensors(const ModelConfig& config) {
  std::vector<TensorInfo> out;
  for_each_expected_tensor(config, [&](const TensorInfo& t) { out.push_back(t); });
  return out;
}

ModelConfig with_scalar_head(ModelConfig config) {
  config.scalar_head = true;
  config.tied_head = false;
  return config;
}

namespace {

void check_divisible(const char* what, int64_t count, int64_t layer, int64_t parts) {
  if (count % parts == 0) return;
  throw Error(Code::kIncompatible, str("layer ", layer, " of the model has ", count, " ", what,
                                       ", which cannot be divided into ", parts, " equal parts"))
      .with_key("parallel.reduction_parts")
      .with_expected(str("a divisor of ", count));
}

void check_vocabulary(int64_t vocab, int64_t parts) {
  const int64_t most = std::max<int64_t>(1, vocab / kVocabularyUnit);
  if (parts <= most) return;
  throw Error(Code::kIncompatible,
              str("the model has a vocabulary of ", vocab, " tokens, which cannot be divided into ",
                  parts, " parts of at least ", kVocabularyUnit, " tokens"))
      .with_key("parallel.reduction_parts")
      .with_expected(str("at most ", most));
}

}  // namespace

ModelConfig with_split(ModelConfig config, const TensorSplit& split) {
  for (int64_t l = 0; l < config.layers; ++l) {
    const LayerShape s = config.layer(l);
    check_divisible("attention heads", s.heads, l, split.parts);
    check_divisible("KV heads", s.kv_heads, l, split.parts);
    check_divisible("MLP units", s.ffn, l, split.parts);
  }
  check_vocabulary(config.vocab, split.parts);
  config.split = split;
  return config;
}

std::vector<size_t> match_tensors(const ModelConfig& config, const TensorListing& file,
                                  const std::string& location) {
  std::vector<size_t> out;
  std::vector<bool> used(file.size());
  for_each_expected_tensor(config, [&](const TensorInfo& want) {
    const int64_t index = file.find(want.name);
    if (index < 0) {
      throw Error(Code::kDataLoss, str(location, ": tensor ", want.name, " is missing"))
          .with_key(want.name)
          .with_expected(shape_text(want.shape))
          .with_location(location);
    }
    out.push_back(static_cast<size_t>(index));
    used[out.back()] = true;
    const std::vector<int64_t>& shape = file.shape(out.back());
    if (shape == want.shape) return;
    throw Error(Code::kDataLoss,
                str(location, ": tensor ", want.name, " has shape ", shape_text(shape),
                    ", but the configuration implies ", shape_text(want.shape)))
        .with_key(want.name)
        .with_expected(shape_text(want.shape))
        .with_location(location);
  });
  for (size_t i = 0; i < file.size(); ++i) {
    if (used[i] || file.may_be_extra(i)) continue;
    throw Error(Code::kDataLoss, str(location, ": tensor ", file.name(i), " does not belong to a ",
                                     config.model_type, " model of this configuration"))
        .with_key(std::string(file.name(i)))
        .with_location(location);
  }
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += str(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

}  // namespace rl

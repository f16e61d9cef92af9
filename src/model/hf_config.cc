// Reading goes key by key with the type each must have; an absent key takes the default that
// transformers documents for the family, and only where there is one.
#include "model/hf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "text/strict_json.h"

namespace rl {
namespace {

using Json = nlohmann::json;

// One object of the file. Null and absent are the same, as in transformers.
class ObjectReader {
 public:
  ObjectReader(const Json& object, const std::string& path, std::string pointer)
      : object_(object), path_(path), pointer_(std::move(pointer)) {
    if (!object.is_object())
      fail(Code::kWrongType, "", str("is ", object.type_name(), ", not an object"));
  }
  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  const Json& require(const char* key) const {
    const Json* v = find(key);
    if (v == nullptr) fail(Code::kDataLoss, key, "is missing");
    return *v;
  }
  int64_t integer(const char* key) const { return to_integer(key, require(key)); }
  std::optional<int64_t> optional_integer(const char* key) const {
    const Json* v = find(key);
    return v == nullptr ? std::nullopt : std::optional(to_integer(key, *v));
  }
  std::optional<double> optional_number(const char* key) const {
    const Json* v = find(key);
    if (v == nullptr) return std::nullopt;
    if (!v->is_number()) fail(Code::kWrongType, key, str("is ", v->type_name(), ", not a number"));
    return v->get<double>();
  }
  bool boolean(const char* key, bool otherwise) const {
    const Json* v = find(key);
    if (v == nullptr) return otherwise;
    if (!v->is_boolean())
      fail(Code::kWrongType, key, str("is ", v->type_name(), ", not a boolean"));
    return v->get<bool>();
  }
  std::optional<std::string> optional_text(const char* key) const {
    const Json* v = find(key);
    if (v == nullptr) return std::nullopt;
    if (!v->is_string()) fail(Code::kWrongType, key, str("is ", v->type_name(), ", not a string"));
    return v->get<std::string>();
  }
  int64_t to_integer(const char* key, const Json& v) const {
    if (!v.is_number_integer())
      fail(Code::kWrongType, key, str("is ", v.type_name(), ", not an integer"));
    if (v.is_number_unsigned() && !std::in_range<int64_t>(v.get<uint64_t>())) {
      fail(Code::kOutOfRange, key, str("is ", v.get<uint64_t>(), ", above 2^63-1"));
    }
    return v.get<int64_t>();
  }
  ObjectReader object(const char* key) const { return {require(key), path_, where(key)}; }
  [[noreturn]] void unsupported(const char* key, const std::string& seen,
                                std::string expected) const {
    throw Error(Code::kUnsupported, str(path_, ": ", where(key), " is ", seen.substr(0, 200),
                                        ", supported is ", expected))
        .with_key(key)
        .with_expected(std::move(expected))
        .with_location(str(path_, " ", where(key)));
  }
  [[noreturn]] void fail(Code code, const char* key, const std::string& what) const {
    throw Error(code, str(path_, ": ", where(key), " ", what))
        .with_key(key)
        .with_location(str(path_, " ", where(key)));
  }

 private:
  std::string where(const char* key) const {
    return *key == 0 && pointer_.empty() ? "/" : str(pointer_, "/", key);
  }
  const Json& object_;
  const std::string& path_;
  std::string pointer_;
};

void refuse_unless(const ObjectReader& in, const char* key, bool supported, const char* expected) {
  if (!supported)
    in.unsupported(key, in.find(key)->dump(-1, ' ', true, Json::error_handler_t::replace),
                   expected);
}

void refuse_unsupported(const ObjectReader& in, Family family) {
  const auto act = in.optional_text("hidden_act");
  refuse_unless(in, "hidden_act", !act || *act == "silu", "silu");
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    refuse_unless(in, key, !in.boolean(key, false), "false");
  }
  // Qwen2 files carry a window beside use_sliding_window false, where it has no effect.
  refuse_unless(in, "sliding_window",
                family == Family::kQwen2 || in.find("sliding_window") == nullptr, "null");
  refuse_unless(in, "quantization_config", in.find("quantization_config") == nullptr, "null");
  const auto partial = in.optional_number("partial_rotary_factor");
  refuse_unless(in, "partial_rotary_factor", !partial || *partial == 1.0, "1");
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto type = in.optional_text(key);
    const bool known = !type || *type == "float32" || *type == "float16" || *type == "bfloat16";
    refuse_unless(in, key, known, "float32, float16 or bfloat16");
  }
  const Json* layers = in.find("layer_types");
  if (layers == nullptr) return;
  const bool full =
      layers->is_array() && std::all_of(layers->begin(), layers->end(),
                                        [](const Json& v) { return v == "full_attention"; });
  refuse_unless(in, "layer_types", full, "full_attention in every layer");
}

void require_default_rope(const ObjectReader& in) {
  for (const char* key : {"rope_type", "type"}) {
    const auto type = in.optional_text(key);
    refuse_unless(in, key, !type || *type == "default", "default");
  }
  const auto partial = in.optional_number("partial_rotary_factor");
  refuse_unless(in, "partial_rotary_factor", !partial || *partial == 1.0, "1");
}

double read_rope_theta(const ObjectReader& in) {
  std::optional<double> theta = in.optional_number("rope_theta");
  if (in.find("rope_scaling") != nullptr) require_default_rope(in.object("rope_scaling"));
  if (in.find("rope_parameters") != nullptr) {
    const ObjectReader rope = in.object("rope_parameters");
    require_default_rope(rope);
    const auto inner = rope.optional_number("rope_theta");
    if (!inner && !theta) rope.fail(Code::kDataLoss, "rope_theta", "is missing");
    if (inner && theta && *inner != *theta) {
      rope.fail(Code::kConflict, "rope_theta", str("is ", *inner, ", /rope_theta is ", *theta));
    }
    if (inner) theta = inner;
  }
  return theta.value_or(10000.0);  // transformers' default for both families
}

int32_t to_token_id(const ObjectReader& in, const char* key, int64_t id) {
  if (id < -1 || !std::in_range<int32_t>(id))
    in.fail(Code::kOutOfRange, key, str("is ", id, ", which is no token id"));
  return static_cast<int32_t>(id);
}

int32_t read_token_id(const ObjectReader& in, const char* key) {
  return to_token_id(in, key, in.optional_integer(key).value_or(-1));
}

constexpr size_t kMaxEosIds = 1024;

// One id or a list of ids; -1 stands for none.
void add_eos_ids(const ObjectReader& in, ModelConfig& c) {
  const char* const key = "eos_token_id";
  const Json* v = in.find(key);
  if (v == nullptr) return;
  const auto add = [&](const Json& item) {
    const int32_t id = to_token_id(in, key, in.to_integer(key, item));
    if (id < 0 || std::find(c.eos_ids.begin(), c.eos_ids.end(), id) != c.eos_ids.end()) return;
    if (c.eos_ids.size() == kMaxEosIds)
      in.fail(Code::kResourceExhausted, key, str("has more than ", kMaxEosIds, " ids"));
    c.eos_ids.push_back(id);
  };
  if (!v->is_array()) return add(*v);
  for (const Json& item : *v) add(item);
}

void read_head_sizes(const ObjectReader& in, ModelConfig& c) {
  c.heads = in.integer("num_attention_heads");
  // Llama files from before grouped heads leave the key out.
  if (c.family == Family::kQwen2)
    c.kv_heads = in.integer("num_key_value_heads");
  else
    c.kv_heads = in.optional_integer("num_key_value_heads").value_or(c.heads);
  if (const auto head_dim = in.optional_integer("head_dim")) {
    c.head_dim = *head_dim;
    return;
  }
  if (c.heads < 1 || c.hidden < 1 || c.hidden % c.heads != 0) {
    in.fail(Code::kOutOfRange, "num_attention_heads",
            str("is ", c.heads, ", which does not divide hidden_size ", c.hidden));
  }
  c.head_dim = c.hidden / c.heads;
}

// The shortest decimal that gives the same float: 1e-05 rather than 9.99999974e-06.
double shortest(float v) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, v).ptr;
  double out = 0;
  std::from_chars(text, end, out);
  return out;
}

Json eos_json(const ModelConfig& c) {
  if (c.eos_ids.empty()) return nullptr;
  return c.eos_ids.size() == 1 ? Json(c.eos_ids.front()) : Json(c.eos_ids);
}
Json id_json(int32_t id) { return id < 0 ? Json(nullptr) : Json(id); }

}  // namespace

ModelConfig parse_hf_config(std::string_view text, const std::string& path) {
  const Json root = parse_strict_json(text, path, kMaxConfigBytes);
  const ObjectReader in(root, path, "");
  ModelConfig c;
  const auto type = in.optional_text("model_type");
  if (!type) in.fail(Code::kDataLoss, "model_type", "is missing");
  c.model_type = *type;
  if (*type != "llama" && *type != "qwen2")
    in.unsupported("model_type", str("\"", *type, "\""), "llama or qwen2");
  c.family = *type == "llama" ? Family::kLlama : Family::kQwen2;
  c.qkv_bias = c.family == Family::kQwen2;
  refuse_unsupported(in, c.family);
  c.vocab = in.integer("vocab_size");
  c.hidden = in.integer("hidden_size");
  c.layers = in.integer("num_hidden_layers");
  c.ffn = in.integer("intermediate_size");
  c.max_position = in.integer("max_position_embeddings");
  read_head_sizes(in, c);
  in.require("rms_norm_eps");
  c.rms_eps = static_cast<float>(*in.optional_number("rms_norm_eps"));
  c.rope_theta = read_rope_theta(in);
  c.tied_head = in.boolean("tie_word_embeddings", false);
  add_eos_ids(in, c);
  c.bos_id = read_token_id(in, "bos_token_id");
  c.pad_id = read_token_id(in, "pad_token_id");
  validate(c, path);
  return c;
}

void merge_generation_config(std::string_view text, const std::string& path, ModelConfig& config) {
  const Json root = parse_strict_json(text, path, kMaxConfigBytes);
  add_eos_ids(ObjectReader(root, path, ""), config);
  validate(config, path);
}

std::string render_hf_config(const ModelConfig& c, Dtype dtype) {
  const bool llama = c.family == Family::kLlama;
  Json j;
  j["architectures"] = {llama ? "LlamaForCausalLM" : "Qwen2ForCausalLM"};
  j["model_type"] = family_name(c.family);
  j["dtype"] = dtype == Dtype::kF32 ? "float32" : "bfloat16";
  j["vocab_size"] = c.vocab;
  j["hidden_size"] = c.hidden;
  j["num_hidden_layers"] = c.layers;
  j["num_attention_heads"] = c.heads;
  j["num_key_value_heads"] = c.kv_heads;
  j["head_dim"] = c.head_dim;
  j["intermediate_size"] = c.ffn;
  j["max_position_embeddings"] = c.max_position;
  j["rms_norm_eps"] = shortest(c.rms_eps);
  j["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", c.rope_theta}};
  j["tie_word_embeddings"] = c.tied_head;
  j["hidden_act"] = "silu";
  j["attention_dropout"] = 0.0;
  j["initializer_range"] = 0.02;
  j["use_cache"] = true;
  j["eos_token_id"] = eos_json(c);
  j["bos_token_id"] = id_json(c.bos_id);
  j["pad_token_id"] = id_json(c.pad_id);
  if (llama) {
    j["attention_bias"] = false;
    j["mlp_bias"] = false;
  } else {
    j["use_sliding_window"] = false;
    j["sliding_window"] = nullptr;
    j["layer_types"] = std::vector<std::string>(static_cast<size_t>(c.layers), "full_attention");
  }
  return j.dump(2) + "\n";
}

std::string render_generation_config(const ModelConfig& c) {
  Json j = Json::object();
  if (!c.eos_ids.empty()) j["eos_token_id"] = eos_json(c);
  if (c.bos_id >= 0) j["bos_token_id"] = c.bos_id;
  if (c.pad_id >= 0) j["pad_token_id"] = c.pad_id;
  return j.dump(2) + "\n";
}

}  // namespace rl

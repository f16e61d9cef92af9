// Settings shared by all families; the rest is in families/. Each key is read with its required
// type; an absent key takes the default that transformers documents for the family, if there is
// one.
#include "formats/hf/hf_config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/encoding/strict_json.h"
#include "core/error.h"
#include "formats/config_reader.h"
#include "formats/families/family.h"

namespace rl {
namespace {

using Json = nlohmann::json;

// Settings that change the arithmetic and that no family here supports.
void refuse_unsupported(const ConfigReader& in) {
  in.refuse_true({"attention_bias", "mlp_bias"});
  in.refuse_present({"quantization_config"});
  const auto partial = in.optional_number("partial_rotary_factor");
  in.refuse_unless(!partial || *partial == 1.0, "partial_rotary_factor", "1");
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto type = in.optional_text(key);
    const bool known = !type || *type == "float32" || *type == "float16" || *type == "bfloat16";
    in.refuse_unless(known, key, "float32, float16 or bfloat16");
  }
}

Family read_family(const ConfigReader& in) {
  const auto type = in.optional_text("model_type");
  if (!type) in.fail(Code::kDataLoss, "model_type", "is missing");
  const Family* family = find_family(*type);
  if (family == nullptr) in.unsupported("model_type", str("\"", *type, "\""), known_model_types());
  return *family;
}

// The architecture class tells which head the file has; without one it is a language-model head.
bool read_scalar_head(const ConfigReader& in, Family family) {
  const Json* classes = in.find("architectures");
  if (classes == nullptr || *classes == Json::array()) return false;
  const FamilyInfo& info = family_info(family);
  const auto is = [&](const std::string& name) { return *classes == Json::array({name}); };
  if (is(str(info.stem, kSequenceScorer)) || is(str(info.stem, kTokenScorer))) return true;
  in.refuse_unless(is(info.architecture), "architectures", info.architecture);
  return false;
}

// A scalar head has one label. Files list labels only if there are not two.
void require_one_label(const ConfigReader& in) {
  const auto count = in.optional_integer("num_labels");
  in.refuse_unless(!count || *count == 1, "num_labels", "1");
  const Json* labels = in.find("id2label");
  in.refuse_unless(labels == nullptr || (labels->is_object() && labels->size() == 1), "id2label",
                   "one label");
}

int32_t to_token_id(const ConfigReader& in, const char* key, int64_t id) {
  if (id < -1 || !std::in_range<int32_t>(id))
    in.fail(Code::kOutOfRange, key, str("is ", id, ", which is not a token id"));
  return static_cast<int32_t>(id);
}

int32_t read_token_id(const ConfigReader& in, const char* key) {
  return to_token_id(in, key, in.optional_integer(key).value_or(-1));
}

constexpr size_t kMaxEosIds = 1024;

// One id or a list of ids; -1 means none.
void add_eos_ids(const ConfigReader& in, ModelConfig& c) {
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

// The shortest decimal that parses to the same float: 1e-05 rather than 9.99999974e-06.
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
  const ConfigReader in(root, path, "");
  ModelConfig c;
  c.family = read_family(in);
  c.model_type = family_info(c.family).model_type;
  refuse_unsupported(in);
  c.vocab = in.integer("vocab_size");
  c.hidden = in.integer("hidden_size");
  c.layers = in.integer("num_hidden_layers");
  if (c.layers < 1 || c.layers > kModelCaps.layers) {
    in.fail(Code::kOutOfRange, "num_hidden_layers",
            str("is ", c.layers, ", expected 1..", kModelCaps.layers));
  }
  c.ffn = in.integer("intermediate_size");
  c.max_position = in.integer("max_position_embeddings");
  c.heads = in.integer("num_attention_heads");
  c.rms_eps = static_cast<float>(in.number("rms_norm_eps"));
  family_info(c.family).read(in, c);
  if (read_scalar_head(in, c.family)) {
    require_one_label(in);
    c = with_scalar_head(std::move(c));
  }
  add_eos_ids(in, c);
  c.bos_id = read_token_id(in, "bos_token_id");
  c.pad_id = read_token_id(in, "pad_token_id");
  validate(c, path);
  return c;
}

void merge_generation_config(std::string_view text, const std::string& path, ModelConfig& config) {
  const Json root = parse_strict_json(text, path, kMaxConfigBytes);
  add_eos_ids(ConfigReader(root, path, ""), config);
  validate(config, path);
}

std::string render_hf_config(const ModelConfig& c, Dtype dtype) {
  if (!c.own_layers.empty()) {
    throw Error(Code::kUnsupported, "config.json cannot describe layers of different shapes");
  }
  const FamilyInfo& family = family_info(c.family);
  Json j;
  j["architectures"] = {c.scalar_head ? str(family.stem, kSequenceScorer) : family.architecture};
  if (c.scalar_head) {
    j["id2label"] = {{"0", "LABEL_0"}};
    j["label2id"] = {{"LABEL_0", 0}};
  }
  j["model_type"] = family.model_type;
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
  j["tie_word_embeddings"] = c.tied_head;
  j["attention_dropout"] = 0.0;
  j["initializer_range"] = 0.02;
  j["use_cache"] = true;
  j["eos_token_id"] = eos_json(c);
  j["bos_token_id"] = id_json(c.bos_id);
  j["pad_token_id"] = id_json(c.pad_id);
  family.write(c, j);
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

// Gemma 3, text: sandwich norms with stored weights w - 1, q/k norms, scaled embeddings, GeGLU, a
// tied head, and windows on most layers, which use a RoPE base of their own.
#include "formats/families/family.h"
#include "formats/families/reading.h"
#include "formats/rope_config.h"

namespace rl {
namespace {

constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4, kMaxScalar = 1e9;

void require_gelu_tanh(const ConfigReader& in) {
  for (const char* key : {"hidden_activation", "hidden_act"}) {
    const auto act = in.optional_text(key);
    in.refuse_unless(!act || *act == "gelu_pytorch_tanh", key, "gelu_pytorch_tanh");
  }
}

// Without layer_types, every n-th layer attends all keys.
std::vector<uint8_t> windowed_layers(const ConfigReader& in, const ModelConfig& c) {
  if (const auto types = read_layer_types(in, c)) return *types;
  const char* key =
      in.find("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  const int64_t n = in.optional_integer(key).value_or(6);
  if (n < 1) in.fail(Code::kOutOfRange, key, str("is ", n, "; it must be above 0"));
  std::vector<uint8_t> out;
  for (int64_t l = 0; l < c.layers; ++l) out.push_back((l + 1) % n == 0 ? 0 : 1);
  return out;
}

// Current spelling: one object per kind of layer. Older: rope_theta and rope_scaling for layers
// that attend all keys, rope_local_base_freq for the others.
void read_ropes(const ConfigReader& in, ModelConfig& c) {
  const RopeDefaults global{kGlobalTheta, c.max_position}, local{kLocalTheta, c.max_position};
  RopeSpec local_rope;
  if (in.find("rope_parameters") != nullptr) {
    in.refuse_present({"rope_scaling", "rope_theta", "rope_local_base_freq"});
    const ConfigReader ropes = in.object("rope_parameters");
    ropes.refuse_others({"full_attention", "sliding_attention"});
    c.rope = read_rope_object(ropes.object("full_attention"), global);
    local_rope = read_rope_object(ropes.object("sliding_attention"), local);
  } else {
    c.rope = read_rope(in, global);
    local_rope.theta = in.optional_number("rope_local_base_freq").value_or(kLocalTheta);
  }
  if (!c.windowed.empty()) c.local_rope = local_rope;
}

// transformers documents an integer and rejects 256.0.
nlohmann::json integer_where_whole(double v) {
  const auto whole = static_cast<int64_t>(v);
  return static_cast<double>(whole) == v ? nlohmann::json(whole) : nlohmann::json(v);
}

void read(const ConfigReader& in, ModelConfig& c) {
  require_gelu_tanh(in);
  in.refuse_true({"use_bidirectional_attention"});
  in.refuse_present({"attn_logit_softcapping", "final_logit_softcapping"});
  c.activation = Activation::kGeluTanh;
  c.norm_weight = NormWeight::kMinusOne;
  c.sandwich_norms = true;
  c.qk_norm = true;
  c.scaled_embedding = true;
  read_head_sizes(in, {.kv_heads = std::nullopt, .head_dim = 256}, c);
  c.query_scalar = in.optional_number("query_pre_attn_scalar").value_or(256);
  if (!(c.query_scalar > 0 && c.query_scalar <= kMaxScalar)) {
    in.fail(Code::kOutOfRange, "query_pre_attn_scalar",
            str("is ", c.query_scalar, "; it must be above 0 and at most ", kMaxScalar));
  }
  const int64_t window = in.optional_integer("sliding_window").value_or(4096);
  set_windows(in, "sliding_window", window, windowed_layers(in, c), c);
  read_ropes(in, c);
  c.tied_head = in.boolean("tie_word_embeddings", true);
}

void write(const ModelConfig& c, nlohmann::json& out) {
  const RopeSpec local = c.local_rope.value_or(RopeSpec{.theta = kLocalTheta});
  out["rope_parameters"] = {{"full_attention", rope_json(c.rope)},
                            {"sliding_attention", rope_json(local)}};
  out["hidden_activation"] = "gelu_pytorch_tanh";
  out["query_pre_attn_scalar"] = integer_where_whole(c.query_scalar);
  if (!c.windowed.empty()) out["sliding_window"] = c.window;
  out["layer_types"] = layer_types(c);
  out["attention_bias"] = false;
  out["use_bidirectional_attention"] = false;
  out["attn_logit_softcapping"] = nullptr;
  out["final_logit_softcapping"] = nullptr;
}

}  // namespace

const FamilyInfo kGemma3Family = {"gemma3",     "gemma3_text", "Gemma3ForCausalLM",
                                  "Gemma3Text", read,          write};

}  // namespace rl

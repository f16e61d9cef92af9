// Opening Hugging Face directories: the fixtures in both spellings of config.json, and what is
// refused.
#include "formats/hf/hf_directory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/fs.h"
#include "formats/hf/hf_config.h"
#include "formats/memory_fs.h"
#include "formats/open/open_weight_source.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"

namespace rl {
namespace {

const std::string kModels = std::string(RL_FIXTURES) + "/models/";

std::string fixture(const std::string& name) {
  return read_text_file(real_fs(), kModels + name, uint64_t{1} << 24);
}

test::MemoryFs tiny_directory() {
  test::MemoryFs fs;
  fs.files["m/config.json"] = test::kTinyConfig;
  fs.files["m/model.safetensors"] = test::tiny_safetensors();
  return fs;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(HfDirectory, OpensEveryFixtureAlikeInBothSpellings) {
  for (const std::string name : {"llama", "smollm2", "qwen2", "llama_bf16"}) {
    const auto source = open_weight_source(real_fs(), kModels + name);
    const ModelConfig& c = source->config();
    EXPECT_EQ(c.vocab, 256);
    EXPECT_EQ(c.hidden, 64);
    EXPECT_EQ(c.layers, 2);
    EXPECT_EQ(c.heads, 4);
    EXPECT_EQ(c.kv_heads, 2);
    EXPECT_EQ(c.head_dim, 16);
    EXPECT_EQ(c.rms_eps, 1e-5f);
    EXPECT_EQ(c.eos_ids, std::vector<int32_t>{2});
    EXPECT_EQ(c.bos_id, 1);
    EXPECT_EQ(c.pad_id, 0);
    EXPECT_EQ(c.qkv_bias, name == "qwen2");
    EXPECT_EQ(c.tied_head, name == "smollm2" || name == "qwen2");
    EXPECT_EQ(c.rope.theta, name == "smollm2" ? 1e5 : name == "qwen2" ? 1e6 : 1e4);
    EXPECT_EQ(c.file_dtype, name == "llama_bf16" ? Dtype::kBf16 : Dtype::kF32);
    ModelConfig old = parse_hf_config(fixture(name + "/config_v4.json"), "config_v4.json");
    old.file_dtype = c.file_dtype;
    EXPECT_EQ(old, c) << name;
    EXPECT_EQ(source->tensors().size(), expected_tensors(c).size());
    EXPECT_EQ(source->find("lm_head.weight") >= 0, !c.tied_head);
    EXPECT_FALSE(source->tokenizer_parts().has_value());
    EXPECT_EQ(source->tokenizer_json_path(), "");
  }
}

// The configuration of a fixture, after a comparison of its two spellings.
ModelConfig read_both(const std::string& name) {
  const ModelConfig c = parse_hf_config(fixture(name + "/config.json"), "config.json");
  EXPECT_EQ(parse_hf_config(fixture(name + "/config_v4.json"), "config_v4.json"), c) << name;
  EXPECT_EQ(open_weight_source(real_fs(), kModels + name)->tensors().size(),
            expected_tensors(c).size());
  return c;
}

TEST(HfDirectory, ReadsTheTraitsOfQwen3) {
  const ModelConfig c = read_both("qwen3");
  EXPECT_EQ(c.family, Family::kQwen3);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_TRUE(c.qk_norm);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_TRUE(c.windowed.empty());
  EXPECT_EQ(c.rope, RopeSpec{.theta = 1e6});
}

TEST(HfDirectory, ReadsTheWindowOfMistral) {
  const ModelConfig c = read_both("mistral");
  EXPECT_EQ(c.family, Family::kMistral);
  EXPECT_EQ(c.window, 6);
  EXPECT_EQ(c.windowed, (std::vector<uint8_t>{1, 1}));
  const std::string text = fixture("mistral/config.json");
  const ModelConfig none =
      parse_hf_config(replaced(text, "\"sliding_window\": 6", "\"sliding_window\": null"), "c");
  EXPECT_EQ(none.window, 0);
  EXPECT_TRUE(none.windowed.empty());
  const ModelConfig absent = parse_hf_config(replaced(text, "\"sliding_window\": 6,", ""), "c");
  EXPECT_EQ(absent.window, 4096);
}

TEST(HfDirectory, ReadsTheTraitsOfGemma3) {
  const ModelConfig c = read_both("gemma3");
  EXPECT_EQ(c.family, Family::kGemma3);
  EXPECT_EQ(c.activation, Activation::kGeluTanh);
  EXPECT_EQ(c.norm_weight, NormWeight::kMinusOne);
  EXPECT_TRUE(c.qk_norm && c.sandwich_norms && c.scaled_embedding && c.tied_head);
  EXPECT_EQ(c.query_scalar, 24);
  EXPECT_EQ(c.window, 8);
  EXPECT_EQ(c.windowed, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(c.rope, RopeSpec{.theta = 1e6});
  EXPECT_EQ(c.local_rope, RopeSpec{.theta = 1e4});
}

TEST(HfDirectory, Gemma3TakesTheDefaultsThatTransformersGives) {
  const ModelConfig c = parse_hf_config(R"({"model_type": "gemma3_text", "vocab_size": 9,
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 7, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 3})",
                                        "config.json");
  EXPECT_EQ(c.head_dim, 256);
  EXPECT_EQ(c.query_scalar, 256);
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(c.window, 4096);
  EXPECT_EQ(c.windowed, (std::vector<uint8_t>{1, 1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(c.rope, (RopeSpec{.theta = 1e6, .scaling = RopeScaling::kLinear, .factor = 8}));
  EXPECT_EQ(c.local_rope, RopeSpec{.theta = 1e4});
}

TEST(HfDirectory, QwenWindowsStartAtTheirFirstLayerWhenSwitchedOn) {
  std::string text = fixture("qwen3/config.json");
  text = replaced(text, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  EXPECT_TRUE(parse_hf_config(text, "c").windowed.empty());  // layer_types says full_attention
  const size_t at = text.find("\"layer_types\"");
  text.erase(at, text.find("],", at) + 2 - at);
  text = replaced(text, "\"max_window_layers\": 28", "\"max_window_layers\": 1");
  EXPECT_TRUE(parse_hf_config(text, "c").windowed.empty());  // sliding_window is null
  text = replaced(text, "\"sliding_window\": null", "\"sliding_window\": 12");
  const ModelConfig c = parse_hf_config(text, "c");
  EXPECT_EQ(c.window, 12);
  EXPECT_EQ(c.windowed, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(parse_hf_config(render_hf_config(c, Dtype::kF32), "again"), c);
}

TEST(HfDirectory, ReadsEveryRopeScaling) {
  const RopeSpec linear{.theta = 1e4, .scaling = RopeScaling::kLinear, .factor = 2};
  EXPECT_EQ(read_both("llama_rope_linear").rope, linear);
  const RopeSpec llama3{.theta = 5e5,
                        .scaling = RopeScaling::kLlama3,
                        .factor = 8,
                        .original_positions = 32,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4};
  EXPECT_EQ(read_both("llama_rope_llama3").rope, llama3);
  const RopeSpec yarn{.theta = 1e4,
                      .scaling = RopeScaling::kYarn,
                      .factor = 4,
                      .original_positions = 16,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .truncate = true,
                      .attention_factor = yarn_attention_factor(4)};
  EXPECT_EQ(read_both("llama_rope_yarn").rope, yarn);
}

ModelConfig with_rope(const std::string& rope) {
  return parse_hf_config(
      replaced(test::kTinyConfig, "\"rope_theta\": 10000.0", "\"rope_scaling\": " + rope),
      "config.json");
}

TEST(HfDirectory, YarnSettingsSurviveSavingAndReading) {
  const ModelConfig c = with_rope(R"({"type": "yarn", "factor": 3, "beta_fast": 16, "beta_slow": 2,
    "truncate": false, "mscale": 0.7, "mscale_all_dim": 0.5})");
  EXPECT_EQ(c.rope.original_positions, 16);  // the model's own length
  EXPECT_NEAR(c.rope.attention_factor, (0.07 * std::log(3) + 1) / (0.05 * std::log(3) + 1), 1e-15);
  EXPECT_EQ(parse_hf_config(render_hf_config(c, Dtype::kF32), "again"), c);
  EXPECT_EQ(with_rope(R"({"rope_type": "yarn", "factor": 3, "attention_factor": 1.5})")
                .rope.attention_factor,
            1.5);
}

TEST(HfDirectory, RefusesRopesItCannotCompute) {
  const struct {
    const char* rope;
    Code code;
    const char* key;
  } cases[] = {
      {R"({"rope_type": "dynamic", "factor": 2})", Code::kUnsupported, "rope_type"},
      {R"({"type": "longrope", "factor": 2})", Code::kUnsupported, "type"},
      {R"({"rope_type": "linear", "type": "yarn", "factor": 2})", Code::kConflict, "type"},
      {R"({"rope_type": "linear"})", Code::kDataLoss, "factor"},
      {R"({"rope_type": "linear", "factor": 0})", Code::kOutOfRange, "factor"},
      {R"({"rope_type": "linear", "factor": "2"})", Code::kWrongType, "factor"},
      {R"({"rope_type": "default", "mrope_section": [1]})", Code::kUnsupported, "mrope_section"},
      {R"({"rope_type": "default", "partial_rotary_factor": 0.5})", Code::kUnsupported,
       "partial_rotary_factor"},
      {R"({"rope_type": "llama3", "factor": 2})", Code::kDataLoss, "low_freq_factor"},
      {R"({"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4})",
       Code::kOutOfRange, "high_freq_factor"},
      {R"({"rope_type": "yarn", "factor": 2, "beta_fast": -1})", Code::kOutOfRange, "beta_fast"},
      {R"({"rope_type": "yarn", "factor": 2, "rope_theta": 1})", Code::kOutOfRange, "rope_theta"},
      {R"({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 0})",
       Code::kOutOfRange, "original_max_position_embeddings"},
  };
  for (const auto& c : cases) {
    const Error e = expect_error(c.code, [&] { with_rope(c.rope); });
    EXPECT_EQ(e.key, c.key) << e.message;
    EXPECT_TRUE(contains(e.location, c.key)) << e.location;
  }
}

TEST(HfDirectory, RefusesFamilySettingsItDoesNotFollow) {
  const struct {
    const char* fixture;
    const char* from;
    const char* to;
    Code code;
    const char* key;
  } cases[] = {
      {"gemma3", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50.0",
       Code::kUnsupported, "attn_logit_softcapping"},
      {"gemma3", "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0",
       Code::kUnsupported, "final_logit_softcapping"},
      {"gemma3", "\"use_bidirectional_attention\": false", "\"use_bidirectional_attention\": true",
       Code::kUnsupported, "use_bidirectional_attention"},
      {"gemma3", "gelu_pytorch_tanh", "gelu", Code::kUnsupported, "hidden_activation"},
      {"gemma3", "\"sliding_window\": 8", "\"sliding_window\": 0", Code::kOutOfRange,
       "sliding_window"},
      {"gemma3", "\"query_pre_attn_scalar\": 24", "\"query_pre_attn_scalar\": 0", Code::kOutOfRange,
       "query_pre_attn_scalar"},
      {"gemma3", "\"full_attention\"\n", "\"chunked_attention\"\n", Code::kUnsupported,
       "layer_types"},
      {"gemma3", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", Code::kConflict,
       "layer_types"},
      {"gemma3", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", Code::kUnsupported,
       "architectures"},
      {"gemma3", "gemma3_text", "gemma3", Code::kUnsupported, "model_type"},
      {"qwen3", "\"attention_bias\": false", "\"attention_bias\": true", Code::kUnsupported,
       "attention_bias"},
      {"qwen3", "\"full_attention\",", "\"sliding_attention\",", Code::kConflict, "layer_types"},
      {"mistral", "\"silu\"", "\"relu\"", Code::kUnsupported, "hidden_act"},
      {"mistral", "\"sliding_window\": 6", "\"sliding_window\": -6", Code::kOutOfRange,
       "sliding_window"},
  };
  for (const auto& c : cases) {
    const Error e = expect_error(c.code, [&] {
      parse_hf_config(replaced(fixture(str(c.fixture, "/config.json")), c.from, c.to),
                      "config.json");
    });
    EXPECT_EQ(e.key, c.key) << e.message;
  }
}

TEST(HfDirectory, AnUnknownFamilyIsAnErrorWithThoseThatAreKnown) {
  const Error e = expect_error(Code::kUnsupported, [&] {
    parse_hf_config(replaced(test::kTinyConfig, "\"llama\"", "\"qwen3_moe\""), "config.json");
  });
  EXPECT_EQ(e.expected, "llama, qwen2, qwen3, mistral, gemma3_text");
}

TEST(HfDirectory, ReadsRowsAnywhereInATensor) {
  const auto source = open_weight_source(real_fs(), kModels + "llama");
  const int64_t index = source->find("model.layers.1.mlp.down_proj.weight");
  ASSERT_GE(index, 0);
  std::vector<float> all(64 * 96), part(3 * 96);
  source->read(index, 0, all);
  source->read(index, 7, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 7 * 96));
  expect_error(Code::kInvalidArgument, [&] { source->read(index, 62, part); });
  expect_error(Code::kInvalidArgument, [&] { source->read(index, 0, std::span(part).first(5)); });
  expect_error(Code::kInvalidArgument, [&] { source->read(-1, 0, part); });
}

TEST(HfDirectory, ReadsTokenizerPathTemplateAndGenerationIds) {
  test::MemoryFs fs = tiny_directory();
  fs.files["m/generation_config.json"] = R"({"eos_token_id": [3, 4]})";
  fs.files["m/tokenizer.json"] = "{}";
  fs.files["m/tokenizer_config.json"] = R"({"chat_template": [{"name": "tool", "template": "T"},)"
                                        R"({"name": "default", "template": "D"}]})";
  const auto a = open_weight_source(fs, "m");
  EXPECT_EQ(a->config().eos_ids, (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(a->tokenizer_json_path(), "m/tokenizer.json");
  const auto templates = a->chat_templates();
  ASSERT_EQ(templates.size(), 2u);
  EXPECT_EQ(templates[0].name + templates[0].text, "toolT");
  EXPECT_EQ(templates[1].name + templates[1].text, "defaultD");
  fs.files["m/chat_template.jinja"] = "J";
  const auto own = open_weight_source(fs, "m")->chat_templates();
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].name + own[0].text, "defaultJ");
}

TEST(HfDirectory, RefusesSettingsItDoesNotFollow) {
  const struct {
    const char* from;
    const char* to;
    const char* key;
  } cases[] = {
      {"\"llama\"", "\"mixtral\"", "model_type"},
      {"\"silu\"", "\"gelu\"", "hidden_act"},
      {"\"bos_token_id\": 1", "\"sliding_window\": 6", "sliding_window"},
      {"\"bos_token_id\": 1", "\"use_sliding_window\": true", "use_sliding_window"},
      {"\"bos_token_id\": 1", "\"attention_bias\": true", "attention_bias"},
      {"\"bos_token_id\": 1", "\"mlp_bias\": true", "mlp_bias"},
      {"\"bos_token_id\": 1", "\"layer_types\": [\"sliding_attention\"]", "layer_types"},
      {"\"bos_token_id\": 1", "\"quantization_config\": {}", "quantization_config"},
      {"\"bos_token_id\": 1", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor"},
      {"\"bos_token_id\": 1", "\"dtype\": \"float64\"", "dtype"},
  };
  for (const auto& c : cases) {
    const Error e = expect_error(Code::kUnsupported, [&] {
      parse_hf_config(replaced(test::kTinyConfig, c.from, c.to), "config.json");
    });
    EXPECT_EQ(e.key, c.key) << e.message;
    EXPECT_TRUE(contains(e.location, c.key));
  }
}

TEST(HfDirectory, RefusesSizesThatAreMissingMistypedOrOutOfRange) {
  const struct {
    const char* from;
    const char* to;
    Code code;
  } cases[] = {
      {"\"vocab_size\": 5", "\"vocab_size\": 0", Code::kOutOfRange},
      {"\"vocab_size\": 5", "\"vocab_size\": -5", Code::kOutOfRange},
      {"\"vocab_size\": 5", "\"vocab_size\": 4000001", Code::kOutOfRange},
      {"\"vocab_size\": 5", "\"vocab_size\": 18446744073709551615", Code::kOutOfRange},
      {"\"vocab_size\": 5", "\"vocab_size\": 5.0", Code::kWrongType},
      {"\"vocab_size\": 5,", "", Code::kDataLoss},
      {"\"head_dim\": 4", "\"head_dim\": 5", Code::kOutOfRange},
      {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3", Code::kOutOfRange},
      {"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4097", Code::kOutOfRange},
      {"1e-05", "0.0", Code::kOutOfRange},
      {"1e-05", "1e-60", Code::kOutOfRange},
      {"10000.0", "-1", Code::kOutOfRange},
      {"[2, 3]", "[2, 5]", Code::kOutOfRange},
      {"[2, 3]", "\"2\"", Code::kWrongType},
      {"\"bos_token_id\": 1", "\"bos_token_id\": 5", Code::kOutOfRange},
      {"\"bos_token_id\": 1", "\"vocab_size\": 5", Code::kDataLoss},
      {"\"rope_theta\": 10000.0", "\"rope_theta\": 1.0, \"rope_parameters\": {\"rope_theta\": 2.0}",
       Code::kConflict},
  };
  for (const auto& c : cases) {
    const Error e = expect_error(
        c.code, [&] { parse_hf_config(replaced(test::kTinyConfig, c.from, c.to), "config.json"); });
    EXPECT_TRUE(contains(e.location, "config.json")) << c.to;
  }
}

TEST(HfDirectory, NamesTheTensorThatDoesNotFitTheConfiguration) {
  test::MemoryFs fs = tiny_directory();
  fs.files["m/config.json"] =
      replaced(test::kTinyConfig, "\"intermediate_size\": 32", "\"intermediate_size\": 33");
  Error e = expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); });
  EXPECT_EQ(e.key, "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(e.expected, "[33, 32]");
  EXPECT_TRUE(contains(e.message, "[32, 32]"));

  fs = tiny_directory();
  fs.files["m/config.json"] =
      replaced(test::kTinyConfig, "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4096");
  e = expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); });
  EXPECT_EQ(e.key, "model.layers.1.self_attn.q_proj.weight");

  fs = tiny_directory();
  fs.files["m/config.json"] =
      replaced(test::kTinyConfig, "\"tie_word_embeddings\": true", "\"mlp_bias\": false");
  e = expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); });
  EXPECT_EQ(e.key, "lm_head.weight");
}

// Adds a tensor of given bytes behind the last one.
std::string with_tensor(const std::string& name, const std::string& shape,
                        const std::string& data) {
  const std::string file = test::tiny_safetensors();
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  const uint64_t data_bytes = file.size() - 8 - length;
  std::string header = file.substr(8, length);
  header.pop_back();
  header += str(",\"", name, "\":{\"dtype\":\"F32\",\"shape\":", shape, ",\"data_offsets\":[",
                data_bytes, ",", data_bytes + data.size(), "]}}");
  return test::bytes_of(uint64_t{header.size()}) + header + file.substr(8 + length) + data;
}

TEST(HfDirectory, AcceptsAStoredTiedHeadOnlyWhenEqual) {
  test::MemoryFs fs = tiny_directory();
  const auto source = open_weight_source(fs, "m");
  std::vector<float> embedding(5 * 32);
  source->read(source->find("model.embed_tokens.weight"), 0, embedding);
  std::string data(reinterpret_cast<const char*>(embedding.data()), embedding.size() * 4);
  fs.files["m/model.safetensors"] = with_tensor("lm_head.weight", "[5,32]", data);
  EXPECT_EQ(open_weight_source(fs, "m")->find("lm_head.weight"), -1);
  data[17] = static_cast<char>(data[17] ^ 1);
  fs.files["m/model.safetensors"] = with_tensor("lm_head.weight", "[5,32]", data);
  EXPECT_EQ(expect_error(Code::kConflict, [&] { open_weight_source(fs, "m"); }).key,
            "lm_head.weight");
}

TEST(HfDirectory, PassesOverRotaryFrequenciesAndRefusesOtherExtras) {
  test::MemoryFs fs = tiny_directory();
  fs.files["m/model.safetensors"] =
      with_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "[2]", "12345678");
  EXPECT_EQ(open_weight_source(fs, "m")->find("model.layers.0.self_attn.rotary_emb.inv_freq"), -1);
  fs.files["m/model.safetensors"] =
      with_tensor("model.layers.1.self_attn.q_proj.weight", "[2]", "12345678");
  EXPECT_EQ(expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m"); }).key,
            "model.layers.1.self_attn.q_proj.weight");
}

TEST(HfDirectory, NamesAMissingWeightFile) {
  test::MemoryFs fs = tiny_directory();
  fs.files.erase("m/model.safetensors");
  const Error e = expect_error(Code::kNotFound, [&] { open_weight_source(fs, "m"); });
  EXPECT_TRUE(contains(e.expected, "model.safetensors.index.json"));
  expect_error(Code::kNotFound, [&] { open_weight_source(fs, "nowhere"); });
  fs.files["weights.bin"] = "x";
  expect_error(Code::kUnsupported, [&] { open_weight_source(fs, "weights.bin"); });
}

}  // namespace
}  // namespace rl

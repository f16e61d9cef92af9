// Opening Hugging Face directories: the fixtures in both spellings of config.json, and what is
// refused.
#include "model/hf_directory.h"

#include <gtest/gtest.h>

#include "core/fs.h"
#include "formats/memory_fs.h"
#include "formats/tiny_files.h"
#include "model/hf_config.h"
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
  EXPECT_EQ(a->chat_template(), "D");
  fs.files["m/chat_template.jinja"] = "J";
  EXPECT_EQ(open_weight_source(fs, "m")->chat_template(), "J");
}

TEST(HfDirectory, RefusesSettingsItDoesNotFollow) {
  const struct {
    const char* from;
    const char* to;
    const char* key;
  } cases[] = {
      {"\"llama\"", "\"mixtral\"", "model_type"},
      {"\"silu\"", "\"gelu\"", "hidden_act"},
      {"\"rope_theta\": 10000.0", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}",
       "rope_type"},
      {"\"rope_theta\": 10000.0", "\"rope_scaling\": {\"type\": \"yarn\"}", "type"},
      {"\"rope_theta\": 10000.0",
       "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 1.0}", "rope_type"},
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

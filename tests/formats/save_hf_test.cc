// Saving: what is written opens again with the same bits, and a failure at any point leaves nothing
// behind.
#include "formats/hf/save_hf.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/hf/hf_config.h"
#include "formats/hf/save_tokenizer.h"
#include "formats/memory_fs.h"
#include "formats/open/open_weight_source.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace rl {
namespace {

const std::string kFixtures = std::string(RL_FIXTURES);

std::string text_of(const std::string& path) {
  return read_text_file(real_fs(), path, uint64_t{1} << 30);
}

void save(FileSystem& fs, const std::string& dir, const WeightSource& source,
          const SaveOptions& options) {
  save_hf_directory(
      fs, dir, source.config(),
      [&](const TensorInfo& t, int64_t row, std::span<float> out) {
        source.read(source.find(t.name), row, out);
      },
      options);
}

void expect_same_weights(const WeightSource& a, const WeightSource& b, Dtype rounded) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    const TensorInfo& t = a.tensors()[i];
    ASSERT_EQ(t.name, b.tensors()[i].name);
    ASSERT_EQ(t.shape, b.tensors()[i].shape);
    std::vector<float> x(static_cast<size_t>(t.rows() * t.cols())), y(x.size());
    a.read(static_cast<int64_t>(i), 0, x);
    b.read(static_cast<int64_t>(i), 0, y);
    for (float& v : x) v = round_to(rounded, v);
    ASSERT_EQ(std::memcmp(x.data(), y.data(), x.size() * 4), 0) << t.name;
  }
}

TEST(SaveHf, WritesTheBytesOfTheFormatsOwnWriter) {
  for (const auto& [name, dtype] : {std::pair{"llama", Dtype::kF32},
                                    {"smollm2", Dtype::kF32},
                                    {"qwen2", Dtype::kF32},
                                    {"qwen3", Dtype::kF32},
                                    {"mistral", Dtype::kF32},
                                    {"gemma3", Dtype::kF32},
                                    {"llama_rope_linear", Dtype::kF32},
                                    {"llama_rope_llama3", Dtype::kF32},
                                    {"llama_rope_yarn", Dtype::kF32},
                                    {"llama_bf16", Dtype::kBf16}}) {
    const TempDir temp;
    const std::string from = kFixtures + "/models/" + name;
    const auto source = open_weight_source(real_fs(), from);
    save(real_fs(), temp.file("out"), *source, save_options_for(real_fs(), *source, dtype));
    EXPECT_TRUE(text_of(from + "/model.safetensors") == text_of(temp.file("out/model.safetensors")))
        << name;
    const auto again = open_weight_source(real_fs(), temp.file("out"));
    EXPECT_EQ(again->config(), source->config());
    expect_same_weights(*source, *again, Dtype::kF32);
  }
}

TEST(SaveHf, WritesTheKeysThatTransformersWrites) {
  for (const std::string name : {"llama", "qwen2", "qwen3", "mistral", "gemma3",
                                 "llama_rope_linear", "llama_rope_llama3", "llama_rope_yarn"}) {
    const std::string original = kFixtures + "/models/" + name;
    const auto source = open_weight_source(real_fs(), original);
    const auto want = nlohmann::json::parse(text_of(original + "/config.json"));
    const auto have = nlohmann::json::parse(render_hf_config(source->config(), Dtype::kF32));
    for (const auto& [key, value] : want.items()) {
      // transformers_version names a release; the others have no effect beside what is written.
      if (key == "transformers_version" || key == "pretraining_tp" || key == "max_window_layers" ||
          key == "_sliding_window_pattern")
        continue;
      ASSERT_TRUE(have.contains(key)) << key;
      EXPECT_EQ(have[key], value) << key;
    }
  }
}

TEST(SaveHf, RoundsToBf16) {
  const TempDir temp;
  const auto source = open_weight_source(real_fs(), kFixtures + "/models/qwen2");
  save(real_fs(), temp.file("out"), *source, save_options_for(real_fs(), *source, Dtype::kBf16));
  const auto again = open_weight_source(real_fs(), temp.file("out"));
  EXPECT_EQ(again->config().file_dtype, Dtype::kBf16);
  expect_same_weights(*source, *again, Dtype::kBf16);
  EXPECT_TRUE(contains(text_of(temp.file("out/config.json")), "\"bfloat16\""));
}

TEST(SaveHf, SavedGgufModelKeepsWeightsTokenizerAndIds) {
  const TempDir temp;
  const std::string gguf = kFixtures + "/gguf/tiny_llama_half.gguf";
  const auto source = open_weight_source(real_fs(), gguf);
  SaveOptions options = save_options_for(real_fs(), *source, Dtype::kF32);
  options.chat_templates = {{"default", "{{ messages }}"}, {"tool_use", "{{ tools }}"}};
  save(real_fs(), temp.file("out"), *source, options);
  const auto again = open_weight_source(real_fs(), temp.file("out"));
  expect_same_weights(*source, *again, Dtype::kF32);
  EXPECT_EQ(again->config(), source->config());
  ASSERT_EQ(again->chat_templates().size(), 2u);
  EXPECT_EQ(again->chat_templates()[0].text, "{{ messages }}");
  EXPECT_EQ(again->chat_templates()[1].name, "tool_use");
  EXPECT_EQ(again->chat_templates()[1].text, "{{ tools }}");
  EXPECT_EQ(again->tokenizer_json_path(), temp.file("out/tokenizer.json"));

  const Tokenizer a = Tokenizer::from_parts(*source->tokenizer_parts());
  const Tokenizer b = Tokenizer::from_directory(real_fs(), temp.file("out"));
  EXPECT_EQ(a.vocab_size(), b.vocab_size());
  EXPECT_EQ(a.bos_id(), b.bos_id());
  EXPECT_EQ(a.eos_id(), b.eos_id());
  const auto golden =
      nlohmann::json::parse(text_of(kFixtures + "/gguf/tiny_llama_half.golden.json"));
  for (const auto& c : golden["tokenizer"]) {
    const auto ids = b.encode(c["text"].get<std::string>(), {.allow_special = true}).ids;
    EXPECT_EQ(ids, c["ids"].get<std::vector<int32_t>>()) << c["text"];
  }
  // A directory saved from a directory carries the same tokenizer files.
  const auto options2 = save_options_for(real_fs(), *again, Dtype::kF32);
  save(real_fs(), temp.file("out2"), *again, options2);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "additional_chat_templates/tool_use.jinja", "config.json"}) {
    EXPECT_EQ(text_of(temp.file(str("out/", name))), text_of(temp.file(str("out2/", name))))
        << name;
  }
}

TEST(SaveHf, KeepsTheGenerationSettingsOfADirectory) {
  const TempDir temp;
  const auto write = [&](const std::string& text) {
    write_file_atomically(real_fs(), temp.file("out/generation_config.json"), text);
  };
  const std::string settings =
      "{\"eos_token_id\": [4], \"temperature\": 0.7, \"top_p\": 0.8, \"do_sample\": true}";
  const auto original = open_weight_source(real_fs(), kFixtures + "/models/llama");
  save(real_fs(), temp.file("out"), *original, save_options_for(real_fs(), *original, Dtype::kF32));
  EXPECT_TRUE(contains(text_of(temp.file("out/generation_config.json")), "\"eos_token_id\": 2"));
  write(settings);
  const auto source = open_weight_source(real_fs(), temp.file("out"));
  save(real_fs(), temp.file("out2"), *source, save_options_for(real_fs(), *source, Dtype::kF32));
  EXPECT_EQ(text_of(temp.file("out2/generation_config.json")), settings);
  EXPECT_EQ(open_weight_source(real_fs(), temp.file("out2"))->config(), source->config());
}

TokenizerParts small_parts() {
  TokenizerParts p;
  p.source = "f.gguf";
  p.pre = "smollm";
  p.tokens = {"a", "b", "<|x|>", "ab", "tool"};
  p.token_types = {1, 1, 3, 1, 4};
  p.merges = {"a b"};
  p.bos_id = 2;
  return p;
}

TEST(SaveHf, DescribesThePreTokenizerAndAddedTokens) {
  auto j = nlohmann::json::parse(render_tokenizer_json(small_parts()));
  EXPECT_EQ(j["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
  EXPECT_EQ(j["pre_tokenizer"]["pretokenizers"][1]["use_regex"], true);
  ASSERT_EQ(j["added_tokens"].size(), 2u);
  EXPECT_EQ(j["added_tokens"][0]["special"], true);
  EXPECT_EQ(j["added_tokens"][1]["special"], false);
  EXPECT_EQ(j["model"]["vocab"]["ab"], 3);
  EXPECT_EQ(j["model"]["merges"][0], (nlohmann::json{"a", "b"}));
  EXPECT_EQ(j["post_processor"]["type"], "ByteLevel");
  TokenizerParts llama3 = small_parts();
  llama3.pre = "llama-bpe";
  j = nlohmann::json::parse(render_tokenizer_json(llama3));
  EXPECT_EQ(j["model"]["ignore_merges"], true);
  EXPECT_EQ(j["post_processor"]["processors"][1]["special_tokens"]["<|x|>"]["ids"][0], 2);
  TokenizerParts qwen2 = small_parts();
  qwen2.pre = "qwen2";
  j = nlohmann::json::parse(render_tokenizer_json(qwen2));
  EXPECT_EQ(j["normalizer"]["type"], "NFC");
  EXPECT_TRUE(j["pre_tokenizer"]["pretokenizers"][0]["pattern"].contains("Regex"));
}

TEST(SaveHf, RefusesTokenizersItCannotWrite) {
  const auto change = [](Code code, const char* key, auto edit) {
    TokenizerParts p = small_parts();
    edit(p);
    EXPECT_EQ(expect_error(code, [&] { render_tokenizer_json(p); }).key, key);
  };
  change(Code::kUnsupported, "tokenizer.ggml.model", [](auto& p) { p.model = "llama"; });
  change(Code::kUnsupported, "tokenizer.ggml.pre", [](auto& p) { p.pre = "tekken"; });
  change(Code::kDataLoss, "tokenizer.ggml.tokens", [](auto& p) { p.tokens[1] = "a"; });
  change(Code::kDataLoss, "tokenizer.ggml.tokens", [](auto& p) { p.tokens[1] = "\xff"; });
  change(Code::kDataLoss, "tokenizer.ggml.tokens", [](auto& p) { p.tokens[2] = "\xff"; });
  change(Code::kDataLoss, "tokenizer.ggml.merges", [](auto& p) { p.merges[0] = "ab"; });
  change(Code::kDataLoss, "tokenizer.ggml.merges", [](auto& p) { p.merges[0] = ""; });
  change(Code::kOutOfRange, "tokenizer.ggml.bos_token_id",
         [](auto& p) { p.bos_id = 9, p.add_bos = true; });
  change(Code::kDataLoss, "tokenizer.ggml.bos_token_id",
         [](auto& p) { p.bos_id.reset(), p.add_bos = true; });
}

const auto fill_constant = [](const TensorInfo&, int64_t, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.5f);
};

TEST(SaveHf, RefusesAnExistingDirectoryUnlessToldToReplaceIt) {
  const TempDir temp;
  const std::string dir = temp.file("out");
  save_hf_directory(real_fs(), dir, test::tiny_config(), fill_constant, {});
  expect_error(Code::kAlreadyExists,
               [&] { save_hf_directory(real_fs(), dir, test::tiny_config(), fill_constant, {}); });
  SaveOptions options;
  options.dtype = Dtype::kBf16;
  options.replace_existing = true;
  save_hf_directory(real_fs(), dir + "/", test::tiny_config(), fill_constant, options);
  EXPECT_EQ(open_weight_source(real_fs(), dir)->config().file_dtype, Dtype::kBf16);
  EXPECT_EQ(real_fs().list(temp.path()), std::vector<std::string>{"out"});
}

TEST(SaveHf, RefusesValuesThatAreNotFinite) {
  const TempDir temp;
  const auto with = [&](float value, Dtype dtype) {
    SaveOptions options;
    options.dtype = dtype;
    const auto reader = [&](const TensorInfo& t, int64_t row, std::span<float> out) {
      fill_constant(t, row, out);
      if (t.name == "model.layers.0.mlp.up_proj.weight") out[32 * 3 + 1] = value;
    };
    save_hf_directory(real_fs(), temp.file("out"), test::tiny_config(), reader, options);
  };
  const float inf = std::numeric_limits<float>::infinity();
  for (float v : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    for (Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
      const Error e = expect_error(Code::kNonFinite, [&] { with(v, dtype); });
      EXPECT_EQ(e.key, "model.layers.0.mlp.up_proj.weight");
      EXPECT_TRUE(contains(e.message, "row 3"));
      EXPECT_TRUE(real_fs().list(temp.path()).empty());
    }
  }
  expect_error(Code::kNonFinite, [&] { with(std::numeric_limits<float>::max(), Dtype::kBf16); });
  with(std::numeric_limits<float>::max(), Dtype::kF32);
}

TEST(SaveHf, AFailureAtAnyOperationLeavesTheOldDirectoryOrTheNewOne) {
  const TempDir temp;
  const std::string dir = temp.file("out");
  SaveOptions options;
  options.replace_existing = true;
  save_hf_directory(real_fs(), dir, test::tiny_config(), fill_constant, options);
  FaultFs fs;
  fs.arm({});
  save_hf_directory(fs, dir, test::tiny_config(), fill_constant, options);
  const int64_t operations = fs.operations();
  ASSERT_GT(operations, 20);
  options.dtype = Dtype::kBf16;
  int64_t kept = 0, replaced = 0;
  for (int64_t n = 1; n <= operations; ++n) {
    fs.arm({.at = n});
    try {
      save_hf_directory(fs, dir, test::tiny_config(), fill_constant, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kIo) << e.message;
    }
    const Dtype now = open_weight_source(real_fs(), dir)->config().file_dtype;
    ++(now == Dtype::kF32 ? kept : replaced);
    EXPECT_FALSE(real_fs().exists(dir + ".partial"));
    SaveOptions reset;
    reset.replace_existing = true;
    save_hf_directory(real_fs(), dir, test::tiny_config(), fill_constant, reset);
    EXPECT_EQ(real_fs().list(temp.path()), std::vector<std::string>{"out"}) << n;
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(replaced, 0);
}

TEST(SaveHf, SavedRealModelKeepsEveryBit) {
  const char* path = std::getenv("RL_SMOLLM2_GGUF");
  if (path == nullptr)
    GTEST_SKIP() << "RL_SMOLLM2_GGUF does not name the SmolLM2-135M-Instruct.Q4_1.gguf file";
  const TempDir temp;
  const auto source = open_weight_source(real_fs(), path);
  save(real_fs(), temp.file("out"), *source, save_options_for(real_fs(), *source, Dtype::kF32));
  const auto again = open_weight_source(real_fs(), temp.file("out"));
  EXPECT_EQ(again->config(), source->config());
  ASSERT_EQ(again->chat_templates().size(), source->chat_templates().size());
  EXPECT_EQ(again->chat_templates()[0].text, source->chat_templates()[0].text);
  expect_same_weights(*source, *again, Dtype::kF32);
}

}  // namespace
}  // namespace rl

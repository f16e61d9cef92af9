// Decoders with a scalar head in files: what opens as one, what it lists, and that a saved one
// opens again.
#include "formats/open/scalar_head_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/hf/hf_config.h"
#include "formats/hf/save_hf.h"
#include "formats/memory_fs.h"
#include "formats/open/open_weight_source.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

const std::string kModels = std::string(RL_FIXTURES) + "/models/";

std::vector<float> tensor(const WeightSource& source, const std::string& name) {
  const int64_t index = source.find(name);
  EXPECT_GE(index, 0) << name;
  const TensorInfo& t = source.tensors()[static_cast<size_t>(index)];
  std::vector<float> out(static_cast<size_t>(t.rows() * t.cols()), -7.0f);
  source.read(index, 0, out);
  return out;
}

std::string config_text() {
  return read_text_file(real_fs(), kModels + "llama_value/config.json", kMaxConfigBytes);
}

TEST(ScalarHead, ClassificationOfOneLabelOpensWithItsHead) {
  const auto source = open_weight_source(real_fs(), kModels + "llama_value", ModelHead::kScalar);
  EXPECT_TRUE(source->config().scalar_head);
  EXPECT_FALSE(source->config().tied_head);
  EXPECT_EQ(source->tensors().back().name, "score.weight");
  EXPECT_EQ(source->tensors().back().shape, (std::vector<int64_t>{1, 32}));
  EXPECT_EQ(source->find("lm_head.weight"), -1);
  const std::vector<float> head = tensor(*source, "score.weight");
  EXPECT_NE(head, std::vector<float>(head.size(), 0.0f));
  const Error e = expect_error(Code::kUnsupported,
                               [] { open_weight_source(real_fs(), kModels + "llama_value"); });
  EXPECT_EQ(e.key, "architectures");
  EXPECT_TRUE(contains(e.message, "llama_value"));
}

TEST(ScalarHead, BothClassesAreReadAndSequenceClassificationIsWritten) {
  const ModelConfig token = parse_hf_config(config_text(), "config.json");
  std::string text = config_text();
  text.replace(text.find("ForToken"), 8, "ForSequence");
  EXPECT_EQ(parse_hf_config(text, "config.json"), token);
  const auto written = nlohmann::json::parse(render_hf_config(token, Dtype::kF32));
  EXPECT_EQ(written["architectures"], nlohmann::json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(written["id2label"].size(), 1u);
  EXPECT_EQ(parse_hf_config(written.dump(), "config.json"), token);
}

TEST(ScalarHead, ALanguageModelOpenedWithOneLosesItsHeadAndBeginsWithZero) {
  const std::string gguf = std::string(RL_FIXTURES) + "/gguf/tiny_llama_half.gguf";
  for (const std::string& path : {kModels + "llama", kModels + "gemma3", kModels + "qwen2", gguf}) {
    SCOPED_TRACE(path);
    const auto plain = open_weight_source(real_fs(), path);
    const auto source = open_weight_source(real_fs(), path, ModelHead::kScalar);
    EXPECT_EQ(source->config(), with_scalar_head(plain->config()));
    EXPECT_EQ(source->tensors().size(), plain->tensors().size() + plain->config().tied_head);
    const std::vector<float> head = tensor(*source, "score.weight");
    EXPECT_EQ(head, std::vector<float>(static_cast<size_t>(plain->config().hidden), 0.0f));
    for (const TensorInfo& t : plain->tensors()) {
      if (t.name == "lm_head.weight") {
        EXPECT_EQ(source->find(t.name), -1);
        continue;
      }
      const auto a = tensor(*plain, t.name), b = tensor(*source, t.name);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << t.name;
      EXPECT_EQ(source->tensors()[static_cast<size_t>(source->find(t.name))].stored_type,
                t.stored_type);
    }
  }
}

TEST(ScalarHead, ASavedOneOpensAgain) {
  for (const std::string name : {"llama_value", "gemma3", "smollm2"}) {
    SCOPED_TRACE(name);
    const TempDir temp;
    const auto source = open_weight_source(real_fs(), kModels + name, ModelHead::kScalar);
    save_hf_directory(
        real_fs(), temp.file("out"), source->config(),
        [&](const TensorInfo& t, int64_t row, std::span<float> out) {
          source->read(source->find(t.name), row, out);
        },
        save_options_for(real_fs(), *source, Dtype::kF32));
    const auto again = open_weight_source(real_fs(), temp.file("out"), ModelHead::kScalar);
    EXPECT_EQ(again->config(), source->config());
    for (const TensorInfo& t : source->tensors())
      EXPECT_EQ(tensor(*again, t.name), tensor(*source, t.name)) << t.name;
  }
}

TEST(ScalarHead, OtherHeadsAreRefusedByName) {
  const auto refused = [](const std::string& from, const std::string& to) {
    std::string text = config_text();
    text.replace(text.find(from), from.size(), to);
    return expect_error(Code::kUnsupported, [&] { parse_hf_config(text, "config.json"); });
  };
  EXPECT_EQ(refused("\"0\": \"LABEL_0\"", "\"0\": \"A\", \"1\": \"B\"").key, "id2label");
  EXPECT_EQ(refused("\"mlp_bias\": false", "\"num_labels\": 3").key, "num_labels");
  EXPECT_EQ(refused("LlamaForToken", "LlamaForQuestion").key, "architectures");
  EXPECT_EQ(refused("LlamaForToken", "Qwen2ForToken").key, "architectures");
}

TEST(ScalarHead, ABiasOfTheHeadIsRefusedByName) {
  test::MemoryFs fs;
  std::string weights =
      read_text_file(real_fs(), kModels + "llama_value/model.safetensors", uint64_t{1} << 30);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, weights.data(), 8);
  const std::string data = weights.substr(8 + header_bytes);
  auto header = nlohmann::json::parse(weights.substr(8, header_bytes));
  header["score.bias"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {data.size(), data.size() + 4}}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  header_bytes = text.size();
  std::string length(8, '\0');
  std::memcpy(length.data(), &header_bytes, 8);
  fs.files["m/config.json"] = config_text();
  fs.files["m/model.safetensors"] = length + text + data + std::string(4, '\0');
  const Error e =
      expect_error(Code::kUnsupported, [&] { open_weight_source(fs, "m", ModelHead::kScalar); });
  EXPECT_EQ(e.key, "score.bias");
}

TEST(ScalarHead, AScoreOfSeveralLabelsIsNamed) {
  test::MemoryFs fs;
  fs.files["m/config.json"] = config_text();
  std::string weights =
      read_text_file(real_fs(), kModels + "llama_value/model.safetensors", uint64_t{1} << 30);
  const size_t at = weights.find("\"score.weight\"");
  ASSERT_NE(at, std::string::npos);
  const size_t shape = weights.find("[1,32]", at);
  ASSERT_NE(shape, std::string::npos);
  weights.replace(shape, 6, "[2,16]");
  fs.files["m/model.safetensors"] = weights;
  const Error e =
      expect_error(Code::kDataLoss, [&] { open_weight_source(fs, "m", ModelHead::kScalar); });
  EXPECT_EQ(e.key, "score.weight");
}

}  // namespace
}  // namespace rl

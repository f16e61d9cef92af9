// GGUF files as models: names, row order, configuration and tokenizer, and the real SmolLM2 file
// when it is at hand.
#include "formats/gguf/gguf_source.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/fs.h"
#include "formats/gguf/gguf.h"
#include "formats/memory_fs.h"
#include "formats/open/open_weight_source.h"
#include "formats/tiny_files.h"
#include "support/expect_error.h"
#include "support/sha256.h"
#include "text/tokenizer.h"

namespace rl {
namespace {

const std::string kGguf = std::string(RL_FIXTURES) + "/gguf/";

nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(read_text_file(real_fs(), kGguf + name, uint64_t{1} << 24));
}

std::vector<float> whole(const WeightSource& source, const std::string& name) {
  const int64_t i = source.find(name);
  const TensorInfo& t = source.tensors().at(static_cast<size_t>(i));
  std::vector<float> out(static_cast<size_t>(t.rows() * t.cols()));
  source.read(i, 0, out);
  return out;
}

class GgufSourceGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufSourceGolden, GivesEveryTensorInHuggingFaceLayout) {
  const std::string name = GetParam();
  const auto source = open_weight_source(real_fs(), kGguf + name + ".gguf");
  const GgufFile file(real_fs(), kGguf + name + ".gguf");
  const auto want = golden(name + ".golden.json");
  EXPECT_EQ(source->tensors().size(), want["tensors"].size());
  for (const auto& [stored_name, t] : want["tensors"].items()) {
    const std::string hf_name = t["hf_name"];
    const std::vector<float> values = whole(*source, hf_name);
    EXPECT_EQ(test::sha256(std::as_bytes(std::span(values))), t["hf_layout_sha256"]) << hf_name;
    std::vector<float> stored(values.size());
    file.rows(file.find_tensor(stored_name)).read(0, stored);
    EXPECT_EQ(test::sha256(std::as_bytes(std::span(stored))), t["dequantised_sha256"]) << hf_name;
    const TensorInfo& info = source->tensors()[static_cast<size_t>(source->find(hf_name))];
    EXPECT_EQ(info.stored_type, t["type"]);
    EXPECT_EQ(info.shape, t["shape"].get<std::vector<int64_t>>());
  }
}

TEST_P(GgufSourceGolden, ItsTokenizerGivesTheGoldenIds) {
  const std::string name = GetParam();
  const auto source = open_weight_source(real_fs(), kGguf + name + ".gguf");
  const Tokenizer tokenizer = Tokenizer::from_parts(source->tokenizer_parts().value());
  const auto cases = golden(name + ".golden.json").at("tokenizer");
  EXPECT_GT(cases.size(), 5u);
  for (const auto& c : cases) {
    const auto text = c.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, {.allow_special = true}).ids,
              c.at("ids").get<std::vector<int32_t>>())
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufSourceGolden,
                         ::testing::Values("tiny_llama_half", "tiny_llama_mixed",
                                           "tiny_qwen2_mixed"),
                         [](const auto& info) { return std::string(info.param); });

TEST(GgufSource, GivesTheConfiguration) {
  const auto source = open_weight_source(real_fs(), kGguf + "tiny_llama_half.gguf");
  const ModelConfig& c = source->config();
  EXPECT_EQ(c.family, Family::kLlama);
  EXPECT_EQ(c.vocab, 289);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.ffn, 128);
  EXPECT_EQ(c.max_position, 64);
  EXPECT_EQ(c.rms_eps, 1e-5f);
  EXPECT_EQ(c.rope.theta, 1e4);
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(c.file_dtype, Dtype::kF32);
  EXPECT_EQ(c.eos_ids, std::vector<int32_t>{2});
}

TEST(GgufSource, ReadsAnyRowRangeOfAnInterleavedTensor) {
  const auto source = open_weight_source(real_fs(), kGguf + "tiny_llama_half.gguf");
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const std::vector<float> all = whole(*source, name);
  const auto compare = [&](int64_t first, int64_t rows) {
    std::vector<float> part(static_cast<size_t>(rows) * 256);
    source->read(source->find(name), first, part);
    EXPECT_EQ(std::memcmp(part.data(), all.data() + first * 256, part.size() * 4), 0)
        << first << " " << rows;
  };
  for (const auto& [first, rows] :
       {std::pair{0, 1}, {1, 1}, {17, 30}, {31, 2}, {96, 32}, {127, 1}, {5, 123}}) {
    compare(first, rows);
  }
}

TEST(GgufSource, GivesTokenizerParts) {
  const auto source = open_weight_source(real_fs(), kGguf + "tiny_llama_half.gguf");
  const auto parts = source->tokenizer_parts();
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->model, "gpt2");
  EXPECT_EQ(parts->pre, "gpt-2");
  EXPECT_EQ(parts->tokens.size(), 289u);
  EXPECT_EQ(parts->tokens[1], "<|im_start|>");
  EXPECT_EQ(parts->token_types.size(), 289u);
  EXPECT_EQ(parts->merges.size(), 30u);
  EXPECT_EQ(parts->merges[0], "t h");
  EXPECT_EQ(parts->bos_id, 1);
  EXPECT_EQ(parts->eos_id, 2);
  EXPECT_EQ(parts->pad_id, 0);
  EXPECT_EQ(parts->add_bos, false);
}

TEST(GgufSource, NamesATensorWithAFormatItCannotRead) {
  test::MemoryFs fs;
  std::string bytes = test::tiny_gguf();
  const size_t type = bytes.find("blk.0.ffn_up.weight") + 19 + 4 + 2 * 8;
  ASSERT_EQ(bytes.substr(type, 4), test::bytes_of(uint32_t{2}));
  bytes.replace(type, 4, test::bytes_of(uint32_t{20}));  // IQ4_NL has Q4_0's block size
  fs.files["t.gguf"] = bytes;
  const Error e = expect_error(Code::kUnsupported, [&] { open_weight_source(fs, "t.gguf"); });
  EXPECT_EQ(e.key, "blk.0.ffn_up.weight");
  EXPECT_TRUE(contains(e.message, "IQ4_NL")) << e.message;
}

TEST(GgufSource, ReadsQwen2WithBiasesInStoredOrder) {
  test::GgufBuilder b;
  b.add_text("general.architecture", "qwen2");
  for (const auto& [key, value] : {std::pair{"embedding_length", 4u},
                                   {"block_count", 1},
                                   {"feed_forward_length", 2},
                                   {"context_length", 8},
                                   {"attention.head_count", 1},
                                   {"attention.head_count_kv", 1}}) {
    b.add_u32(std::string("qwen2.") + key, value);
  }
  b.add_f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  const auto add = [&](const char* name, std::vector<uint64_t> dims) {
    std::string data;
    for (uint64_t i = 0; i < dims[0] * (dims.size() > 1 ? dims[1] : 1); ++i)
      data += test::bytes_of(static_cast<float>(i));
    b.add_tensor(name, std::move(dims), 0, data);
  };
  add("token_embd.weight", {4, 3});
  add("output.weight", {4, 3});
  add("output_norm.weight", {4});
  for (const char* part : {"q", "k", "v"}) {
    add(str("blk.0.attn_", part, ".weight").c_str(), {4, 4});
    add(str("blk.0.attn_", part, ".bias").c_str(), {4});
  }
  add("blk.0.attn_output.weight", {4, 4});
  add("blk.0.attn_norm.weight", {4});
  add("blk.0.ffn_norm.weight", {4});
  add("blk.0.ffn_gate.weight", {4, 2});
  add("blk.0.ffn_up.weight", {4, 2});
  add("blk.0.ffn_down.weight", {2, 4});
  test::MemoryFs fs;
  fs.files["q.gguf"] = b.build();
  const auto source = open_weight_source(fs, "q.gguf");
  EXPECT_TRUE(source->config().qkv_bias);
  EXPECT_FALSE(source->config().tied_head);
  EXPECT_EQ(source->config().rope.theta, 10000.0);
  EXPECT_FALSE(source->tokenizer_parts().has_value());
  EXPECT_EQ(whole(*source, "model.layers.0.self_attn.q_proj.bias"),
            (std::vector<float>{0, 1, 2, 3}));
  const auto q = whole(*source, "model.layers.0.self_attn.q_proj.weight");
  for (size_t i = 0; i < q.size(); ++i) EXPECT_EQ(q[i], static_cast<float>(i));
}

Error tiny_error(Code code, const std::function<void(test::GgufBuilder&)>& extra) {
  test::GgufBuilder b;
  test::add_tiny_metadata(b);
  extra(b);
  b.add_tensor("token_embd.weight", {32, 5}, 0, std::string(640, '\0'));
  test::MemoryFs fs;
  fs.files["t.gguf"] = b.build();
  const Error e = expect_error(code, [&] { open_weight_source(fs, "t.gguf"); });
  EXPECT_TRUE(contains(e.location, "t.gguf")) << e.message;
  return e;
}

TEST(GgufSource, RefusesSettingsItDoesNotFollow) {
  using Builder = test::GgufBuilder;
  EXPECT_EQ(tiny_error(Code::kDataLoss, [](Builder&) {}).key,
            "model.layers.0.self_attn.q_proj.weight");
  tiny_error(Code::kUnsupported,
             [](Builder& b) { b.add_text("llama.rope.scaling.type", "linear"); });
  tiny_error(Code::kUnsupported, [](Builder& b) { b.add_f32("llama.rope.scaling.factor", 2.0f); });
  tiny_error(Code::kUnsupported,
             [](Builder& b) { b.add_u32("llama.attention.sliding_window", 6); });
  tiny_error(Code::kUnsupported, [](Builder& b) { b.add_u32("llama.expert_count", 4); });
  tiny_error(Code::kUnsupported, [](Builder& b) { b.add_u32("llama.rope.dimension_count", 2); });
  tiny_error(Code::kUnsupported, [](Builder& b) { b.add_u32("llama.vocab_size", 6); });
  tiny_error(Code::kWrongType, [](Builder& b) { b.add_text("llama.vocab_size", "5"); });
  tiny_error(Code::kOutOfRange,
             [](Builder& b) { b.add_u32("tokenizer.ggml.padding_token_id", 5); });
  tiny_error(Code::kDataLoss,
             [](Builder& b) { b.add_tensor("blk.0.attn_q.bias", {8}, 0, std::string(32, 'x')); });
  test::MemoryFs fs;
  test::GgufBuilder b;
  b.add_text("general.architecture", "gemma3");
  fs.files["t.gguf"] = b.build();
  EXPECT_EQ(expect_error(Code::kUnsupported, [&] { open_weight_source(fs, "t.gguf"); }).key,
            "general.architecture");
}

class RealModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RL_SMOLLM2_GGUF");
    if (path == nullptr)
      GTEST_SKIP() << "RL_SMOLLM2_GGUF does not name the SmolLM2-135M-Instruct.Q4_1.gguf file";
    path_ = path;
  }
  std::string path_;
};

TEST_F(RealModel, RowsEqualTheGolden) {
  const GgufFile file(real_fs(), path_);
  const auto want = golden("smollm2_135m_q4_1.golden.json");
  for (const auto& r : want["dequantised_rows"]) {
    std::vector<float> row(r["n"].get<size_t>());
    const int64_t index = file.find_tensor(r["tensor"].get<std::string>());
    file.rows(index).read(r["row"].get<int64_t>(), row);
    EXPECT_EQ(test::sha256(std::as_bytes(std::span(row))), r["sha256"])
        << r["tensor"] << " " << r["row"];
  }
  const auto source = open_weight_source(real_fs(), path_);
  EXPECT_EQ(source->config().vocab, 49152);
  EXPECT_EQ(source->config().layers, 30);
  EXPECT_EQ(source->config().head_dim, 64);
  EXPECT_TRUE(source->config().tied_head);
  ASSERT_EQ(source->chat_templates().size(), 1u);
  EXPECT_EQ(source->chat_templates()[0].name, "default");
  // Stored row 2 j + h of a head is row 32 h + j: stored rows 0 and 288 = 64 * 4 + 32 are rows 0
  // and 64 * 4 + 16.
  std::vector<float> stored(576), have(576);
  for (const auto& [stored_row, row] : {std::pair{0, 0}, {288, 272}, {289, 304}, {575, 575}}) {
    file.rows(file.find_tensor("blk.0.attn_q.weight")).read(stored_row, stored);
    source->read(source->find("model.layers.0.self_attn.q_proj.weight"), row, have);
    EXPECT_EQ(stored, have) << row;
  }
}

TEST_F(RealModel, ReadsAllWeightsQuickly) {
  const auto source = open_weight_source(real_fs(), path_);
  std::vector<float> buffer(size_t{49152} * 576, 1.0f);
  const auto pass = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < source->tensors().size(); ++i) {
      const TensorInfo& t = source->tensors()[i];
      source->read(static_cast<int64_t>(i), 0,
                   std::span(buffer).first(static_cast<size_t>(t.rows() * t.cols())));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double best = pass();
  for (int i = 0; i < 4; ++i) best = std::min(best, pass());
  std::cout << "all weights read in " << best << " s on one thread\n";
  // It takes a few hundredths of a second; the limit leaves room for a busy machine and sanitizers.
  // sanitizers.
#ifdef RL_SANITIZED
  EXPECT_LT(best, 20.0);
#else
  EXPECT_LT(best, 2.0);
#endif
}

}  // namespace
}  // namespace rl

// GGUF metadata gives the ids of the tokenizer.json with the same content.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/mutate.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

TokenizerParts parts_of(const std::string& name, const std::string& pre) {
  const auto json = test::fixture_json(name + ".tokenizer.json");
  TokenizerParts parts;
  parts.source = name;
  parts.pre = pre;
  const auto place = [&](size_t id, const std::string& text, TokenType type) {
    if (id >= parts.tokens.size()) {
      parts.tokens.resize(id + 1);
      parts.token_types.resize(id + 1, static_cast<int32_t>(TokenType::kNormal));
    }
    parts.tokens[id] = text;
    parts.token_types[id] = static_cast<int32_t>(type);
  };
  for (const auto& [text, id] : json["model"]["vocab"].items()) {
    place(id.get<size_t>(), text, TokenType::kNormal);
  }
  for (const auto& token : json["added_tokens"]) {
    const bool special = token["special"].get<bool>();
    place(token["id"].get<size_t>(), token["content"].get<std::string>(),
          special ? TokenType::kControl : TokenType::kUserDefined);
  }
  for (const auto& merge : json["model"]["merges"]) {
    parts.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return parts;
}

struct Same {
  const char* name;
  const char* pre;
};
class SameAsJson : public testing::TestWithParam<Same> {};

TEST_P(SameAsJson, OnEveryGoldenText) {
  TokenizerParts parts = parts_of(GetParam().name, GetParam().pre);
  const bool adds_bos = std::string(GetParam().pre) == "llama-bpe";
  if (adds_bos) parts.bos_id = 804;
  const Tokenizer tokenizer = Tokenizer::from_parts(std::move(parts));
  size_t compared = 0;
  const auto golden = test::fixture_json(std::string(GetParam().name) + ".golden.json");
  for (const auto& item : golden.at("cases")) {
    const auto text = item.at("text").get<std::string>();
    // Flags of added tokens (strip, single word) are not part of GGUF.
    if (text.find("<mask>") != text.npos || text.find("wordlikes") != text.npos) continue;
    const auto ids = item.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode(text, {.allow_special = true}).ids, ids) << text;
    const auto with_special = item.value("ids_with_special", ids);
    EXPECT_EQ(tokenizer.encode(text, {.add_special = true, .allow_special = true}).ids,
              with_special);
    ++compared;
  }
  EXPECT_GE(compared, 290u);
}

INSTANTIATE_TEST_SUITE_P(Gguf, SameAsJson,
                         testing::Values(Same{"tiny_gpt2", "gpt-2"}, Same{"tiny_qwen2", "qwen2"},
                                         Same{"tiny_llama3_ignore_merges", "llama-bpe"}));

class BrokenParts : public testing::Test {
 protected:
  static void expect(const TokenizerParts& parts, Code code, const std::string& key) {
    try {
      Tokenizer::from_parts(parts);
      ADD_FAILURE() << "no error for " << key;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, code) << e.message;
      EXPECT_EQ(e.key, key) << e.message;
      EXPECT_TRUE(e.message.starts_with("tiny_gpt2")) << e.message;
    }
  }
  TokenizerParts parts_ = parts_of("tiny_gpt2", "gpt-2");
};

TEST_F(BrokenParts, UnknownModelOrPreTokenizer) {
  TokenizerParts parts = parts_;
  parts.model = "llama";
  expect(parts, Code::kUnsupported, "tokenizer.ggml.model");
  parts = parts_;
  parts.pre = "whatever";
  expect(parts, Code::kUnsupported, "tokenizer.ggml.pre");
}

TEST_F(BrokenParts, TypesThatDoNotFit) {
  TokenizerParts parts = parts_;
  parts.token_types.pop_back();
  expect(parts, Code::kDataLoss, "tokenizer.ggml.token_type");
  parts = parts_;
  parts.token_types[3] = 6;
  expect(parts, Code::kUnsupported, "tokenizer.ggml.token_type");
  parts.token_types[3] = INT32_MIN;
  expect(parts, Code::kUnsupported, "tokenizer.ggml.token_type");
}

TEST_F(BrokenParts, IdsOutsideTheVocabulary) {
  for (const int64_t id : {int64_t{-1}, int64_t{809}, INT64_MAX}) {
    TokenizerParts parts = parts_;
    parts.bos_id = id;
    expect(parts, Code::kDataLoss, "tokenizer.ggml.bos_token_id");
    parts = parts_;
    parts.eos_id = id;
    expect(parts, Code::kDataLoss, "tokenizer.ggml.eos_token_id");
    parts = parts_;
    parts.pad_id = id;
    expect(parts, Code::kDataLoss, "tokenizer.ggml.padding_token_id");
  }
}

TEST_F(BrokenParts, ABosThatIsNotNamed) {
  parts_.add_bos = true;
  expect(parts_, Code::kDataLoss, "tokenizer.ggml.bos_token_id");
}

TEST_F(BrokenParts, TokensAndMerges) {
  TokenizerParts parts = parts_;
  parts.tokens.clear();
  parts.token_types.clear();
  expect(parts, Code::kDataLoss, "");
  parts = parts_;
  parts.tokens[7] = parts.tokens[8];
  expect(parts, Code::kDataLoss, "");
  parts = parts_;
  parts.tokens[7] = "\xff";
  expect(parts, Code::kDataLoss, "");
  for (const char* merge : {"", "ab", "a b c", "q nothing"}) {
    parts = parts_;
    parts.merges[4] = merge;
    const bool well_formed = std::string(merge) == "q nothing";
    expect(parts, Code::kDataLoss, well_formed ? "" : "tokenizer.ggml.merges");
  }
}

TEST_F(BrokenParts, MutatedStringsLoadOrThrowError) {
  const int rounds = test::fuzz_rounds(300);
  for (int round = 0; round < rounds; ++round) {
    test::MutationRng rng(static_cast<uint64_t>(round));
    TokenizerParts parts = parts_;
    auto& list = rng.below(2) == 0 ? parts.tokens : parts.merges;
    auto& text = list[rng.below(list.size())];
    text = test::mutate(text, rng.next());
    try {
      Tokenizer::from_parts(std::move(parts)).encode("The <|endoftext|> 12");
    } catch (const Error& e) {
      EXPECT_NE(e.code, Code::kInternal) << "seed " << round << ": " << e.message;
    }
  }
}

}  // namespace
}  // namespace rl

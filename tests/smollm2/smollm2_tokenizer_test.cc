// The tokenizer inside the real SmolLM2 GGUF against the goldens of the tokenizers package.
#include <chrono>
#include <cstdlib>

#include "core/encoding/strict_json.h"
#include "formats/gguf/gguf_source.h"
#include "support/chat_goldens.h"
#include "support/tokenizer_goldens.h"
#include "text/chat_request.h"
#include "text/chat_template.h"

namespace rl {
namespace {

class SmolLm2Tokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RL_SMOLLM2_GGUF");
    if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF does not name the SmolLM2 GGUF file";
    const auto source = open_gguf_source(real_fs(), path);
    parts_ = source->tokenizer_parts();
    texts_ = source->chat_templates();
    ASSERT_TRUE(parts_.has_value());
    tokenizer_.emplace(Tokenizer::from_parts(*parts_));
    const std::string golden = std::string(RL_FIXTURES) + "/tokenizers/smollm2.golden.json";
    golden_ = parse_strict_json(read_text_file(real_fs(), golden, 1 << 26), golden, 1 << 26);
  }

  std::optional<TokenizerParts> parts_;
  std::vector<ChatTemplateText> texts_;
  std::optional<Tokenizer> tokenizer_;
  nlohmann::json golden_;
};

TEST_F(SmolLm2Tokenizer, EncodesAndDecodesEveryCase) {
  test::check_golden_cases(*tokenizer_, golden_);
}
TEST_F(SmolLm2Tokenizer, DecodesIdsThatAreNoEncoding) {
  test::check_golden_decodes(*tokenizer_, golden_);
}
TEST_F(SmolLm2Tokenizer, StreamsPieceByPiece) { test::check_golden_streams(*tokenizer_, golden_); }

TEST_F(SmolLm2Tokenizer, CountsTheByteThatHasNoToken) {
  const EncodeResult out = tokenizer_->encode(
      "a\x1d\x1d"
      "b");
  EXPECT_EQ(out.num_unmapped_bytes, 2u);
  EXPECT_EQ(tokenizer_->decode(out.ids, false), "ab");
}

TEST_F(SmolLm2Tokenizer, KnowsItsEndOfTurn) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_EQ(tokenizer_->eos_id(), tokenizer_->id_of("<|im_end|>"));
  EXPECT_TRUE(tokenizer_->is_special(*tokenizer_->eos_id()));
}

TEST_F(SmolLm2Tokenizer, TheFilesOwnTemplateRendersEveryGoldenCase) {
  const std::string path = std::string(RL_FIXTURES) + "/tokenizers/chat_templates.json";
  const auto golden = parse_ordered_json(read_text_file(real_fs(), path, 1 << 26), path, 1 << 26);
  EXPECT_EQ(test::check_chat_goldens(golden,
                                     [&](const std::string& name) {
                                       return name == "smollm2" ? texts_.at(0).text : std::string();
                                     }),
            20);
}

TEST_F(SmolLm2Tokenizer, ChatIdsEqualThoseOfTheRenderedText) {
  const std::vector<ChatMessage> chat = {{"user", "What is 3 + 4? Answer with the number only."},
                                         {"assistant", " 7\n"},
                                         {"user", "\tno\x1d"}};
  const ChatTemplates templates(texts_, "smollm2");
  const MarkedText text =
      templates.render(make_chat_request(chat), special_token_texts(*tokenizer_), true);
  const EncodeResult ids = encode_chat(*tokenizer_, text);
  EXPECT_EQ(ids.ids, tokenizer_->encode(text.bytes(), {.allow_special = true}).ids);
  EXPECT_EQ(ids.num_unmapped_bytes, 1u);
  EXPECT_EQ(find_turn_end(templates, *tokenizer_), tokenizer_->id_of("<|im_end|>"));
}

TEST_F(SmolLm2Tokenizer, IsBuiltQuickly) {
  // 60 ms is the aim on one core; loaded and sanitized runs take many times that, and a build that
  // is quadratic in the vocabulary would take minutes.
  const auto begin = std::chrono::steady_clock::now();
  const Tokenizer again = Tokenizer::from_parts(std::move(*parts_));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("build_ms", std::to_string(took.count()));
  EXPECT_LT(took.count(), 3000.0);
  EXPECT_EQ(again.vocab_size(), 49152);
}

}  // namespace
}  // namespace rl

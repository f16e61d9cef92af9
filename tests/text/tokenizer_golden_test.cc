// The tiny tokenizers against ids and texts of the tokenizers package, exactly.
#include "support/tokenizer_goldens.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer tokenizer_ = test::tiny_tokenizer(GetParam());
  nlohmann::json golden_ = test::fixture_json(std::string(GetParam()) + ".golden.json");
};

TEST_P(TokenizerGolden, EncodesAndDecodesEveryCase) {
  test::check_golden_cases(tokenizer_, golden_);
}
TEST_P(TokenizerGolden, DecodesIdsThatAreNoEncoding) {
  test::check_golden_decodes(tokenizer_, golden_);
}
TEST_P(TokenizerGolden, StreamsPieceByPiece) { test::check_golden_streams(tokenizer_, golden_); }

TEST_P(TokenizerGolden, HasTheVocabularySizeOfTheFile) {
  EXPECT_EQ(tokenizer_.vocab_size(), golden_.at("meta").at("vocab_size_with_added").get<int>());
}

INSTANTIATE_TEST_SUITE_P(Tiny, TokenizerGolden,
                         testing::Values("tiny_gpt2", "tiny_llama3", "tiny_llama3_ignore_merges",
                                         "tiny_qwen2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rl

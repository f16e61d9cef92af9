// Streaming: the joined pieces are the decoded text and no piece splits a code point.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "support/mutate.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

TEST(Detokenizer, JoinedPiecesAreTheDecodedTextOfAnyIds) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_qwen2");
  test::MutationRng rng(5);
  for (int round = 0; round < 3000; ++round) {
    const bool skip_special = rng.below(2) == 0;
    Detokenizer stream(tokenizer, skip_special);
    std::vector<int32_t> ids;
    std::string all;
    const size_t size = rng.below(20);
    for (size_t i = 0; i < size; ++i) {
      ids.push_back(static_cast<int32_t>(rng.below(static_cast<size_t>(tokenizer.vocab_size()))));
      const std::string piece = stream.feed(ids.back());
      ASSERT_EQ(find_broken_utf8(piece), std::nullopt);
      all += piece;
    }
    ASSERT_EQ(all + stream.finish(), tokenizer.decode(ids, skip_special));
  }
}

TEST(Detokenizer, BytesOfOneCharacterComeTogether) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_gpt2");
  const auto ids = tokenizer.encode("\xf0\x9f\x98\x80").ids;
  ASSERT_GT(ids.size(), 1u);
  Detokenizer stream(tokenizer, false);
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(stream.feed(ids[i]), "");
  EXPECT_EQ(stream.feed(ids.back()), "\xf0\x9f\x98\x80");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Detokenizer, FinishGivesTheBrokenRestAndStartsAnew) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_gpt2");
  const auto ids = tokenizer.encode("\xf0\x9f\x98\x80").ids;
  Detokenizer stream(tokenizer, false);
  EXPECT_EQ(stream.feed(ids.front()), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.feed(tokenizer.id_of("a").value()), "a");
}

TEST(Detokenizer, SpecialTokensAreLeftOutOnRequest) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_qwen2");
  const int32_t end = tokenizer.id_of("<|im_end|>").value();
  EXPECT_EQ(Detokenizer(tokenizer, true).feed(end), "");
  EXPECT_EQ(Detokenizer(tokenizer, false).feed(end), "<|im_end|>");
}

TEST(Detokenizer, AnIdWithoutATokenChangesNothing) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_gpt2");
  Detokenizer stream(tokenizer, false);
  const auto ids = tokenizer.encode("\xf0\x9f\x98\x80").ids;
  for (size_t i = 0; i + 1 < ids.size(); ++i) stream.feed(ids[i]);
  EXPECT_THROW(stream.feed(tokenizer.vocab_size()), Error);
  EXPECT_EQ(stream.feed(ids.back()), "\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace rl

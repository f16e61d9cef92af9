// The hand-written patterns against their regular expressions, run by PCRE2 through regex_splitter.
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "support/mutate.h"
#include "text/regex_splitter.h"

namespace rl {
namespace {

std::vector<std::string> words_of(const PreTokenizer& chain, const std::string& text) {
  std::vector<std::string> out;
  chain.split(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

PreTokenizer chain_of(std::shared_ptr<const Splitter> splitter) {
  PreTokenizer chain;
  chain.append(std::move(splitter));
  return chain;
}

std::vector<std::string> split(std::shared_ptr<const Splitter> splitter, const std::string& text) {
  return words_of(chain_of(std::move(splitter)), text);
}

using Words = std::vector<std::string>;

class KnownPatterns : public testing::TestWithParam<KnownPattern> {};

TEST_P(KnownPatterns, EqualTheirRegularExpression) {
  static constexpr const char* kPieces[] = {" ",
                                            " ",
                                            "\n",
                                            "\r",
                                            "\t",
                                            "'",
                                            "s",
                                            "LL",
                                            "re",
                                            "Ve",
                                            "d",
                                            "a",
                                            "B",
                                            "1",
                                            "23",
                                            "4567",
                                            "!",
                                            "--",
                                            "\xc2\xa0",
                                            "\xc3\xa9",
                                            "\xcc\x81",
                                            "\xc5\xbf",
                                            "\xe6\x97\xa5",
                                            "\xe2\x80\x83",
                                            "\xc2\xb2",
                                            "\xf0\x9f\x98\x80",
                                            "\xc2\x85",
                                            "\xe2\x85\xa0",
                                            "'t",
                                            "'M",
                                            "\xd9\xa3"};
  const auto by_hand = known_pattern_splitter(GetParam());
  const auto by_regex = regex_splitter(std::string(regex_of(GetParam())), "test");
  test::MutationRng rng(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const size_t size = 1 + rng.below(12);
    for (size_t i = 0; i < size; ++i) text += kPieces[rng.below(std::size(kPieces))];
    ASSERT_EQ(split(by_hand, text), split(by_regex, text)) << quote_text(text);
  }
}

TEST_P(KnownPatterns, AreFoundByTheirRegularExpression) {
  EXPECT_EQ(find_known_pattern(regex_of(GetParam())), GetParam());
}

TEST_P(KnownPatterns, TakeLinearTimeOnLongRuns) {
  // 8 MB each; a quadratic scan would take hours.
  for (const char* piece : {" ", "\n", "a", "1", "!", " a", "\n ", "'", "' ", "\xcc\x81"}) {
    std::string text;
    while (text.size() < 8'000'000) text += piece;
    size_t total = 0;
    chain_of(known_pattern_splitter(GetParam())).split(text, [&](std::string_view word) {
      total += word.size();
    });
    EXPECT_EQ(total, text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(All, KnownPatterns,
                         testing::Values(KnownPattern::kGpt2, KnownPattern::kLlama3,
                                         KnownPattern::kQwen2));

TEST(PreTokenizer, UnknownRegularExpressionsAreNotKnown) {
  EXPECT_EQ(find_known_pattern("\\s+"), std::nullopt);
}

TEST(PreTokenizer, DigitsAreCutOneByOneOrTogether) {
  EXPECT_EQ(split(digits_splitter(true), "a12 \xc2\xb2z"),
            (Words{"a", "1", "2", " ", "\xc2\xb2", "z"}));
  EXPECT_EQ(split(digits_splitter(false), "a12 \xc2\xb2z"),
            (Words{"a", "12", " ", "\xc2\xb2", "z"}));
}

TEST(PreTokenizer, AChainCutsEveryPieceOfTheStepBefore) {
  PreTokenizer chain;
  chain.append(digits_splitter(true));
  chain.append(known_pattern_splitter(KnownPattern::kGpt2));
  EXPECT_EQ(words_of(chain, "x 12"), (Words{"x", " ", "1", "2"}));
}

TEST(RegexSplitter, MatchesAndGapsArePieces) {
  EXPECT_EQ(split(regex_splitter("b+", "t"), "abbcb"), (Words{"a", "bb", "c", "b"}));
  EXPECT_EQ(split(literal_splitter(".", "t"), "a.b.."), (Words{"a", ".", "b", ".", "."}));
}

TEST(RegexSplitter, SpaceAndWordHaveTheirUnicodeMeaning) {
  EXPECT_EQ(split(regex_splitter("\\s", "t"),
                  "a\xc2\x85"
                  "b"),
            (Words{"a", "\xc2\x85", "b"}));
  EXPECT_EQ(split(regex_splitter("[^\\s]+", "t"), "a\xc2\x85"), (Words{"a", "\xc2\x85"}));
  EXPECT_EQ(split(regex_splitter("\\S+", "t"), "a\xc2\x85"), (Words{"a", "\xc2\x85"}));
  EXPECT_EQ(split(regex_splitter("\\w+", "t"), "e\xcc\x81 x_"), (Words{"e\xcc\x81", " ", "x_"}));
  EXPECT_EQ(split(regex_splitter("\\W+", "t"), "e\xcc\x81 x"), (Words{"e\xcc\x81", " ", "x"}));
}

TEST(RegexSplitter, RefusesWhatItWouldReadDifferently) {
  for (const char* pattern : {"a*", "", "\\bx", "\\h", "\\Kx", "[a&&b]", "[[:alpha:]]", "[\\S]",
                              "(x", "[]a]", "\\x41", "x\\", "(?<=a)", "\\p{Nonsense}", "\\C"}) {
    try {
      regex_splitter(pattern, "file: /p");
      ADD_FAILURE() << pattern;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kUnsupported) << pattern;
      EXPECT_EQ(e.location, "file: /p");
    }
  }
}

TEST(RegexSplitter, ARunawayMatchIsANamedError) {
  const auto splitter = regex_splitter("(a+)+b", "file: /p");
  try {
    splitter->piece_end(std::string(64, 'a') + "cb", 0);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kResourceExhausted);
  }
}

}  // namespace
}  // namespace rl

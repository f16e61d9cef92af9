// UTF-8 and Unicode helpers against utf8proc, the standard's own examples and exhaustive loops.
#include "core/encoding/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>

#include "support/mutate.h"

namespace rl {
namespace {

std::string reference_nfc(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string result(reinterpret_cast<char*>(out), static_cast<size_t>(size));
  std::free(out);
  return result;
}

TEST(Unicode, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(utf8_sequence_length(text, 0), text.size()) << static_cast<uint32_t>(c);
    ASSERT_EQ(decode_utf8(text, 0, text.size()), c);
  }
}

TEST(Unicode, BrokenSequencesAreFound) {
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xff"}) {
    EXPECT_EQ(find_broken_utf8(text), 0u);
    EXPECT_EQ(find_broken_utf8(std::string("\xc3\xa9z") + text), 3u);
  }
  EXPECT_EQ(find_broken_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), std::nullopt);
}

TEST(Unicode, EveryMaximalBrokenPartBecomesOneReplacement) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(replace_broken_utf8("\xe2\x82"), r);
  EXPECT_EQ(replace_broken_utf8("\xf0\x9f\x98"), r);
  EXPECT_EQ(replace_broken_utf8("\xf0\x9f\x98"
                                "a"),
            r + "a");
  EXPECT_EQ(replace_broken_utf8("\xed\xa0\x80"), r + r + r);
  EXPECT_EQ(replace_broken_utf8("\xe2\x82\xe2\x82\xac"), r + "\xe2\x82\xac");
  EXPECT_EQ(replace_broken_utf8("a\xf1\x80\x80\xe1\x80\xc2"
                                "b\x80"
                                "c\x80\xbf"
                                "d"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(Unicode, ReplacedTextIsWellFormedWhateverTheBytes) {
  test::MutationRng rng(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    const size_t size = rng.below(9);
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(0x70 + rng.below(0x90));
    ASSERT_EQ(find_broken_utf8(replace_broken_utf8(bytes)), std::nullopt);
  }
}

TEST(Unicode, ClassesFollowTheGeneralCategory) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    const char* category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    const CharClass cls = classify(c);
    ASSERT_EQ(cls == CharClass::kLetter, category[0] == 'L') << static_cast<uint32_t>(c);
    ASSERT_EQ(cls == CharClass::kNumber, category[0] == 'N') << static_cast<uint32_t>(c);
    const bool control_space = (c >= 9 && c <= 13) || c == 0x85;
    const bool space = cls == CharClass::kSpace || cls == CharClass::kNewline;
    ASSERT_EQ(space, category[0] == 'Z' || control_space) << static_cast<uint32_t>(c);
    ASSERT_EQ(cls == CharClass::kNewline, c == '\r' || c == '\n');
  }
}

TEST(Unicode, WordCharacters) {
  for (const char32_t c : {U'a', U'Z', U'0', U'_', U'\u00e9', U'\u0301', U'\u203f', U'\u200d',
                           U'\u2160', U'\u24b6', U'\u65e5', U'\u0663'}) {
    EXPECT_TRUE(is_word_character(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U' ', U'-', U'.', U'\u00b2', U'\u20ac', U'\u2028', U'\U0001f600'}) {
    EXPECT_FALSE(is_word_character(c)) << static_cast<uint32_t>(c);
  }
}

TEST(Unicode, NfcEqualsUtf8procOnRandomText) {
  // Letters with decompositions, marks of several classes, Hangul jamo and syllables, exclusions.
  static constexpr char32_t kPoints[] = {
      U'a',      U'e',      U'o',      U'\u00e9', U'\u0301', U'\u0316', U'\u0327',    U'\u0345',
      U'\u0302', U'\u1ea4', U'\u1100', U'\u1161', U'\u11a8', U'\uac00', U'\u0958',    U'\u0344',
      U'\u2126', U'\u212b', U'\u0f73', U'\u3099', U'\u304b', U' ',      U'\U0001d15e'};
  test::MutationRng rng(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const size_t size = 1 + rng.below(8);
    for (size_t i = 0; i < size; ++i) append_utf8(text, kPoints[rng.below(std::size(kPoints))]);
    ASSERT_EQ(to_nfc(text), reference_nfc(text)) << text;
  }
}

TEST(Unicode, NfcEqualsUtf8procOnEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(to_nfc(text), reference_nfc(text)) << static_cast<uint32_t>(c);
  }
}

TEST(Unicode, NfcOfALongRunOfMarksIsNotQuadratic) {
  // Sorting by adjacent swaps would need 10^11 steps here.
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) append_utf8(text, i % 2 == 0 ? U'\u0315' : U'\u0316');
  EXPECT_EQ(to_nfc(text).size(), text.size());
}

TEST(Unicode, QuotedTextIsShortAndPrintable) {
  EXPECT_EQ(quote_text("a\nb\x7f\xff"), "\"a?b?\xef\xbf\xbd\"");
  EXPECT_LT(quote_text(std::string(1000, 'x')).size(), 90u);
  std::string euros;
  for (int i = 0; i < 100; ++i) euros += "\xe2\x82\xac";
  EXPECT_EQ(find_broken_utf8(quote_text(euros)), std::nullopt);
  EXPECT_EQ(quote_text(euros).find("\xef\xbf\xbd"), std::string::npos);
}

}  // namespace
}  // namespace rl

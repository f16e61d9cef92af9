#include "rollout/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace rl {
namespace {

using Strings = std::vector<std::string>;

// Number of pieces fed until a match, or -1.
int pieces_until_match(const Strings& pieces, const Strings& stops) {
  StopMatcher matcher;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (matcher.feed(pieces[i], stops)) return static_cast<int>(i) + 1;
  }
  return -1;
}

TEST(StopMatcher, FindsAStringInsideOneTokenAndAcrossSeveral) {
  EXPECT_EQ(pieces_until_match({"x</s>y"}, {"</s>"}), 1);
  EXPECT_EQ(pieces_until_match({"a", "<", "/", "s", ">", "b"}, {"</s>"}), 5);
  EXPECT_EQ(pieces_until_match({"<<", "/s", ">>"}, {"</s>"}), 3);
  EXPECT_EQ(pieces_until_match({"</", "x", "s>"}, {"</s>"}), -1);
}

TEST(StopMatcher, FindsACharacterWhoseBytesAreTokens) {
  EXPECT_EQ(pieces_until_match({"\xe2", "\x82", "\xac"}, {"\xe2\x82\xac"}), 3);
}

TEST(StopMatcher, TheEarliestOfSeveralStringsWins) {
  EXPECT_EQ(pieces_until_match({"a", "b", "c", "d"}, {"abcd", "bc"}), 3);
}

TEST(StopMatcher, NoStringContinuesAcrossAnInterruption) {
  StopMatcher matcher;
  const Strings stops = {"ab"};
  EXPECT_FALSE(matcher.feed("a", stops));
  matcher.interrupt();
  EXPECT_FALSE(matcher.feed("b", stops));
  EXPECT_TRUE(matcher.feed("ab", stops));
}

TEST(StopMatcher, AfterAMatchOnlyNewOnesCount) {
  StopMatcher matcher;
  const Strings stops = {"ab", "abcdef"};
  EXPECT_TRUE(matcher.feed("ab", stops));
  EXPECT_FALSE(matcher.feed("c", stops));
  EXPECT_TRUE(matcher.feed("def", stops));
  EXPECT_FALSE(matcher.feed("a", stops));
  EXPECT_TRUE(matcher.feed("b", stops));
}

TEST(StopMatcher, AgreesWithASearchOfTheWholeText) {
  std::mt19937 rng(11);
  const auto text_of = [&rng](size_t length) {
    std::string s;
    for (size_t i = 0; i < length; ++i) s.push_back(static_cast<char>('a' + rng() % 2));
    return s;
  };
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    Strings stops, pieces;
    for (size_t i = 0; i < 1 + rng() % 3; ++i) stops.push_back(text_of(1 + rng() % 12));
    // Every other round has tokens that are longer than the strings.
    const unsigned limit = round % 2 == 0 ? 4 : 20;
    for (size_t i = 0; i < 12; ++i) pieces.push_back(text_of(rng() % limit));
    std::string whole;
    int expected = -1;
    for (size_t i = 0; i < pieces.size() && expected < 0; ++i) {
      whole += pieces[i];
      for (const auto& stop : stops) {
        if (whole.find(stop) != std::string::npos) expected = static_cast<int>(i) + 1;
      }
    }
    found += expected > 0 ? 1 : 0;
    ASSERT_EQ(pieces_until_match(pieces, stops), expected) << "round " << round;
  }
  EXPECT_GT(found, 200);
}

}  // namespace
}  // namespace rl

// BPE against a plain restatement of its rule, on the merges of a tiny tokenizer.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "support/mutate.h"
#include "text/byte_level.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

class BpeRule : public testing::Test {
 protected:
  BpeRule()
      : spec_(read_tokenizer_json(test::fixture_text("tiny_gpt2.tokenizer.json"), "tiny")),
        vocabulary_(spec_.tokens, "tiny"),
        bpe_(vocabulary_, spec_) {
    for (size_t rank = 0; rank < spec_.merges.size(); ++rank) ranks_[spec_.merges[rank]] = rank;
  }

  // Applies the merge of lowest rank, leftmost first, one at a time.
  std::vector<int32_t> reference(const std::string& word) const {
    std::vector<std::string> parts;
    for (const char c : word) parts.push_back(spell_bytes({&c, 1}));
    for (;;) {
      size_t best = SIZE_MAX;
      size_t best_rank = SIZE_MAX;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto at = ranks_.find({parts[i], parts[i + 1]});
        if (at != ranks_.end() && at->second < best_rank) {
          best = i;
          best_rank = at->second;
        }
      }
      if (best == SIZE_MAX) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<int32_t> ids;
    for (const auto& part : parts) ids.push_back(vocabulary_.find(part).value());
    return ids;
  }

  std::vector<int32_t> encode(const std::string& word) const {
    BpeScratch scratch;
    std::vector<int32_t> ids;
    EXPECT_EQ(bpe_.encode(word, scratch, ids), 0u);
    return ids;
  }

  TokenizerSpec spec_;
  Vocabulary vocabulary_;
  Bpe bpe_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

TEST_F(BpeRule, HoldsForShortAndLongWords) {
  static constexpr std::string_view kLetters = " etaoinshrdlu";
  test::MutationRng rng(3);
  for (const size_t max : {8u, 40u, 200u}) {
    for (int round = 0; round < 300; ++round) {
      std::string word;
      const size_t size = 1 + rng.below(max);
      for (size_t i = 0; i < size; ++i) word += kLetters[rng.below(kLetters.size())];
      ASSERT_EQ(encode(word), reference(word)) << word;
    }
  }
}

TEST_F(BpeRule, HoldsForRunsOfOneLetter) {
  for (size_t size = 1; size < 100; ++size) {
    const std::string word(size, ' ');
    ASSERT_EQ(encode(word), reference(word)) << size;
  }
}

TEST_F(BpeRule, AVeryLongWordIsNotQuadratic) {
  // A linear scan for each merge would need 10^12 steps.
  std::string word;
  while (word.size() < 2'000'000) word += "interest ";
  const std::vector<int32_t> ids = encode(word);
  size_t total = 0;
  for (const int32_t id : ids) total += vocabulary_.bytes(id).size();
  EXPECT_EQ(total, word.size());
}

TEST_F(BpeRule, MergesOfUnknownTokensAreErrors) {
  for (const auto& [left, right, part] :
       {std::tuple{"\xe6\x97\xa5", "e", "left"}, std::tuple{"e", "\xe6\x97\xa5", "right"},
        std::tuple{"z", "q", "result"}}) {
    TokenizerSpec broken = spec_;
    broken.merges.emplace_back(left, right);
    try {
      Bpe bpe(vocabulary_, broken);
      ADD_FAILURE() << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kDataLoss);
      EXPECT_EQ(e.location, str("tiny: merge ", spec_.merges.size()));
      EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
    }
  }
}

TEST_F(BpeRule, AMergeGivenTwiceIsAnError) {
  TokenizerSpec broken = spec_;
  broken.merges.push_back(spec_.merges[5]);
  EXPECT_THROW(Bpe(vocabulary_, broken), Error);
}

TEST(ByteLevel, SpellingIsABijection) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(unspell_bytes(spell_bytes(all)), all);
  EXPECT_EQ(spell_bytes(" \n!\xff"), "\xc4\xa0\xc4\x8a!\xc3\xbf");
  EXPECT_EQ(unspell_bytes("a b"), std::nullopt);
  EXPECT_EQ(unspell_bytes("\xe6\x97\xa5"), std::nullopt);
  EXPECT_EQ(unspell_bytes("\xff"), std::nullopt);
}

}  // namespace
}  // namespace rl

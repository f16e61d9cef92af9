// Behaviour of Tokenizer that the goldens do not fix: bytes without a token, special tokens in user
// text, broken input, ids without a token, directories, threads.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/error.h"
#include "text/small_tokenizer.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

using Json = nlohmann::json;

Tokenizer load(const Json& json) { return Tokenizer::from_json_text(json.dump(), "t.json"); }

Code code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.code;
  }
  return Code::kOk;
}

TEST(Tokenizer, CountsBytesWithoutAToken) {
  const Tokenizer tokenizer = load(test::small_tokenizer());
  const EncodeResult out = tokenizer.encode("azb\xe6\x97\xa5");
  EXPECT_EQ(out.num_unmapped_bytes, 4u);
  EXPECT_EQ(tokenizer.decode(out.ids, false), "ab");
  EXPECT_EQ(tokenizer.encode("ab").num_unmapped_bytes, 0u);
}

TEST(Tokenizer, AnUnknownTokenStandsForEachByteWithoutOne) {
  Json json = test::small_tokenizer();
  json["model"]["unk_token"] = "h";
  const Tokenizer tokenizer = load(json);
  const EncodeResult out = tokenizer.encode("azz");
  EXPECT_EQ(out.num_unmapped_bytes, 2u);
  EXPECT_EQ(tokenizer.decode(out.ids, false), "ahh");
}

TEST(Tokenizer, SpecialTokensInTextStayTextUnlessAllowed) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_qwen2");
  const int32_t end = tokenizer.id_of("<|im_end|>").value();
  const int32_t tool = tokenizer.id_of("<tool_call>").value();
  const std::string text = "a<|im_end|><tool_call>";
  const auto plain = tokenizer.encode(text).ids;
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), tool), 1);
  EXPECT_EQ(tokenizer.decode(plain, true), text);
  const auto parsed = tokenizer.encode(text, {.allow_special = true}).ids;
  EXPECT_EQ(std::count(parsed.begin(), parsed.end(), end), 1);
  EXPECT_EQ(tokenizer.decode(parsed, true), "a<tool_call>");
  EXPECT_TRUE(tokenizer.is_special(end));
  EXPECT_FALSE(tokenizer.is_special(tool));
}

TEST(Tokenizer, TheLongestAddedTokenWins) {
  Json json = test::small_tokenizer();
  json["added_tokens"].push_back(test::added_token(43, "<tool>a", false));
  json["added_tokens"].push_back(test::added_token(44, "<tool>abcdX", false));
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.encode("<tool>a<tool>abcdY").ids.at(0), 43);
  EXPECT_EQ(tokenizer.encode("<tool>abcdX").ids, (std::vector<int32_t>{44}));
  EXPECT_EQ(tokenizer.encode("<tool><tool>").ids, (std::vector<int32_t>{42, 42}));
}

TEST(Tokenizer, AddedTokensTakeWhiteSpaceWhenTheySaySo) {
  Json json = test::small_tokenizer();
  json["added_tokens"][2]["lstrip"] = true;
  json["added_tokens"][2]["rstrip"] = true;
  const Tokenizer tokenizer = load(json);
  const int32_t a = tokenizer.id_of("a").value();
  EXPECT_EQ(tokenizer.encode("a \n<tool>\xe2\x80\x83 a").ids, (std::vector<int32_t>{a, 42, a}));
  EXPECT_EQ(tokenizer.encode("<tool>  <tool>").ids, (std::vector<int32_t>{42, 42}));
  EXPECT_TRUE(tokenizer.depends_on_context(42));
  EXPECT_FALSE(tokenizer.depends_on_context(40));
}

TEST(Tokenizer, AWordOfItsOwnHasNoWordCharacterBesideIt) {
  Json json = test::small_tokenizer();
  json["added_tokens"][2]["single_word"] = true;
  const Tokenizer tokenizer = load(json);
  const auto count = [&](std::string_view text) {
    const std::vector<int32_t> ids = tokenizer.encode(text).ids;
    return std::ranges::count(ids, 42);
  };
  EXPECT_EQ(count("<tool>"), 1);
  EXPECT_EQ(count("a <tool> a"), 1);
  EXPECT_EQ(count("a<tool>"), 0);
  EXPECT_EQ(count("<tool>a"), 0);
}

// Their offsets are those of the text before it was composed.
TEST(Tokenizer, MarksOfATextThatIsComposedCutNoSpecialToken) {
  Json json = test::small_tokenizer();
  json["added_tokens"][2]["normalized"] = json["added_tokens"][2]["special"] = true;
  const Tokenizer tokenizer = load(json);
  const auto count = [&](const std::string& text, bool marked) {
    const std::string none(text.size(), '\0');
    EncodeOptions options{.allow_special = true};
    if (marked) options.literal = none;
    const std::vector<int32_t> ids = tokenizer.encode(text, options).ids;
    return std::ranges::count(ids, 42);
  };
  for (const bool marked : {false, true}) {
    EXPECT_EQ(count("\xc3\xa9<tool>", marked), 1);
    EXPECT_EQ(count("e\xcc\x81<tool>", marked), marked ? 0 : 1);
  }
}

TEST(Tokenizer, AddedTokensDecodeAsTheirText) {
  Json json = test::small_tokenizer();
  json["added_tokens"].push_back(test::added_token(43, "\xc3\xa9 \xe6\x97\xa5", false));
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.token_bytes(43), "\xc3\xa9 \xe6\x97\xa5");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{43}, false), "\xc3\xa9 \xe6\x97\xa5");
}

TEST(Tokenizer, PrefixSpaceGoesBeforeEveryPiece) {
  Json json = test::small_tokenizer();
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<tool>b<tool> c").ids, false),
            " a<tool> b<tool> c");
}

TEST(Tokenizer, TextThatIsNotUtf8IsAnErrorWithItsOffset) {
  const Tokenizer tokenizer = load(test::small_tokenizer());
  try {
    tokenizer.encode("ab\xff");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kInvalidArgument);
    EXPECT_EQ(e.location, "byte 2");
  }
}

TEST(Tokenizer, IdsWithoutATokenAreErrors) {
  const Tokenizer tokenizer = load(test::small_tokenizer());
  for (const int32_t id : {-1, 39, 43, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer.has_token(id));
    EXPECT_EQ(code_of([&] { tokenizer.decode(std::vector{id}, true); }), Code::kOutOfRange);
    EXPECT_EQ(code_of([&] { tokenizer.token_bytes(id); }), Code::kOutOfRange);
    EXPECT_EQ(code_of([&] { tokenizer.is_special(id); }), Code::kOutOfRange);
  }
}

TEST(Tokenizer, ADirectoryNamesItsSpecialTokens) {
  const auto dir = std::filesystem::path(testing::TempDir()) / "librl_tokenizer_directory";
  std::filesystem::create_directories(dir);
  const std::string base = dir.string();
  write_file_atomically(real_fs(), base + "/tokenizer.json", test::small_tokenizer().dump());
  EXPECT_EQ(Tokenizer::from_directory(real_fs(), base).eos_id(), std::nullopt);
  const std::string config = base + "/tokenizer_config.json";
  write_file_atomically(
      real_fs(), config,
      R"({"bos_token": null, "eos_token": {"content": "</s>"}, "pad_token": "h"})");
  const Tokenizer tokenizer = Tokenizer::from_directory(real_fs(), base);
  EXPECT_EQ(tokenizer.bos_id(), 40);
  EXPECT_EQ(tokenizer.eos_id(), 41);
  EXPECT_EQ(tokenizer.pad_id(), tokenizer.id_of("h"));
  write_file_atomically(real_fs(), config, R"({"eos_token": "<nope>"})");
  EXPECT_EQ(code_of([&] { Tokenizer::from_directory(real_fs(), base); }), Code::kDataLoss);
  std::filesystem::remove_all(dir);
}

TEST(Tokenizer, AMissingFileIsNotFound) {
  EXPECT_EQ(code_of([] { Tokenizer::from_json(real_fs(), "/nonexistent/tokenizer.json"); }),
            Code::kNotFound);
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_llama3");
  const std::string text = "The quick brown fox, 12345 <mask> jumps\n\n  over \xe6\x97\xa5.";
  const auto expected = tokenizer.encode(text).ids;
  std::vector<std::thread> threads;
  std::array<bool, 4> equal{};
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t, mine = tokenizer] {
      bool all = true;
      for (int i = 0; i < 200; ++i) {
        const auto ids = mine.encode(text).ids;
        all = all && ids == expected && !mine.decode(ids, false).empty();
      }
      equal[t] = all;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const bool e : equal) EXPECT_TRUE(e);
}

TEST(Tokenizer, AdversarialTextsTakeNearLinearTime) {
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_qwen2");
  for (const char* piece : {"a", " ", "<", "<mask", "<mask>", " <mask>", "<|im_", "\xcc\x81",
                            "wordlikes", "the", "\n "}) {
    std::string text;
    while (text.size() < 1'000'000) text += piece;
    const EncodeResult out = tokenizer.encode(text, {.allow_special = true});
    EXPECT_EQ(out.num_unmapped_bytes, 0u);
    EXPECT_FALSE(out.ids.empty());
  }
}

}  // namespace
}  // namespace rl

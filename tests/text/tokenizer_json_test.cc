// What tokenizer.json files are refused, with which code, and where the error points.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/mutate.h"
#include "text/detokenizer.h"
#include "text/small_tokenizer.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

using Json = nlohmann::json;

Tokenizer load(const Json& json) { return Tokenizer::from_json_text(json.dump(), "t.json"); }

struct Refusal {
  const char* pointer;  // member that is replaced, or added
  const char* value;
  Code code;
  const char* named;  // part of the message
};

class RefusedFiles : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedFiles, NameThePlaceAndTheReason) {
  Json json = test::small_tokenizer();
  json[Json::json_pointer(GetParam().pointer)] = Json::parse(GetParam().value);
  try {
    load(json);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, GetParam().code) << e.message;
    EXPECT_NE(e.message.find(GetParam().named), std::string::npos) << e.message;
    EXPECT_TRUE(e.message.starts_with("t.json")) << e.message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Json, RefusedFiles,
    testing::Values(
        Refusal{"/model/type", R"("WordPiece")", Code::kUnsupported, "/model"},
        Refusal{"/model/type", "5", Code::kDataLoss, "/model/type"},
        Refusal{"/model", "null", Code::kDataLoss, "/model"},
        Refusal{"/model/vocab", "{}", Code::kDataLoss, ""},
        Refusal{"/model/vocab", "[]", Code::kDataLoss, "/model/vocab"},
        Refusal{"/model/vocab/a", "-1", Code::kDataLoss, "\"a\""},
        Refusal{"/model/vocab/a", "1.5", Code::kDataLoss, "\"a\""},
        Refusal{"/model/vocab/a", "1", Code::kDataLoss, "id 1 belongs to both"},
        Refusal{"/model/vocab/a", "4000000", Code::kResourceExhausted, "4000000"},
        Refusal{"/model/vocab/a", "3999999", Code::kDataLoss, "largest id"},
        Refusal{"/model/merges/1", R"("ab zz")", Code::kDataLoss, "merge 1"},
        Refusal{"/model/merges/1", R"("a b")", Code::kDataLoss, "merges 0 and 1"},
        Refusal{"/model/merges/1", R"("ab")", Code::kDataLoss, "/model/merges/1"},
        Refusal{"/model/merges/1", R"(["ab"])", Code::kDataLoss, "/model/merges/1"},
        Refusal{"/model/merges/1", R"(["ab", 3])", Code::kDataLoss, "/model/merges/1"},
        Refusal{"/model/merges", "7", Code::kDataLoss, "/model/merges"},
        Refusal{"/model/dropout", "0.1", Code::kUnsupported, "dropout"},
        Refusal{"/model/byte_fallback", "true", Code::kUnsupported, "byte_fallback"},
        Refusal{"/model/continuing_subword_prefix", R"("##")", Code::kUnsupported, "prefix"},
        Refusal{"/model/unk_token", R"("nope")", Code::kDataLoss, "nope"},
        Refusal{"/model/ignore_merges", "1", Code::kDataLoss, "ignore_merges"},
        Refusal{"/normalizer/type", R"("NFKC")", Code::kUnsupported, "NFKC"},
        Refusal{"/pre_tokenizer", "null", Code::kUnsupported, "/pre_tokenizer"},
        Refusal{"/pre_tokenizer/pretokenizers/0/type", R"("Metaspace")", Code::kUnsupported,
                "/pre_tokenizer/pretokenizers/0"},
        Refusal{"/pre_tokenizer/pretokenizers/1/behavior", R"("Removed")", Code::kUnsupported,
                "Removed"},
        Refusal{"/pre_tokenizer/pretokenizers/1/pattern/Regex", R"("(")", Code::kUnsupported,
                "pattern"},
        Refusal{"/pre_tokenizer/pretokenizers/2/add_prefix_space", "true", Code::kUnsupported,
                "add_prefix_space"},
        Refusal{"/post_processor/processors/1/special_tokens/<s>/ids/0", "77", Code::kDataLoss,
                "id 77"},
        Refusal{"/post_processor/processors/1/single/1", R"({"SpecialToken": {"id": "<s>"}})",
                Code::kDataLoss, "no slot for the text"},
        Refusal{"/post_processor/processors/0/type", R"("BertProcessing")", Code::kUnsupported,
                "BertProcessing"},
        Refusal{"/decoder/type", R"("WordPiece")", Code::kUnsupported, "/decoder"},
        Refusal{"/added_tokens/0/id", "0", Code::kDataLoss, "id 0 belongs to both"},
        Refusal{"/added_tokens/0/id", "41", Code::kDataLoss, "id 41 belongs to both"},
        Refusal{"/added_tokens/0/content", R"("ab")", Code::kDataLoss, "in the vocabulary"},
        Refusal{"/added_tokens/0/content", R"("</s>")", Code::kDataLoss, "the same text"},
        Refusal{"/added_tokens/0/special", R"("yes")", Code::kDataLoss,
                "/added_tokens/0/special"}));

TEST(TokenizerJson, TheSmallFileLoadsAndWorks) {
  const Tokenizer tokenizer = load(test::small_tokenizer());
  EXPECT_EQ(tokenizer.vocab_size(), 43);
  const auto id = [&](const char* text) { return tokenizer.id_of(text).value(); };
  EXPECT_EQ(tokenizer.encode("abcd12").ids, (std::vector{id("abc"), id("d"), id("1"), id("2")}));
  EXPECT_EQ(tokenizer.encode("ab", {.add_special = true}).ids, (std::vector{40, id("ab"), 41}));
  EXPECT_EQ(tokenizer.bos_id(), 40);
  EXPECT_FALSE(tokenizer.has_token(39));
  EXPECT_TRUE(tokenizer.has_token(40));
}

TEST(TokenizerJson, EveryTruncationIsAnError) {
  const std::string text = test::small_tokenizer().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(Tokenizer::from_json_text(text.substr(0, size), "t"), Error) << size;
  }
}

// A mutated file either loads, and then encodes and decodes, or throws rl::Error.
TEST(TokenizerJson, MutatedFilesLoadOrThrowError) {
  const std::string text = test::small_tokenizer().dump();
  const int rounds = test::fuzz_rounds(1000);
  int loaded = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string mutated = test::mutate(text, static_cast<uint64_t>(round));
    try {
      const Tokenizer tokenizer = Tokenizer::from_json_text(mutated, "t");
      const auto ids = tokenizer.encode("abcd <s><tool> 12\xc3\xa9z", {true, true}).ids;
      Detokenizer stream(tokenizer, false);
      std::string streamed;
      for (const int32_t id : ids) streamed += stream.feed(id);
      EXPECT_EQ(streamed + stream.finish(), tokenizer.decode(ids, false)) << "seed " << round;
      ++loaded;
    } catch (const Error& e) {
      EXPECT_FALSE(e.message.empty());
      EXPECT_NE(e.code, Code::kInternal) << "seed " << round << ": " << e.message;
    }
  }
  // Both outcomes occur, so the mutations are neither harmless nor all fatal.
  EXPECT_GT(loaded, rounds / 100);
  EXPECT_LT(loaded, rounds);
}

}  // namespace
}  // namespace rl

// Rows, their files and the feed at their edges: what a refusal names, which row an ordinal draws,
// and how rows become samples.
#include <algorithm>

#include "core/hash.h"
#include "pipeline/prompts/prompt_source.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::tiny_options;
using testing::write_lines;

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::shared_ptr<LoadedModel> open_model(const OptionSet& o) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
}

class JsonlFiles : public ::testing::Test {
 protected:
  JsonlIndex index_of(const std::string& bytes) {
    write_bytes(path_, bytes);
    return {real_fs(), path_};
  }
  Error refused(Code code, const std::string& bytes) {
    return expect_error(code, [&] { index_of(bytes); });
  }
  const TempDir dir_;
  const std::string path_ = dir_.file("a.jsonl");
};

TEST_F(JsonlFiles, AnEmptyLineIsNamedWhereverItIs) {
  for (const auto& [bytes, line] :
       {std::pair("\n", 1), {"\n{}\n", 1}, {"{}\n\n", 2}, {"{}\n{}\n\n{}", 3}}) {
    const Error e = refused(Code::kDataLoss, bytes);
    EXPECT_EQ(e.location, str(path_, ":", line));
    EXPECT_EQ(e.message, e.location + " is an empty line");
  }
  const Error e = refused(Code::kDataLoss, "");
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ + " has no rows");
}

// The file is read in pieces of 1 MiB.
TEST_F(JsonlFiles, LinesMayEndWithAPieceOrBeginWithOne) {
  constexpr size_t kPiece = size_t{1} << 20;
  for (const size_t length : {kPiece - 2, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece - 1}) {
    SCOPED_TRACE(length);
    const std::string first(length, 'a'), text = first + "\nb\ncc";
    const JsonlIndex index = index_of(text);
    ASSERT_EQ(index.num_rows(), 3);
    EXPECT_EQ(index.row(0), first);
    EXPECT_EQ(index.row(1), "b");
    EXPECT_EQ(index.row(2), "cc");
    EXPECT_EQ(index.digest(), digest64(text));
  }
}

TEST_F(JsonlFiles, RowsAreNumberedFromZeroAndLinesFromOne) {
  const JsonlIndex index = index_of("{}\n[]\n");
  EXPECT_EQ(index.path(), path_);
  EXPECT_EQ(index.num_rows(), 2);
  EXPECT_EQ(index.location(0), path_ + ":1");
  EXPECT_EQ(index.location(1), path_ + ":2");
  EXPECT_EQ(index.digest(), digest64("{}\n[]\n"));
  for (const int64_t row : {int64_t{-1}, int64_t{2}}) {
    expect_error(Code::kInternal, [&] { index.row(row); });
  }
}

// The place of a syntax error has no second line number.
TEST(PromptRowErrors, ASyntaxErrorIsNamedWithItsColumn) {
  const Error e =
      expect_error(Code::kDataLoss, [] { parse_prompt_row(R"({"prompt": "x")", "f:7"); });
  EXPECT_EQ(e.location, "f:7:14");
  EXPECT_TRUE(e.message.starts_with("f:7:14: ")) << e.message;
}

TEST(PromptRowErrors, EveryOtherOneIsNamedWithItsLine) {
  const std::pair<const char*, const char*> rows[] = {
      {"[1]", "the row is array, expected an object"},
      {"1", "the row is number, expected an object"},
      {R"({"prompt": 1})", "/prompt is number, expected a string"},
      {R"({"ids": [1], "tag": null})", "/tag is null, expected a string"},
      {R"({"ids": {}})", "/ids is not a list of token ids"},
      {R"({"ids": [1, 2147483648]})", "/ids/1 is not a token id"},
      {R"({"ids": [1, 2, "3"]})", "/ids/2 is not a token id"},
      {R"({"ids": [1], "response": true})",
       "/response is boolean, expected a string or a list of ids"},
      {R"({"ids": [1], "chosen": []})", "/chosen is not a list of token ids"},
      {R"({"ids": [1], "rejected": [1, 1.5]})", "/rejected/1 is not a token id"},
      {R"({"ids": [1], "prompt": "x"})", "a row must have exactly one of messages, prompt and ids"},
      {R"({"response": "x"})", "a row must have exactly one of messages, prompt and ids"},
      {R"({"prompt": "x", "tools": []})",
       "a row must have exactly one of messages, prompt and ids"},
  };
  for (const auto& [row, what] : rows) {
    SCOPED_TRACE(row);
    const Error e = expect_error(Code::kDataLoss, [&] { parse_prompt_row(row, "f:7"); });
    EXPECT_EQ(e.message, str("f:7: ", what));
    EXPECT_EQ(e.location, "f:7");
  }
  const Error e = expect_error(Code::kDataLoss, [] { parse_prompt_row(R"({"id": 1})", "f:7"); });
  EXPECT_TRUE(e.message.starts_with("f:7: unknown key \"id\"; ")) << e.message;
  EXPECT_EQ(e.location, "f:7");
}

// 2^31 - 1 is an id as far as a row is concerned, and so is a negative number.
TEST(PromptRowErrors, TheVocabularyIsTheModelsAffair) {
  EXPECT_EQ(parse_prompt_row(R"({"ids": [2147483647, -5]})", "f:1").ids,
            (std::vector<int64_t>{2147483647, -5}));
  const TempDir dir;
  const auto model = open_model(tiny_options(dir));  // 256 ids
  const auto make = [&](const char* row, Objective objective) {
    return make_prompt(parse_prompt_row(row, "f:3"), *model, {8, 12, objective}, "f:3");
  };
  const std::tuple<const char*, Objective, const char*> rows[] = {
      {R"({"ids": [1, 256]})", Objective::kRl, "/ids/1 is 256"},
      {R"({"ids": [-1]})", Objective::kRl, "/ids/0 is -1"},
      {R"({"ids": [1], "response": [5, 6, 300]})", Objective::kSft, "/response/2 is 300"},
      {R"({"ids": [1], "chosen": [5], "rejected": [7, -2]})", Objective::kDpo, "/rejected/1 is -2"},
  };
  for (const auto& [row, objective, what] : rows) {
    const Error e = expect_error(Code::kOutOfRange, [&] { make(row, objective); });
    EXPECT_EQ(e.message, str("f:3: ", what, ", outside the vocabulary of 256 ids"));
    EXPECT_EQ(e.location, "f:3");
    EXPECT_EQ(e.expected, "0..255");
  }
  EXPECT_EQ(make(R"({"ids": [0, 255]})", Objective::kRl).ids, (std::vector<int32_t>{0, 255}));
}

TEST(PromptRowErrors, ALengthIsNamedWithTheLengthThatWouldDo) {
  const TempDir dir;
  const auto model = open_model(tiny_options(dir));
  const auto refused = [&](const char* row, Objective objective) {
    return expect_error(Code::kOutOfRange, [&] {
      make_prompt(parse_prompt_row(row, "f:3"), *model, {8, 12, objective}, "f:3");
    });
  };
  Error e = refused(R"({"ids": [1, 2, 3, 4, 5, 6]})", Objective::kRl);
  EXPECT_EQ(e.key, "engine.max_model_len");
  EXPECT_EQ(e.expected, "at least 14");
  EXPECT_EQ(e.location, "f:3");
  EXPECT_EQ(e.message, "f:3: a prompt of 6 tokens and 8 new tokens exceed engine.max_model_len 12");
  // The second response of a pair is checked like the first.
  e = refused(R"({"ids": [1, 2], "chosen": [3], "rejected": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]})",
              Objective::kDpo);
  EXPECT_EQ(e.key, "engine.max_model_len");
  EXPECT_EQ(e.expected, "at least 13");
  EXPECT_EQ(e.message,
            "f:3: a prompt of 2 tokens and 11 tokens of /rejected exceed "
            "engine.max_model_len 12");
}

TEST(PromptRowErrors, WhatEncodingRefusesIsNamedWithTheRow) {
  const TempDir dir;
  const auto model = open_model(tiny_options(dir));  // has no tokenizer
  const Error e = expect_error(Code::kFailedPrecondition, [&] {
    make_prompt(parse_prompt_row(R"({"prompt": "x"})", "f:3"), *model, {8, 12}, "f:3");
  });
  EXPECT_EQ(e.location, "f:3");
  EXPECT_TRUE(e.message.starts_with("f:3: ")) << e.message;
  ASSERT_NE(e.cause, nullptr);
  EXPECT_EQ(e.cause->code, Code::kFailedPrecondition);
  EXPECT_EQ("f:3: " + e.cause->message, e.message);
}

// The small tokenizer has no token for z.
TEST(PromptRowErrors, TextThatHasNoTokensIsCounted) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", testing::with_small_tokenizer(dir));
  const auto model = open_model(o);
  const auto refused = [&](const char* row, Objective objective) {
    const Error e = expect_error(Code::kDataLoss, [&] {
      make_prompt(parse_prompt_row(row, "f:3"), *model, {8, 32, objective}, "f:3");
    });
    EXPECT_EQ(e.location, "f:3");
    return e.message;
  };
  EXPECT_EQ(refused(R"({"prompt": "azbzz"})", Objective::kRl),
            "f:3: the tokenizer has no token for 3 bytes of the text of /prompt");
  EXPECT_EQ(refused(R"({"prompt": "a", "response": "z"})", Objective::kSft),
            "f:3: the tokenizer has no token for 1 bytes of the text of /response");
  EXPECT_EQ(refused(R"({"prompt": "a", "chosen": "b", "rejected": "zz"})", Objective::kDpo),
            "f:3: the tokenizer has no token for 2 bytes of the text of /rejected");
}

// This tokenizer adds no token of its own.
TEST(PromptRowErrors, AnEmptyPromptIsRefused) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", testing::with_small_tokenizer(dir));
  nlohmann::json tokenizer = test::small_tokenizer();
  tokenizer["post_processor"] = nullptr;
  write_file_atomically(real_fs(), dir.file("model/tokenizer.json"), tokenizer.dump());
  const auto model = open_model(o);
  const auto make = [&](const char* row) {
    return make_prompt(parse_prompt_row(row, "f:3"), *model, {8, 12}, "f:3");
  };
  EXPECT_EQ(make(R"({"prompt": "a"})").ids.size(), 1u);
  const Error e = expect_error(Code::kDataLoss, [&] { make(R"({"prompt": ""})"); });
  EXPECT_EQ(e.message, "f:3: the prompt has no tokens");
  EXPECT_EQ(e.location, "f:3");
}

TEST(ResponseSample, HasThePromptAndTheResponseOfItsSlot) {
  Prompt prompt;
  prompt.ids = {1, 2, 3};
  prompt.tag = "a tag";
  prompt.data_row = 17;
  prompt.responses = {{4, 5}, {6, 7, 8}};
  const SamplePtr s = response_sample(prompt, 9, 1);
  EXPECT_EQ(s->id, 0u);
  EXPECT_EQ(s->ordinal, 9u);
  EXPECT_EQ(s->slot, 1u);
  EXPECT_EQ(s->data_row, 17);
  EXPECT_EQ(s->tag, "a tag");
  EXPECT_EQ(s->ids, (std::vector<int32_t>{1, 2, 3, 6, 7, 8}));
  EXPECT_EQ(s->prompt_tokens, 3);
  EXPECT_EQ(s->versions, std::vector<uint64_t>(3, kUnknownVersion));
  EXPECT_EQ(s->loss_mask, std::vector<uint8_t>(3, 1));
  EXPECT_TRUE(s->logprobs.empty());
  EXPECT_FALSE(s->scored);
  EXPECT_EQ(response_sample(prompt, 9, 0)->ids, (std::vector<int32_t>{1, 2, 3, 4, 5}));
}

TEST(PromptFiles, AnOrdinalDrawsTheRowOfItsEpochsOrder) {
  const TempDir dir;
  const auto model = open_model(tiny_options(dir));
  write_lines(dir.file("rows.jsonl"), testing::id_rows(5));
  for (const bool shuffle : {false, true}) {
    PromptFile file(real_fs(), dir.file("rows.jsonl"), {shuffle, 11});
    EXPECT_EQ(file.num_rows(), 5);
    // Also backwards: a resume may begin anywhere.
    for (const uint64_t ordinal : {0u, 1u, 4u, 5u, 9u, 10u, 14u, 3u, 7u}) {
      const Prompt p = file.read(file.row_of(ordinal), *model, {8, 32});
      const int64_t row = epoch_order(5, shuffle, 11, ordinal / 5)[ordinal % 5];
      EXPECT_EQ(p.data_row, row) << ordinal;
      EXPECT_EQ(p.tag, str(row));
      EXPECT_EQ(p.ids, (std::vector<int32_t>{1, static_cast<int32_t>(10 + row),
                                             static_cast<int32_t>(20 + 3 * row)}));
      EXPECT_EQ(file.epoch_of(ordinal), ordinal / 5);
    }
  }
}

TEST(PromptFeeds, RowsComeOutInTheOrderFedAndAreNumberedOn) {
  PromptFeed feed(3, 40);
  EXPECT_EQ(feed.capacity(), 3);
  EXPECT_EQ(feed.next_location(), "feed:41");
  expect_error(Code::kInternal, [&] { feed.pop(); });
  const auto push = [&](const char* tag) {
    Prompt p;
    p.tag = tag;
    feed.push(std::move(p));
  };
  push("a");
  push("b");
  EXPECT_EQ(feed.next_location(), "feed:43");
  EXPECT_FALSE(feed.full());
  push("c");
  EXPECT_TRUE(feed.full());
  EXPECT_EQ(feed.size(), 3);
  expect_error(Code::kInternal, [&] { push("d"); });
  const Prompt first = feed.pop();
  EXPECT_EQ(first.tag, "a");
  EXPECT_EQ(first.data_row, 40);
  EXPECT_FALSE(feed.full());
  push("e");
  EXPECT_EQ(feed.pop().data_row, 41);
  EXPECT_EQ(feed.pop().data_row, 42);
  EXPECT_EQ(feed.pop().data_row, 43);
  EXPECT_EQ(feed.size(), 0);
  EXPECT_FALSE(feed.ended());
  feed.end();
  EXPECT_TRUE(feed.ended());
}

}  // namespace
}  // namespace rl

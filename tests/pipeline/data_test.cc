// Prompt files: rows, their order, and everything that can be wrong with them.
#include <algorithm>
#include <set>

#include "pipeline/prompts/prompt_source.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/mutate.h"

namespace rl {
namespace {

using testing::write_lines;

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::shared_ptr<LoadedModel> open_tiny(const OptionSet& o) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
}

TEST(JsonlIndex, FindsEveryRow) {
  const TempDir dir;
  const std::string path = dir.file("a.jsonl");
  for (const char* end : {"", "\n"}) {
    write_bytes(path, std::string("{\"a\":1}\n{}\r\n{\"b\": \"x\"}") + end);
    const JsonlIndex index(real_fs(), path);
    ASSERT_EQ(index.num_rows(), 3);
    EXPECT_EQ(index.row(0), "{\"a\":1}");
    EXPECT_EQ(index.row(1), "{}\r");
    EXPECT_EQ(index.row(2), "{\"b\": \"x\"}");
    EXPECT_EQ(index.location(2), path + ":3");
  }
}

TEST(JsonlIndex, RowsMayCrossReadBoundaries) {
  const TempDir dir;
  std::vector<std::string> rows;
  for (int i = 0; i < 50; ++i)
    rows.push_back(std::string(50'000 + i, static_cast<char>('a' + i % 26)));
  write_lines(dir.file("a.jsonl"), rows);
  const JsonlIndex index(real_fs(), dir.file("a.jsonl"));
  ASSERT_EQ(index.num_rows(), 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(index.row(i), rows[i]);
}

TEST(JsonlIndex, EmptyFilesAndLinesAndLongLinesAreNamed) {
  const TempDir dir;
  const std::string path = dir.file("a.jsonl");
  write_bytes(path, "");
  EXPECT_EQ(expect_error(Code::kDataLoss, [&] { JsonlIndex(real_fs(), path); }).location, path);
  write_bytes(path, "{}\n\n{}\n");
  EXPECT_EQ(expect_error(Code::kDataLoss, [&] { JsonlIndex(real_fs(), path); }).location,
            path + ":2");
  write_bytes(path, "{}\n" + std::string(kMaxLineBytes + 1, ' '));
  EXPECT_EQ(expect_error(Code::kResourceExhausted, [&] { JsonlIndex(real_fs(), path); }).location,
            path + ":2");
  expect_error(Code::kNotFound, [&] { JsonlIndex(real_fs(), dir.file("none")); });
}

TEST(PromptRow, ReadsTheThreeKinds) {
  const PromptRow chat = parse_prompt_row(
      R"({"messages": [{"role": "user", "content": "h\u00e9"}], "tag": "t"})", "f:1");
  EXPECT_EQ(chat.kind, PromptRow::Kind::kMessages);
  EXPECT_EQ(chat.chat.messages[0]["content"], "h\xc3\xa9");
  EXPECT_EQ(chat.tag, "t");
  EXPECT_EQ(parse_prompt_row(R"({"prompt": "x"})", "f:1").text, "x");
  EXPECT_EQ(parse_prompt_row(R"({"tag": "", "ids": [1, 2]})", "f:1").ids,
            (std::vector<int64_t>{1, 2}));
}

TEST(PromptRow, WrongRowsAreNamedWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "exactly one"},
      {R"({"tag": "x"})", "exactly one"},
      {R"({"ids": [1], "prompt": "x"})", "exactly one"},
      {R"({"ids": [1], "extra": 1})", "extra"},
      {R"({"ids": []})", "/ids"},
      {R"({"ids": "1"})", "/ids"},
      {R"({"ids": [1.5]})", "/ids/0"},
      {R"({"ids": [1, 99999999999999999999]})", "f:7:"},
      {R"({"ids": [1, 9223372036854775807]})", "/ids/1"},
      {R"({"ids": [true]})", "/ids/0"},
      {R"({"prompt": 1})", "/prompt"},
      {R"({"prompt": "x", "tag": 1})", "/tag"},
      {R"({"messages": []})", "/messages"},
      {R"({"messages": ["x"]})", "/messages/0"},
      {R"({"messages": [{"role": "user"}]})", "/messages/0/content"},
      {R"({"messages": [{"role": "", "content": "x"}]})", "/messages/0/role"},
      {R"({"messages": [{"role": "user", "content": null}]})", "/messages/0/content"},
      {R"({"messages": [{"role": "user", "content": ["y"]}]})", "/messages/0/content/0"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": 1})", "/tools"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template": 1})", "/chat_template"},
      {R"({"prompt": "x", "tools": []})", "exactly one"},
      {"[1]", "expected an object"},
      {R"({"ids": [1], "ids": [2]})", "f:7"},
      {R"({"prompt": "x")", "f:7:"},
      {"{\"prompt\": \"\xff\"}", "f:7:"},
      {R"({"prompt": "x"} {})", "f:7:"},
  };
  for (const auto& [row, named] : cases) {
    SCOPED_TRACE(row);
    const Error e = expect_error(Code::kDataLoss, [&] { parse_prompt_row(row, "f:7"); });
    EXPECT_TRUE(contains(e.message + e.location, named));
    EXPECT_TRUE(e.location.starts_with("f:7")) << e.location;
    EXPECT_FALSE(contains(e.location, "f:7:1:")) << e.location;
  }
}

TEST(PromptRow, IdsAndLengthsAreCheckedAgainstTheModel) {
  const TempDir dir;
  const auto model = open_tiny(testing::tiny_options(dir));
  const PromptLimits limits{8, 12};
  const auto make = [&](const std::string& json) {
    return make_prompt(parse_prompt_row(json, "f:3"), *model, limits, "f:3");
  };
  EXPECT_EQ(make(R"({"ids": [0, 255, 1, 2]})").ids.size(), 4u);
  EXPECT_TRUE(contains(
      expect_error(Code::kOutOfRange, [&] { make(R"({"ids": [0, 256]})"); }).message, "256"));
  expect_error(Code::kOutOfRange, [&] { make(R"({"ids": [-1]})"); });
  const Error e = expect_error(Code::kOutOfRange, [&] { make(R"({"ids": [1, 2, 3, 4, 5]})"); });
  EXPECT_TRUE(contains(e.message, "f:3: a prompt of 5 tokens and 8 new tokens"));
  EXPECT_TRUE(contains(e.message, "12"));
  // The fixture has no tokenizer.
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { make(R"({"prompt": "x"})"); }).location,
            "f:3");
}

TEST(PromptRow, AChatGoesThroughTheModelsOwnTemplate) {
  const TempDir dir;
  OptionSet options = testing::tiny_options(dir);
  options.set_string("model.path", std::string(RL_FIXTURES) + "/gguf/tiny_llama_half.gguf");
  options.set_i64("engine.max_model_len", 64);
  open_tiny(options)->save(dir.file("model"), Dtype::kF32, false);
  write_bytes(dir.file("model/chat_template.jinja"),
              "{% for m in messages %}{{ bos_token }}{{ m.role }}:{{ m.content }}{{ eos_token }}"
              "{% endfor %}{{ tools | tojson }}{{ mood }}{{ 1 // (messages | length - 2) }}");
  options.set_string("model.path", dir.file("model"));
  const auto model = open_tiny(options);
  const auto make = [&](const std::string& json) {
    return make_prompt(parse_prompt_row(json, "f:3"), *model, {8, 64}, "f:3");
  };
  const Prompt prompt = make(R"({"messages": [{"role": "user", "content": "hi"}],
      "tools": [{"b": 1, "a": 2}], "chat_template_kwargs": {"mood": "calm"}})");
  const Tokenizer& tokenizer = model->tokenizer();
  const auto token = [&](std::optional<int32_t> id) {
    return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
  };
  const std::string text = str(token(tokenizer.bos_id()), "user:hi", token(tokenizer.eos_id()),
                               R"([{"b": 1, "a": 2}]calm-1)");
  EXPECT_EQ(prompt.ids, tokenizer.encode(text, {.allow_special = true}).ids);
  EXPECT_EQ(prompt.stop_ids, model->chat_stop_ids());
  const std::string two =
      R"({"messages": [{"role": "a", "content": ""}, {"role": "b", "content": ""}]})";
  const Error e = expect_error(Code::kOutOfRange, [&] { make(two); });
  EXPECT_EQ(e.location, "f:3");
  EXPECT_TRUE(contains(e.message, "model chat_template:1:"));
}

TEST(LoadedModelChat, AnOptionReplacesTheModelsTemplateAlsoInSavedCopies) {
  const TempDir dir;
  OptionSet options = testing::tiny_options(dir);
  options.set_string("model.path", std::string(RL_FIXTURES) + "/gguf/tiny_llama_half.gguf");
  const std::string path = dir.file("own.jinja");
  options.set_string("model.chat_template_path", path);
  expect_error(Code::kNotFound, [&] { open_tiny(options); });
  write_bytes(path, "{{ x");
  EXPECT_EQ(expect_error(Code::kDataLoss, [&] { open_tiny(options); }).location,
            path + " chat_template:1:1");
  write_bytes(path, "own {{ messages[0].content }}");
  const ChatRequest request = make_chat_request(std::vector<ChatMessage>{{"user", "x"}});
  const auto model = open_tiny(options);
  EXPECT_EQ(model->render_chat(request, false).bytes(), "own x");
  model->save(dir.file("saved"), Dtype::kF32, false);
  options.set_string("model.chat_template_path", "");
  expect_error(Code::kConflict, [&] { require_same_model(*model, options); });
  options.set_string("model.path", dir.file("saved"));
  EXPECT_EQ(open_tiny(options)->render_chat(request, false).bytes(), "own x");
  write_bytes(path, "another {{ messages[0].content }}");
  options.set_string("model.chat_template_path", path);
  EXPECT_EQ(open_tiny(options)->render_chat(request, false).bytes(), "another x");
}

TEST(EpochOrder, IsAPermutationOfItsOwnPerEpoch) {
  const auto a = epoch_order(100, true, 5, 0), b = epoch_order(100, true, 5, 1);
  EXPECT_EQ(a, epoch_order(100, true, 5, 0));
  EXPECT_NE(a, b);
  EXPECT_NE(a, epoch_order(100, true, 6, 0));
  EXPECT_EQ(std::set<uint32_t>(a.begin(), a.end()).size(), 100u);
  const auto plain = epoch_order(100, false, 5, 3);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
}

TEST(EpochOrder, EveryRowComesFirstAboutEquallyOften) {
  std::vector<int> first(8);
  for (uint64_t epoch = 0; epoch < 8000; ++epoch) ++first[epoch_order(8, true, 1, epoch)[0]];
  // 1000 expected, deviation 30: five of them.
  for (const int n : first) EXPECT_NEAR(n, 1000, 150);
}

TEST(PromptFile, EveryTruncationAndMutationIsReadOrRefused) {
  const TempDir dir;
  const auto model = open_tiny(testing::tiny_options(dir));
  const std::string path = dir.file("fuzz.jsonl");
  const std::string whole =
      "{\"ids\": [1, 2, 3], \"tag\": \"a\"}\n{\"prompt\": \"x\\u00e9\"}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n{\"ids\": [255]}\n";
  int rows = 0, refused = 0;
  const auto read_all = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    try {
      PromptFile file(real_fs(), path, {true, 3});
      for (int64_t i = 0; i < file.num_rows(); ++i) {
        const Prompt p = file.read(i, *model, {8, 32});
        EXPECT_FALSE(p.ids.empty());
        for (const int32_t id : p.ids) EXPECT_TRUE(id >= 0 && id < 256);
        ++rows;
      }
    } catch (const Error& e) {
      EXPECT_NE(e.code, Code::kInternal) << e.message;
      EXPECT_TRUE(contains(e.message + e.location, path)) << e.message;
      ++refused;
    }
  };
  for (size_t n = 0; n <= whole.size(); ++n) read_all(whole.substr(0, n));
  const int rounds = test::fuzz_rounds(1000);
  for (int seed = 0; seed < rounds; ++seed) read_all(test::mutate(whole, seed));
  EXPECT_GT(rows, rounds / 10);
  EXPECT_GT(refused, rounds / 2);
}

}  // namespace
}  // namespace rl

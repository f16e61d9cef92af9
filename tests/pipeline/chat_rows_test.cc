// The end of a chat turn ends a response to a chat row, in training and in evaluations, unless
// sampling.ignore_eos says to go on.
#include <map>

#include "run_rig.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;

constexpr const char* kRow = R"({"messages": [{"role": "user", "content": "ab"}]})";

// Of a model whose turns end with the id; only that one is generated in training.
OptionSet chat_options(const TempDir& dir, int32_t turn_end) {
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", testing::with_small_tokenizer(dir));
  nlohmann::json tokenizer = test::small_tokenizer();
  tokenizer["added_tokens"].push_back(test::added_token(turn_end, "<end>", true));
  write_file_atomically(real_fs(), dir.file("model/tokenizer.json"), tokenizer.dump());
  write_lines(dir.file("template"), {"{% for m in messages %}{{ m.content }}"
                                     "{% if m.role == 'assistant' %}<end>{% endif %}{% endfor %}"});
  o.set_string("model.chat_template_path", dir.file("template"));
  write_lines(dir.file("chat.jsonl"), {kRow});
  o.set_string("data.path", dir.file("chat.jsonl"));
  o.set_string("eval.path", dir.file("chat.jsonl"));
  o.set_text("eval.every_steps", "1");
  o.set_text("pipeline.total_steps", "1");
  o.set_text("optimizer.lr", "0");
  o.set_i64_list("sampling.allowed_token_ids", {turn_end});
  return o;
}

// Tokens of the training responses, then of the greedy response of the evaluation.
std::vector<std::vector<int32_t>> responses(const OptionSet& o) {
  Rig rig(o);
  std::vector<std::vector<int32_t>> train, eval;
  for (const SamplePtr& s : rig.start_and_serve().samples) {
    const std::vector<int32_t> response(s->ids.begin() + s->prompt_tokens, s->ids.end());
    (s->purpose == Purpose::kEval ? eval : train).push_back(response);
  }
  EXPECT_EQ(train.size(), 16u);
  EXPECT_EQ(eval.size(), 1u);
  train.insert(train.end(), eval.begin(), eval.end());
  return train;
}

TEST(ChatRows, TheEndOfATurnEndsAResponseUnlessEndsAreIgnored) {
  constexpr int32_t kAny = 200;
  int32_t greedy;
  {
    const TempDir dir;
    greedy = responses(chat_options(dir, kAny)).back().front();
    ASSERT_GT(greedy, 42) << "the id has a text of its own in the small tokenizer";
  }
  const TempDir dir;
  OptionSet o = chat_options(dir, greedy);
  o.set_text("sampling.ignore_eos", "false");
  ASSERT_EQ(Rig(o).model().chat_stop_ids(), std::vector<int32_t>{greedy});
  for (const auto& response : responses(o)) EXPECT_EQ(response, std::vector<int32_t>{greedy});
  o.set_text("sampling.ignore_eos", "true");
  for (const auto& response : responses(o)) {
    EXPECT_EQ(response.size(), 8u);
    EXPECT_EQ(response.front(), greedy);
  }
  // The same prompt as ids knows nothing of turns, also behind a chat row.
  write_lines(dir.file("mixed.jsonl"), {kRow, R"({"ids": [22]})"});
  {
    OptionSet mixed = o;
    mixed.set_text("sampling.ignore_eos", "false");
    mixed.set_string("eval.path", dir.file("mixed.jsonl"));
    Rig rig(mixed);
    std::map<int64_t, int64_t> tokens;  // of evaluation responses, by row
    for (const SamplePtr& s : rig.start_and_serve().samples) {
      if (s->purpose == Purpose::kEval) tokens[s->data_row] = s->generated();
    }
    EXPECT_EQ(tokens, (std::map<int64_t, int64_t>{{0, 1}, {1, 8}}));
  }
  write_lines(dir.file("chat.jsonl"), {R"({"ids": [22]})"});
  o.set_text("sampling.ignore_eos", "false");
  EXPECT_EQ(responses(o).front(), std::vector<int32_t>(8, greedy));
}

}  // namespace
}  // namespace rl

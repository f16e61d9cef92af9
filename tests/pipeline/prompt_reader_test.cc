// Prompts read ahead of need: the rows that memory keeps, and threads that encode several at once,
// which change no prompt.
#include "pipeline/prompts/prompt_reader.h"

#include <gtest/gtest.h>

#include "run_rig.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

std::shared_ptr<LoadedModel> open_tiny(const OptionSet& o) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
}

class PromptRows : public ::testing::Test {
 protected:
  PromptRows() {
    std::vector<std::string> lines;
    for (int i = 0; i < 40; ++i) lines.push_back(str("{\"ids\": [", 1 + i, ", 2]}"));
    testing::write_lines(path_, lines);
  }
  TempDir dir_;
  const std::string path_ = dir_.file("rows.jsonl");
};

TEST_F(PromptRows, RowsReadLastAreKept) {
  const JsonlRows none(real_fs(), path_, {}), two(real_fs(), path_, {.last = 2}),
      all(real_fs(), path_, {.all = true});
  for (const int64_t row : {0, 1, 0, 2, 0, 1}) {
    const std::string text = none.row(row);
    EXPECT_EQ(text, str("{\"ids\": [", 1 + row, ", 2]}"));
    EXPECT_EQ(two.row(row), text);
    EXPECT_EQ(all.row(row), text);
  }
  EXPECT_EQ(none.num_read(), 6);
  EXPECT_EQ(two.num_read(), 4) << "0 and 1, then 2 in place of 1, and 1 again";
  EXPECT_EQ(all.num_read(), 0);
}

TEST_F(PromptRows, AnyNumberOfThreadsReadsTheSamePrompts) {
  const auto model = open_tiny(testing::tiny_options(dir_));
  const auto read = [&](int64_t workers, const KeptRows& kept) {
    PromptFile file(real_fs(), path_, {.shuffle = true, .seed = 3}, kept);
    PromptReader reader(file, *model, workers, model->runtime().cpus());
    std::string text;
    for (const ReadPrompt& p : reader.read(5, 70, {8, 32})) {  // into the second epoch
      EXPECT_EQ(p.failure, nullptr);
      text += str(p.prompt.data_row, ":", p.prompt.ids[0], " ");
    }
    EXPECT_EQ(reader.most_workers(), workers);
    return text;
  };
  const std::string one = read(1, {});
  EXPECT_EQ(read(2, {}), one);
  EXPECT_EQ(read(7, {.last = 3}), one);
  EXPECT_EQ(read(3, {.all = true}), one);
}

TEST_F(PromptRows, TheFirstRowThatCannotBeReadEndsThem) {
  std::vector<std::string> lines;
  for (int i = 0; i < 30; ++i)
    lines.push_back(i % 10 == 7 ? "{\"ids\": [999999]}" : "{\"ids\": [3]}");
  testing::write_lines(path_, lines);
  const auto model = open_tiny(testing::tiny_options(dir_));
  for (const int64_t workers : {1, 4}) {
    PromptFile file(real_fs(), path_, {});
    PromptReader reader(file, *model, workers, model->runtime().cpus());
    const std::vector<ReadPrompt> read = reader.read(0, 30, {8, 32});
    ASSERT_EQ(read.size(), 8u);
    const Error error =
        expect_error(Code::kOutOfRange, [&] { std::rethrow_exception(read.back().failure); });
    EXPECT_EQ(error.location, path_ + ":8");
  }
}

}  // namespace
}  // namespace rl

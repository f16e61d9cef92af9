// Layouts of ranks against one rank: forward, backward, optimizer steps, decode, publication, and
// checkpoints that another layout resumes. To add a layout, add a line to layout_table.h.
#include <cctype>
#include <cstring>

#include "layout_table.h"
#include "layout_work.h"
#include "support/compare_values.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {
namespace {

struct Outcome {
  std::vector<std::string> steps;  // samples and metrics
  Files saved;
  std::string path;     // of the checkpoint
  std::string resumed;  // a step that goes on from a checkpoint of one rank
};

class Layouts : public ::testing::TestWithParam<LayoutRow> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    outcomes_ = new std::map<std::string, Outcome>;
  }
  static void TearDownTestSuite() {
    delete outcomes_;
    delete dir_;
  }

  static std::string new_directory() { return dir_->file(str("saved", ++num_directories_)); }

  // Of a layout that others are compared with, once.
  static const Outcome& outcome_of(const Layout& layout, double logprob_bound = 0) {
    const auto found = outcomes_->find(layout.text());
    if (found != outcomes_->end()) return found->second;
    return (*outcomes_)[layout.text()] = run(layout, logprob_bound);
  }

  static Outcome run(const Layout& layout, double logprob_bound) {
    Outcome out;
    const std::string saved = new_directory(), again = new_directory();
    const Layout one = one_rank_of(layout);
    const bool alone = layout.text() == one.text();
    const std::string other = alone ? checkpoint_path(saved, kSteps) : outcome_of(one).path;
    const LayoutPaths paths{saved, again, other};
    const std::string text = on_layout(*dir_, layout, [&](LayoutRank& rank) {
      return train_and_save(rank, paths, logprob_bound);
    });
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, kEndOfStep);) out.steps.push_back(part);
    out.resumed = out.steps.back();
    out.steps.pop_back();
    out.path = checkpoint_path(saved, kSteps);
    out.saved = files_of(out.path);
    expect_same_files(files_of(checkpoint_path(again, kSteps)),
                      alone ? out.saved : outcome_of(one).saved);
    return out;
  }

  // What one rank saves that has loaded a checkpoint.
  static Files saved_by_one(const Layout& layout, const std::string& path) {
    const std::string dir = new_directory();
    on_layout(*dir_, one_rank_of(layout), [&](LayoutRank& rank) {
      rank.load(path);
      rank.save(dir);
      return std::string();
    });
    return files_of(checkpoint_path(dir, kSteps));
  }

  static inline TempDir* dir_;
  static inline int num_directories_ = 0;
  static inline std::map<std::string, Outcome>* outcomes_;
};

// Floats of a file of masters.
std::vector<float> masters_of(const Files& files) {
  const std::string& text = files.at("masters.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof header);
  const size_t begin = sizeof header + static_cast<size_t>(header);
  std::vector<float> out((text.size() - begin) / sizeof(float));
  std::memcpy(out.data(), text.data() + begin, out.size() * sizeof(float));
  return out;
}

// The samples of a step, without its metrics.
std::string samples_of(const std::string& step) { return step.substr(0, step.find('{')); }

TEST_P(Layouts, TrainGenerateAndSaveAsOneRankDoes) {
  const Layout layout(GetParam().layout), one = one_rank_of(layout);
  const Outcome out = run(layout, GetParam().logprob_bound);
  const Outcome& same = outcome_of(same_bits_as(layout), GetParam().logprob_bound);
  EXPECT_EQ(out.steps, same.steps);
  EXPECT_EQ(out.resumed, same.resumed);
  expect_same_files(out.saved, same.saved);
  expect_same_files(saved_by_one(layout, out.path), out.saved);
  const Outcome& alone = outcome_of(one);
  EXPECT_EQ(samples_of(out.steps[0]), samples_of(alone.steps[0]));
  EXPECT_EQ(samples_of(out.resumed), samples_of(alone.resumed));
  EXPECT_LT(relative_l2(masters_of(out.saved), masters_of(alone.saved)), GetParam().weights_bound);
}

std::string test_name(const ::testing::TestParamInfo<LayoutRow>& info) {
  std::string out;
  for (const char c : std::string_view(info.param.layout)) out += std::isalnum(c) ? c : '_';
  return out;
}
INSTANTIATE_TEST_SUITE_P(Of, Layouts, ::testing::ValuesIn(kLayouts), test_name);

}  // namespace
}  // namespace rl::testing

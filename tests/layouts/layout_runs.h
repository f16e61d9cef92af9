// What the ranks of a layout have when they have trained, generated and saved, against one rank.
#pragma once
#include <cctype>

#include "layout_table.h"
#include "layout_work.h"
#include "support/compare_values.h"
#include "support/safetensors_floats.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {

struct LayoutOutcome {
  std::vector<std::string> steps;  // samples and metrics
  Files saved;
  std::string path;     // of the checkpoint
  std::string resumed;  // a step that goes on from a checkpoint of one rank
};

// Runs layouts; those that others are compared with run once.
class LayoutRuns {
 public:
  explicit LayoutRuns(OnRanks on_ranks) : on_ranks_(std::move(on_ranks)) {}

  LayoutOutcome run(const Layout& layout, double logprob_bound) {
    LayoutOutcome out;
    const std::string saved = new_directory(), again = new_directory();
    const Layout one = one_rank_of(layout);
    const bool alone = layout.text() == one.text();
    const std::string other = alone ? checkpoint_path(saved, kSteps) : outcome_of(one).path;
    const LayoutPaths paths{saved, again, other};
    const std::string text = on_layout(
        dir_, layout, [&](LayoutRank& rank) { return train_and_save(rank, paths, logprob_bound); },
        on_ranks_);
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

  // The same, once for each layout.
  const LayoutOutcome& outcome_of(const Layout& layout, double logprob_bound = 0) {
    const auto found = outcomes_.find(layout.text());
    if (found != outcomes_.end()) return found->second;
    return outcomes_[layout.text()] = run(layout, logprob_bound);
  }

  // What one rank saves that has loaded a checkpoint.
  Files saved_by_one(const Layout& layout, const std::string& path) {
    const std::string dir = new_directory();
    on_layout(
        dir_, one_rank_of(layout),
        [&](LayoutRank& rank) {
          rank.load(path);
          rank.save(dir);
          return std::string();
        },
        on_ranks_);
    return files_of(checkpoint_path(dir, kSteps));
  }

 private:
  std::string new_directory() { return dir_.file(str("saved", ++num_directories_)); }

  const TempDir dir_;
  const OnRanks on_ranks_;
  int num_directories_ = 0;
  std::map<std::string, LayoutOutcome> outcomes_;
};

// Floats of a file of masters.
inline std::vector<float> masters_of(const Files& files) {
  return floats_of(files.at("masters.safetensors"));
}

// The samples of a step, without its metrics.
inline std::string samples_of(const std::string& step) { return step.substr(0, step.find('{')); }

inline void expect_same_outcome(const LayoutOutcome& out, const LayoutOutcome& want) {
  EXPECT_EQ(out.steps, want.steps);
  EXPECT_EQ(out.resumed, want.resumed);
  expect_same_files(out.saved, want.saved);
}

// Forward, backward, optimizer steps, decode, publication, and checkpoints that another layout
// resumes.
inline void expect_as_one_rank(LayoutRuns& runs, const LayoutRow& row, const char* more = "") {
  const Layout layout(str(row.layout, more));
  const LayoutOutcome out = runs.run(layout, row.logprob_bound);
  expect_same_outcome(out, runs.outcome_of(same_bits_as(layout), row.logprob_bound));
  expect_same_files(runs.saved_by_one(layout, out.path), out.saved);
  const LayoutOutcome& alone = runs.outcome_of(one_rank_of(layout));
  EXPECT_EQ(samples_of(out.steps[0]), samples_of(alone.steps[0]));
  EXPECT_EQ(samples_of(out.resumed), samples_of(alone.resumed));
  EXPECT_LT(relative_l2(masters_of(out.saved), masters_of(alone.saved)), row.weights_bound);
}

inline std::string layout_test_name(const ::testing::TestParamInfo<LayoutRow>& info) {
  std::string out;
  for (const char c : std::string_view(info.param.layout)) out += std::isalnum(c) ? c : '_';
  return out;
}

}  // namespace rl::testing

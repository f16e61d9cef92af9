// What each rank of a layout does: it generates and trains in turn, saves, and goes on from the
// checkpoint of one rank.
#pragma once
#include <string>

#include "layout_run.h"

namespace rl::testing {

inline constexpr int kSteps = 3;  // before the checkpoint
inline constexpr char kEndOfStep = '\x1e';

struct LayoutPaths {
  std::string saved, again;  // directories, of the checkpoint and of that which was loaded
  std::string other;         // the checkpoint of one rank
};

// Samples and metrics of all steps, the last one from the other checkpoint.
inline std::string train_and_save(LayoutRank& rank, const LayoutPaths& paths,
                                  double logprob_bound) {
  rank.expect_plan_equals_ledger();
  std::string steps;
  for (int i = 0; i < kSteps; ++i) steps += rank.step(logprob_bound) + kEndOfStep;
  rank.save(paths.saved);
  rank.load(paths.other);
  rank.save(paths.again);
  steps += rank.step(logprob_bound) + kEndOfStep;
  rank.expect_plan_equals_ledger();
  return steps;
}

}  // namespace rl::testing

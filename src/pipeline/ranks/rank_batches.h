// The batches of a run of several ranks. Each rank generates the groups of some ordinals, and all
// of them train on all groups of a step, so that advantages, losses and metrics are those of one
// rank. The ranks meet once for each step, and when one of them ends, so that the others do too.
// With one rank everything is its own, and so it is where every rank has all groups: their loops
// are one (SharedInputs). The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "buffer/ledger.h"
#include "data/sample.h"
#include "pipeline/config/settings.gen.h"
#include "rollout/engine_stats.h"
#include "train/ranks/data_ranks.h"

namespace rl {

// The settings of a rank's pipeline: files, evaluations and checkpoints are those of rank 0 alone.
// Ranks that divide a model with it evaluate with it, unless each has an engine of its own, and
// give it their pieces of a checkpoint. So do all with their parts of the optimizer states, if they
// are divided. To a checkpoint all ranks come that generate for themselves, for one may have ended,
// and those of a trainer over a store, which run one loop.
Settings settings_of_rank(const Settings& settings, int rank);

class RankBatches {
 public:
  // has_all: every rank has all groups of a step.
  explicit RankBatches(const DataRanks& ranks, bool has_all = false)
      : ranks_(ranks), has_all_(has_all) {}

  bool alone() const { return has_all_ || ranks_.alone(); }
  // Whether this rank generates the group.
  bool owns(uint64_t ordinal) const {
    return alone() ||
           ordinal % static_cast<uint64_t>(ranks_.size()) == static_cast<uint64_t>(ranks_.rank());
  }
  // Whether the ledger of this rank goes on with what a run that resumes has counted.
  bool counts_on() const { return alone() || ranks_.rank() == 0; }
  // The groups of all ranks for a step, by (ordinal, slot); nothing if a rank has ended.
  // Error(kConflict) if the ranks are not at the same step.
  std::optional<std::vector<SamplePtr>> exchange(uint64_t step, const std::vector<SamplePtr>& own);
  // Before what they do together after a step; false if a rank has ended.
  bool meets(uint64_t step) { return alone() || meet({step, 0}); }
  // Sums over the ranks.
  LedgerCounts sum(const LedgerCounts& own) const;
  EngineStats sum(const EngineStats& own) const;
  // This rank's run ends: the others hear of it when they meet.
  void leave();
  // It failed, and so do the others.
  void fail(const char* why) const noexcept;

 private:
  struct Round {
    uint64_t step;
    uint64_t ends;
  };
  bool meet(const Round& own);

  const DataRanks ranks_;
  const bool has_all_;
  bool ended_ = false;  // all ranks know
};

}  // namespace rl

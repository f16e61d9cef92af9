// Pipelines of all ranks of a run, each with a host of its own.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../pipeline/rank_rig.h"
#include "../pipeline/run_rig.h"

namespace rl::testing {

struct RankRun {
  RunLog log;
  uint64_t digest = 0;
  LedgerCounts ledger;
  std::string resumed_from;
};

using Prepare = std::function<void(Rig& rig, int rank)>;

// Runs the pipeline of one rank to its end.
inline RankRun run_pipeline(
    const OptionSet& options, std::shared_ptr<Runtime> runtime,
    const Prepare& prepare = [](auto&&...) {}) {
  const int rank = runtime->ranks().rank();
  Rig rig(options, std::move(runtime));
  prepare(rig, rank);
  RankRun out;
  out.log = rig.start_and_serve();
  out.digest = rig.model().weight_digest();
  out.ledger = rig.pipeline().status().ledger;
  out.resumed_from = rig.pipeline().resumed_from();
  return out;
}

// The same on each rank.
inline std::vector<RankRun> run_pipelines(
    const OptionSet& options, const Prepare& prepare = [](auto&&...) {}) {
  std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options);
  std::vector<RankRun> out(ranks.size());
  run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    out[rank] = run_pipeline(options, std::move(runtime), prepare);
  });
  return out;
}

}  // namespace rl::testing

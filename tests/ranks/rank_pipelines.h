// Pipelines of all ranks of a run, each with a host of its own.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
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

// One rank's host stops a run of many steps in the second: all ranks end with the same step.
inline void expect_a_stop_ends_all(const OptionSet& options, int stopped) {
  OptionSet o = options;
  o.set_i64("pipeline.total_steps", 100000);
  const std::vector<RankRun> ranks = run_pipelines(o, [&](Rig& rig, int rank) {
    if (rank != stopped) return;
    rig.on_step = [](Pipeline& p, const StepEvent& e) {
      if (e.step == 2) p.stop(0);
    };
  });
  for (const RankRun& rank : ranks) {
    EXPECT_EQ(rank.log.end, Code::kDone);
    EXPECT_EQ(rank.log.steps.size(), ranks[0].log.steps.size());
  }
  EXPECT_LT(ranks[0].log.steps.size(), 100000u);
}

// Metrics of all steps without those of times, of what each rank holds or exchanges, and of what a
// host was late for.
inline std::string common_steps(const RankRun& rank) {
  std::string out;
  for (const MetricList& step : rank.log.steps) {
    MetricList common;
    for (const Metric& m : step.without_times()) {
      const bool own = m.name.starts_with("comm/") || m.name.starts_with("perf/") ||
                       m.name.starts_with("rollout/kv") || m.name == "pipeline/refused_scores";
      if (!own) common.set(m.name, m.value);
    }
    out += common.to_json() + "\n";
  }
  return out;
}

using Samples = std::map<std::pair<uint64_t, uint32_t>, std::vector<int32_t>>;

inline Samples samples_of(const std::vector<RankRun>& ranks) {
  Samples out;
  for (const RankRun& rank : ranks) {
    for (const SamplePtr& s : rank.log.samples) {
      if (s->purpose == Purpose::kEval) continue;
      EXPECT_TRUE(out.emplace(std::pair(s->ordinal, s->slot), s->ids).second);
    }
  }
  return out;
}

// Of a checkpoint.
inline void expect_same_files(const std::string& one, const std::string& other) {
  for (const char* name : {"masters.safetensors", "first_moments.safetensors",
                           "second_moments.safetensors", "hf_model/model.safetensors"}) {
    EXPECT_EQ(read_text_file(real_fs(), one + "/" + name, 1 << 26),
              read_text_file(real_fs(), other + "/" + name, 1 << 26))
        << name;
  }
}

// A stop of rank 1 whose deadline has passed when a step trains: no rank trains that step. The
// advantages are the host's.
inline void expect_a_step_given_up(const OptionSet& options) {
  const std::vector<RankRun> ranks = run_pipelines(options, [](Rig& rig, int rank) {
    rig.pipeline().set_custom_advantage(
        [&rig, rank](const AlgoArrays& in, std::span<double> advantages) {
          size_t t = 0;
          for (size_t i = 0; i < in.lengths.size(); ++i) {
            for (int32_t g = 0; g < in.lengths[i]; ++g) advantages[t++] = in.rewards[i] - 0.3;
          }
          if (rank == 1) rig.pipeline().stop(1);
        });
  });
  for (const RankRun& rank : ranks) {
    EXPECT_EQ(rank.log.end, Code::kDone);
    EXPECT_TRUE(rank.log.steps.empty());
  }
}

}  // namespace rl::testing

// Two pipelines of one process over a store: one generates, on a thread of its own, and one trains.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../pipeline/late_scorer.h"
#include "../pipeline/run_rig.h"

namespace rl::testing {

// Of a run of four steps of two groups, whose files are in dir.
inline OptionSet asynchronous(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"pipeline.mode=async", "pipeline.prompts_per_step=2", "pipeline.total_steps=4",
        "pipeline.samples_per_prompt=2", "trainer.max_tokens_per_device=96"}) {
    o.set_assignment(text);
  }
  return o;
}

inline void unset_all(OptionSet& o, const std::vector<std::string>& prefixes) {
  for (size_t i = 0; i < option_count(); ++i) {
    const std::string key = option_at(i).key;
    for (const std::string& prefix : prefixes) {
      if (key.starts_with(prefix)) o.unset(key);
    }
  }
}

// The options of one half of it.
inline OptionSet rollout_options(const TempDir& dir, const std::vector<std::string>& more = {}) {
  OptionSet o = asynchronous(dir);
  unset_all(o, {"trainer.", "optimizer."});
  o.set_assignment("pipeline.role=rollout");
  o.set_assignment("runtime.instance=3");
  o.set_string("buffer.store_path", dir.file("store"));
  o.set_string("pipeline.weights_dir", dir.file("checkpoints"));
  for (const std::string& text : more) o.set_assignment(text);
  return o;
}
inline OptionSet train_options(const TempDir& dir, const std::vector<std::string>& more = {}) {
  OptionSet o = asynchronous(dir);
  unset_all(o, {"engine.", "sampling.", "data."});
  for (const char* text :
       {"engine.block_size=16", "engine.max_model_len=32", "sampling.max_new_tokens=8",
        "pipeline.role=train", "checkpoint.every_steps=1"}) {
    o.set_assignment(text);
  }
  o.set_string("buffer.store_path", dir.file("store"));
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  for (const std::string& text : more) o.set_assignment(text);
  return o;
}

// A pipeline that generates until it ends, or is stopped.
class RolloutRun {
 public:
  // Its end drops the groups in work, whichever of their samples the host holds.
  explicit RolloutRun(const OptionSet& options) : rig(options) { rig.on_score = score_unless_late; }
  ~RolloutRun() { end(); }

  void start() {
    thread_ = std::thread([this] { log = rig.start_and_serve(); });
  }
  // Once the weights that it follows have all their steps.
  const RunLog& wait() {
    if (thread_.joinable()) thread_.join();
    return log;
  }
  void end() {
    rig.pipeline().stop(0);
    wait();
  }

  Rig rig;
  RunLog log;

 private:
  std::thread thread_;
};

struct BothRuns {
  RunLog rollout, train;
  uint64_t digest = 0;          // of the weights trained
  uint64_t rollout_digest = 0;  // of those generated with last
  LedgerCounts rollout_ledger, train_ledger;
};

inline BothRuns run_both(const OptionSet& rollout, const OptionSet& train) {
  RolloutRun generating(rollout);
  Rig training(train);
  generating.start();
  BothRuns out;
  out.train = training.start_and_serve();
  out.rollout = generating.wait();
  out.digest = training.model().weight_digest();
  out.rollout_digest = generating.rig.model().weight_digest();
  out.rollout_ledger = generating.rig.pipeline().status().ledger;
  out.train_ledger = training.pipeline().status().ledger;
  return out;
}

}  // namespace rl::testing

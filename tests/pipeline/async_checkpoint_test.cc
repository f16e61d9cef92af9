// checkpoint.async: the run goes on while a checkpoint is written, and all else is as if it had
// stood still: the same files, the same failures, nothing lost at the end.
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>

#include "plan_arenas.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/real_files.h"

namespace rl {
namespace {

using testing::kSecond;
using testing::low_id_reward;
using testing::options_with;
using testing::Rig;
using testing::RunLog;
using Texts = std::vector<std::string>;

Texts every_step(const TempDir& dir, const Texts& more) {
  Texts all = {"checkpoint.dir=" + dir.file("checkpoints"), "checkpoint.every_steps=1",
               "checkpoint.async=true"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The content of every file below a directory.
std::map<std::string, std::string> contents_of(const std::string& root) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    out[std::filesystem::relative(entry.path(), root)] = {std::istreambuf_iterator<char>(in), {}};
  }
  return out;
}

TEST(AsyncCheckpoint, ItsFilesAreThoseOfARunThatStandsStill) {
  const Texts kCases[] = {
      {},
      {"algo.advantage=gae"},
      {"optimizer.ema=0.9", "optimizer.state_dtype=int8"},
      {"optimizer.cpu_offload=true", "optimizer.cpu_offload_fraction=0.5"},
      {"model.freeze=model.layers.0.*", "checkpoint.contents=model,optimizer,extra,hf_model"}};
  for (const Texts& more : kCases) {
    SCOPED_TRACE(more.empty() ? "default" : more.front());
    const TempDir data;
    std::map<std::string, std::string> files[2];
    for (const bool async : {false, true}) {
      const TempDir dir;
      OptionSet o = options_with(data, every_step(dir, more));
      o.set_bool("checkpoint.async", async);
      Rig rig(o);
      EXPECT_EQ(rig.start_and_serve().checkpoints.size(), 3u);
      files[async] = contents_of(dir.file("checkpoints"));
    }
    EXPECT_GT(files[0].size(), 9u);
    EXPECT_EQ(files[0].size(), files[1].size());
    for (const auto& [name, content] : files[0])
      EXPECT_TRUE(files[1].contains(name) && files[1][name] == content) << name;
  }
}

// The files of the first step's checkpoint wait until they are let go.
class HeldBack final : public RealFiles {
 public:
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    if (path.find("step_000001.partial") != std::string::npos) {
      std::unique_lock lock(mutex_);
      arrived_ = true;
      changed_.notify_all();
      timed_out_ |= !changed_.wait_for(lock, std::chrono::seconds(60), [&] { return let_go_; });
    }
    return real_fs().create(path);
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    timed_out_ |= !changed_.wait_for(lock, std::chrono::seconds(60), [&] { return arrived_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }
  bool timed_out() {
    const std::lock_guard lock(mutex_);
    return timed_out_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false, let_go_ = false, timed_out_ = false;
};

// And it holds the state of its own step.
TEST(AsyncCheckpoint, TheNextStepIsDoneWhileItIsWritten) {
  const TempDir dir, still_dir;
  HeldBack fs;
  OptionSet o = options_with(dir, every_step(dir, {}));
  Rig rig(o, false, &fs);
  rig.on_step = [&](Pipeline&, const StepEvent& event) {
    if (event.step != 2) return;
    fs.wait_for_arrival();
    EXPECT_FALSE(real_fs().exists(dir.file("checkpoints/step_000001")));
    fs.let_go();
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_FALSE(fs.timed_out());
  ASSERT_EQ(log.checkpoints.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(log.checkpoints[i]->step, i + 1);
  o.set_bool("checkpoint.async", false);
  o.set_string("checkpoint.dir", still_dir.path());
  Rig(o).start_and_serve();
  EXPECT_EQ(contents_of(dir.file("checkpoints/step_000001")),
            contents_of(still_dir.file("step_000001")));
}

// Also if the host stops the run meanwhile.
TEST(AsyncCheckpoint, TheEndOfTheRunWaitsForIt) {
  const TempDir dir;
  HeldBack fs;
  OptionSet o = options_with(dir, every_step(dir, {}));
  {
    Rig rig(o, false, &fs);
    bool stopped = false;
    rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
      if (stopped) return;  // its group was dropped, or will be
      p.score(s->id, low_id_reward(*s));
      if (p.status().step != 1) return;
      stopped = true;
      fs.wait_for_arrival();
      EXPECT_FALSE(p.stop(0));
      fs.let_go();
    };
    const RunLog log = rig.start_and_serve();
    EXPECT_TRUE(stopped);
    ASSERT_EQ(log.checkpoints.size(), 1u);
    EXPECT_EQ(log.checkpoints[0]->path, dir.file("checkpoints/step_000001"));
  }
  o.set_string("checkpoint.resume", "auto");
  EXPECT_EQ(Rig(o).pipeline().status().step, 1u);
}

TEST(AsyncCheckpoint, ARequestedOneIsCompleteWhenTheCallReturns) {
  const TempDir dir;
  OptionSet o = options_with(dir, every_step(dir, {}));
  o.set_i64("checkpoint.every_steps", 0);
  Rig rig(o);
  std::future<std::string> path;
  rig.on_step = [&](Pipeline& p, const StepEvent& event) {
    if (event.step != 1) return;
    path = std::async(std::launch::async, [&] {
      std::string written = p.checkpoint(60 * kSecond);
      EXPECT_TRUE(real_fs().exists(written + "/manifest.xxh64"));
      return written;
    });
  };
  rig.start_and_serve();
  ASSERT_TRUE(path.valid());
  EXPECT_TRUE(path.get().starts_with(dir.file("checkpoints/step_")));
}

// No room for the checkpoint of one step.
class FullAtStep final : public RealFiles {
 public:
  explicit FullAtStep(std::string step) : step_(std::move(step)) {}
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    if (path.find(step_) == std::string::npos) return real_fs().create(path);
    throw Error(Code::kIo, "no room for " + path);
  }

 private:
  const std::string step_;
};

TEST(AsyncCheckpoint, AFailureIsToldAndTheNextIsWritten) {
  const TempDir dir;
  FullAtStep fs("step_000002");
  Rig rig(options_with(dir, every_step(dir, {"checkpoint.on_failure=continue"})), false, &fs);
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 3u);
  ASSERT_EQ(log.failed_checkpoints.size(), 1u);
  EXPECT_EQ(log.failed_checkpoints[0]->step, 2u);
  EXPECT_NE(log.failed_checkpoints[0]->message.find("step_000002"), std::string::npos);
  ASSERT_EQ(log.checkpoints.size(), 2u);
  EXPECT_EQ(log.checkpoints[1]->step, 3u);
}

TEST(AsyncCheckpoint, AFailureEndsTheRunByDefault) {
  for (const char* step : {"step_000001", "step_000003"}) {  // 3: the last one
    SCOPED_TRACE(step);
    const TempDir dir;
    FullAtStep fs(step);
    Rig rig(options_with(dir, every_step(dir, {})), false, &fs);
    rig.ends_with = Code::kIo;
    const RunLog log = rig.start_and_serve();
    EXPECT_TRUE(log.failed_checkpoints.empty());
    ASSERT_NE(rig.pipeline().failure(), nullptr);
    EXPECT_NE(rig.pipeline().failure()->message.find(step), std::string::npos);
    // It is known at the latest when the next one is due.
    EXPECT_LE(log.steps.size(), std::string_view(step).back() == '1' ? 2u : 3u);
  }
}

TEST(AsyncCheckpoint, WhoRequestedItGetsTheError) {
  for (const char* rule : {"checkpoint.on_failure=continue", "checkpoint.on_failure=stop"}) {
    SCOPED_TRACE(rule);
    const TempDir dir;
    FullAtStep fs("step_");
    OptionSet o = options_with(dir, every_step(dir, {rule}));
    o.set_i64("checkpoint.every_steps", 0);
    Rig rig(o, false, &fs);
    const bool goes_on = rule[sizeof "checkpoint.on_failure=" - 1] == 'c';
    rig.ends_with = goes_on ? Code::kDone : Code::kIo;
    std::future<Code> told;
    rig.on_step = [&](Pipeline& p, const StepEvent& event) {
      if (event.step != 1) return;
      told = std::async(std::launch::async, [&] {
        try {
          p.checkpoint(60 * kSecond);
        } catch (const Error& e) {
          return e.code;
        }
        return Code::kOk;
      });
    };
    rig.start_and_serve();
    ASSERT_TRUE(told.valid());
    const Code code = told.get();
    EXPECT_TRUE(code == Code::kIo || (!goes_on && code == Code::kFailedPrecondition))
        << code_name(code);
  }
}

TEST(AsyncCheckpoint, ItsCopyIsPlannedAndHeld) {
  const TempDir dir;
  const auto plan_of = [&](const Texts& more) {
    return plan_memory(options_with(dir, every_step(dir, more)), real_fs(), PlanUse::kPipeline);
  };
  const uint64_t trained = plan_of({}).bytes_of("gradients");
  EXPECT_EQ(plan_of({"checkpoint.async=false"}).bytes_of("checkpoint copy"), 0u);
  EXPECT_EQ(plan_of({}).bytes_of("checkpoint copy"), 3 * trained);
  EXPECT_EQ(plan_of({"optimizer.ema=0.9"}).bytes_of("checkpoint copy"), 4 * trained);
  EXPECT_EQ(plan_of({"checkpoint.contents=hf_model"}).bytes_of("checkpoint copy"), trained);
  EXPECT_EQ(plan_of({"checkpoint.contents=extra"}).bytes_of("checkpoint copy"), 0u);
  EXPECT_GT(plan_of({"algo.advantage=gae"}).bytes_of("checkpoint copy"), 5 * trained);
  EXPECT_EQ(plan_of({}).total_bytes, plan_of({"checkpoint.async=false"}).total_bytes + 3 * trained);
  for (const char* more : {"algo.advantage=gae", "optimizer.state_dtype=bf16"}) {
    Rig rig(options_with(dir, every_step(dir, {more})));
    EXPECT_EQ(testing::planned(rig.pipeline().plan()), testing::live(rig.runtime()));
  }
}

// As much as one rank has of the same parts.
TEST(AsyncCheckpoint, WhatRanksHaveOfOthersPartsIsPlanned) {
  const TempDir dir;
  const auto plan_of = [&](const Texts& more) {
    return plan_memory(options_with(dir, every_step(dir, more)), real_fs(), PlanUse::kPipeline);
  };
  const auto gathered = [&](const Texts& more) {
    uint64_t bytes = 0;
    for (const PlanEntry& e : plan_of(more).outside) {
      if (e.name == "checkpoint of other ranks") bytes = e.bytes;
    }
    return bytes;
  };
  const std::string parts = "parallel.reduction_parts=2", tensor = "parallel.tensor=2",
                    sync = "checkpoint.async=false";
  const uint64_t whole = plan_of({parts}).bytes_of("checkpoint copy");
  ASSERT_GT(whole, 0u);
  EXPECT_EQ(gathered({parts}), 0u);
  EXPECT_EQ(gathered({"parallel.data=2"}), 0u);
  EXPECT_EQ(gathered({parts, tensor}), whole);
  EXPECT_EQ(gathered({parts, tensor, sync}), whole);
  EXPECT_EQ(gathered({parts, tensor, "checkpoint.contents=hf_model"}), whole / 3);
  EXPECT_EQ(gathered({parts, tensor, "checkpoint.dir=", "checkpoint.every_steps=0", sync}), 0u);
  EXPECT_EQ(gathered({"parallel.pipeline=2"}), plan_of({}).bytes_of("checkpoint copy"));
  // A part of the states, which a copy has whole.
  const Texts zero = {parts, tensor, "parallel.data=2", "parallel.zero_stage=1"};
  EXPECT_EQ(gathered(zero), whole + whole / 3);
  EXPECT_GT(plan_of(zero).baseline_bytes, plan_of({parts}).baseline_bytes + whole);
}

TEST(AsyncCheckpoint, ABudgetThatItExceedsNamesIt) {
  const TempDir dir;
  OptionSet o = options_with(dir, every_step(dir, {}));
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
  o.set_u64("runtime.memory_budget_bytes", plan.least_bytes - 1);
  try {
    plan_memory(o, real_fs(), PlanUse::kPipeline);
    FAIL() << "it fits";
  } catch (const MemoryError& e) {
    const auto is_async = [](const Knob& k) { return k.key == "checkpoint.async"; };
    EXPECT_TRUE(std::ranges::any_of(e.knobs, is_async)) << e.message;
  }
}

// Every operation on a file of the second checkpoint fails once, in each way.
class OneFault final : public FaultFs {
 public:
  OneFault(std::string dir, Fault fault) : dir_(std::move(dir)), fault_(fault) {}
  int64_t operations() const { return saves_ == 2 ? FaultFs::operations() : 0; }

  void make_directories(const std::string& p) override {
    if (p == dir_ && ++saves_ == 2) arm(fault_);
    is_ours(p) ? FaultFs::make_directories(p) : real_fs().make_directories(p);
  }
  std::unique_ptr<InputFile> open(const std::string& p) override {
    return is_ours(p) ? FaultFs::open(p) : real_fs().open(p);
  }
  std::unique_ptr<OutputFile> create(const std::string& p) override {
    return is_ours(p) ? FaultFs::create(p) : real_fs().create(p);
  }
  bool exists(const std::string& p) override {
    return is_ours(p) ? FaultFs::exists(p) : real_fs().exists(p);
  }
  bool is_directory(const std::string& p) override {
    return is_ours(p) ? FaultFs::is_directory(p) : real_fs().is_directory(p);
  }
  std::vector<std::string> list(const std::string& p) override {
    return is_ours(p) ? FaultFs::list(p) : real_fs().list(p);
  }
  void rename(const std::string& a, const std::string& b) override {
    is_ours(a) ? FaultFs::rename(a, b) : real_fs().rename(a, b);
  }
  void remove_all(const std::string& p) override {
    is_ours(p) ? FaultFs::remove_all(p) : real_fs().remove_all(p);
  }
  void sync_directory(const std::string& p) override {
    is_ours(p) ? FaultFs::sync_directory(p) : real_fs().sync_directory(p);
  }

 private:
  bool is_ours(const std::string& path) const { return path.starts_with(dir_); }

  const std::string dir_;
  const Fault fault_;
  int saves_ = 0;
};

// With keep_last the first checkpoint goes once the second is in place.
TEST(AsyncCheckpoint, AfterAnyFaultTheRunResumesFromTheOneBefore) {
  const Texts two = {"pipeline.total_steps=2", "checkpoint.keep_last=1"};
  const auto digest_after = [](OptionSet o) {
    o.set_string("checkpoint.resume", "auto");
    o.set_i64("pipeline.total_steps", 3);
    Rig rig(o);
    EXPECT_GE(rig.pipeline().status().step, 1u);
    rig.start_and_serve();
    return rig.model().weight_digest();
  };
  const auto run = [&](const TempDir& dir, OneFault& fs) {
    Rig rig(options_with(dir, every_step(dir, two)), false, &fs);
    rig.pipeline().start();
    bool told = false;
    try {
      rig.serve();
    } catch (const Error& e) {
      told = e.code == Code::kIo;
      EXPECT_NE(e.message.find(dir.file("checkpoints")), std::string::npos) << e.message;
    }
    return told;
  };
  int64_t operations = 0;
  uint64_t expected = 0;
  {
    const TempDir dir;
    OneFault fs(dir.file("checkpoints"), {});
    EXPECT_FALSE(run(dir, fs));
    operations = fs.operations();
    expected = digest_after(options_with(dir, every_step(dir, two)));
  }
  EXPECT_GT(operations, 20);
  for (const FaultFs::Fault& way : {FaultFs::Fault{.system_code = EIO},
                                    FaultFs::Fault{.system_code = ENOSPC, .partial_bytes = 3}}) {
    for (int64_t at = 1; at <= operations; ++at) {
      SCOPED_TRACE(str("operation ", at, " of ", operations));
      const TempDir dir;
      FaultFs::Fault fault = way;
      fault.at = at;
      OneFault fs(dir.file("checkpoints"), fault);
      EXPECT_TRUE(run(dir, fs)) << "nobody was told";
      EXPECT_EQ(digest_after(options_with(dir, every_step(dir, two))), expected);
    }
  }
}

}  // namespace
}  // namespace rl

// Recorded batches: a fresh model and trainer that are given the files of a run end with its
// weights.
#include <filesystem>

#include "buffer/buffer_file.h"
#include "late_scorer.h"
#include "pipeline/session/buffer_session.h"
#include "replay_rig.h"
#include "run_rig.h"
#include "support/buffer_mutation.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"

namespace rl {
namespace {

namespace files = std::filesystem;
using testing::BufferMutation;
using testing::low_id_reward;
using testing::Replay;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

OptionSet recording_options(const TempDir& dir, const char* record = "record") {
  OptionSet o = tiny_options(dir);
  o.set_i64("trainer.num_minibatches", 2);
  o.set_string("buffer.record_dir", dir.file(record));
  return o;
}

std::string step_file(const TempDir& dir, int step, const char* record = "record") {
  return dir.file(str(record, "/step_00000", step, ".rlbuf"));
}

void expect_replay(const OptionSet& options, const TempDir& dir, int steps, Rig& rig) {
  Replay replay(options);
  for (int step = 1; step <= steps; ++step) replay.step(step_file(dir, step));
  EXPECT_EQ(replay.digest(), rig.model().weight_digest());
  EXPECT_EQ(replay.version(), rig.model().version());
}

TEST(Replay, GivesTheWeightsAndMetricsOfTheRun) {
  const TempDir dir;
  const OptionSet o = recording_options(dir);
  Rig rig(o);
  const uint64_t start = rig.model().weight_digest();
  const RunLog log = rig.start_and_serve();
  EXPECT_NE(rig.model().weight_digest(), start);
  Replay replay(o);
  for (int step = 1; step <= 3; ++step) {
    EXPECT_EQ(replay.step(step_file(dir, step)), 16u);
    for (const char* name : {"actor/loss", "actor/grad_norm", "critic/rewards/mean",
                             "critic/advantages/mean", "training/logprob_compared_tokens"}) {
      EXPECT_EQ(replay.metrics.back().get(name), log.steps[step - 1].get(name)) << name;
    }
    EXPECT_EQ(replay.metrics.back().get("training/logprob_max_abs_diff"), 0.0);
  }
  EXPECT_EQ(replay.digest(), rig.model().weight_digest());
}

TEST(Replay, HoldsWithAReferenceModelAndMicroBatches) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  o.set_string("algo.kl.where", "loss");
  o.set_f64("algo.kl.coef", 0.01);
  o.set_i64("trainer.max_tokens_per_device", 64);
  o.set_i64("trainer.epochs", 2);
  Rig rig(o);
  rig.start_and_serve();
  expect_replay(o, dir, 3, rig);
}

TEST(Replay, TheFileNamesStepOptionsAndWeightsOfTheRun) {
  const TempDir dir;
  const OptionSet o = recording_options(dir);
  Rig rig(o);
  rig.start_and_serve();
  const BufferInfo info = BufferFileReader(real_fs(), step_file(dir, 2)).info();
  EXPECT_EQ(info.max_tokens, rig.pipeline().plan().max_tokens);
  EXPECT_EQ(info.step, 2u);
  EXPECT_EQ(info.group_size, 4);
  EXPECT_EQ(info.options_identity, o.identity());
  EXPECT_TRUE(contains(info.options, "trainer.num_minibatches=2\n"));
  EXPECT_EQ(info.model->weight_version, 1u);
}

// A budget decides the micro-batch when the option leaves it open. Where another one holds, only
// the file knows what it was; without it the replay goes astray and the next file says so.
TEST(Replay, TakesTheMicroBatchThatABudgetChoseFromTheFile) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  o.set_i64("trainer.num_minibatches", 1);
  OptionSet least = o;
  least.set_i64("trainer.max_tokens_per_device", 64);
  OptionSet budgeted = o;
  budgeted.set_u64("runtime.memory_budget_bytes",
                   plan_memory(least, real_fs(), PlanUse::kPipeline).total_bytes);
  Rig rig(budgeted);
  rig.start_and_serve();
  const int64_t max_tokens = BufferFileReader(real_fs(), step_file(dir, 1)).info().max_tokens;
  EXPECT_EQ(max_tokens, rig.pipeline().plan().max_tokens);
  EXPECT_LT(max_tokens, 160) << "the 16 samples of a step have 10 rows each";
  Replay astray(o);
  astray.step(step_file(dir, 1));
  expect_error(Code::kIncompatible, [&] { astray.step(step_file(dir, 2)); });
  o.set_i64("trainer.max_tokens_per_device", max_tokens);
  expect_replay(o, dir, 3, rig);
}

TEST(Replay, DroppedAndZeroAdvantageGroupsCountAsInTheRun) {
  const TempDir dir;
  const OptionSet o = recording_options(dir);
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    // Step 1 loses ordinal 1, step 2 every group; the rewards of even ordinals are all equal.
    const bool lost = s->ordinal == 1 || (s->ordinal >= 4 && s->ordinal < 8);
    if (lost && s->slot == 2) return p.fail(s->id, "no verdict");
    testing::reward_unless_late(p, s, s->ordinal % 2 == 0 ? 0.5 : low_id_reward(*s));
  };
  rig.start_and_serve();
  EXPECT_EQ(rig.pipeline().status().ledger.prompts_trained, 7);
  Replay replay(o);
  EXPECT_EQ(replay.step(step_file(dir, 1)), 12u);
  EXPECT_EQ(replay.step(step_file(dir, 2)), 0u);
  EXPECT_EQ(replay.step(step_file(dir, 3)), 16u);
  EXPECT_EQ(replay.digest(), rig.model().weight_digest());
}

TEST(Replay, StartsOnlyFromTheWeightsOfTheStep) {
  const TempDir dir;
  const OptionSet o = recording_options(dir);
  Rig rig(o);
  const std::string start = hex64(rig.model().weight_digest());
  rig.start_and_serve();
  Replay replay(o);
  const Error e = expect_error(Code::kIncompatible, [&] { replay.step(step_file(dir, 2)); });
  EXPECT_TRUE(contains(e.message, start));
  BufferSession buffer(o, 100);
  EXPECT_EQ(buffer.load(step_file(dir, 2), nullptr), 16) << "when told not to look";
  expect_error(Code::kIncompatible, [&] { buffer.load(step_file(dir, 1), &rig.model()); });
}

TEST(Recording, ChangesNothingInTheRun) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  Rig recorded(o);
  const RunLog log = recorded.start_and_serve();
  o.unset("buffer.record_dir");
  Rig plain(o);
  EXPECT_EQ(plain.start_and_serve().fingerprint(), log.fingerprint());
  EXPECT_EQ(plain.model().weight_digest(), recorded.model().weight_digest());
}

TEST(Recording, MutatedFilesOfARunLoadOrAreNamedErrors) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig(o).start_and_serve();
  const std::string recorded = read_text_file(real_fs(), step_file(dir, 1), 1 << 20);
  const int rounds = test::fuzz_rounds(500);
  BufferMutation files, documents;
  files.mutate_file(recorded, rounds);
  EXPECT_GT(files.refused, rounds / 2);
  documents.mutate_documents(recorded, rounds);
  EXPECT_GT(documents.refused, rounds / 10);
  EXPECT_GT(documents.loaded, rounds / 50);
}

TEST(Recording, TheCompressionLevelActs) {
  const TempDir dir;
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> digests;
  for (const int level : {1, 19}) {
    const std::string record = str("level_", level);
    OptionSet o = recording_options(dir, record.c_str());
    o.set_i64("buffer.compression_level", level);
    Rig rig(o);
    rig.start_and_serve();
    sizes.push_back(files::file_size(step_file(dir, 1, record.c_str())));
    Replay replay(o);
    for (int step = 1; step <= 3; ++step) replay.step(step_file(dir, step, record.c_str()));
    digests.push_back(replay.digest());
  }
  EXPECT_LT(sizes[1], sizes[0]);
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Recording, ADirectoryOfAnotherRunIsRefused) {
  const TempDir dir;
  const OptionSet o = recording_options(dir);
  { Rig(o).start_and_serve(); }
  testing::write_lines(dir.file("record/0_notes.txt"),
                       {"a file of the host, listed before the steps"});
  const Error e = expect_error(Code::kAlreadyExists, [&] { Rig again(o); });
  EXPECT_EQ(e.key, "buffer.record_dir");
  EXPECT_EQ(e.location, step_file(dir, 1));
  EXPECT_EQ(e.message,
            "buffer.record_dir contains step_000001.rlbuf of an earlier run; use another "
            "directory");
}

// The run crashed after step 3 with its last checkpoint at step 2.
TEST(Recording, AResumedRunRecordsOnAndSetsTheLostFutureAside) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 2);
  o.set_i64("pipeline.total_steps", 3);
  { Rig(o).start_and_serve(); }
  files::remove_all(dir.file("checkpoints/step_000003"));
  o.set_string("checkpoint.resume", "auto");
  o.set_i64("pipeline.total_steps", 5);
  Rig resumed(o);
  EXPECT_EQ(resumed.pipeline().status().step, 2u);
  resumed.pipeline().start();
  resumed.serve();
  EXPECT_TRUE(real_fs().exists(step_file(dir, 3) + ".abandoned"));
  expect_replay(o, dir, 5, resumed);
}

// A run of three steps that goes on from its second one.
TEST(Recording, AResumeByNameRecordsOnInTheSameDirectory) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 1);
  { Rig(o).start_and_serve(); }
  o.set_string("checkpoint.resume", dir.file("checkpoints/step_000002"));
  o.set_i64("pipeline.total_steps", 4);
  Rig resumed(o);
  EXPECT_EQ(resumed.pipeline().status().step, 2u);
  EXPECT_EQ(resumed.start_and_serve().steps.size(), 2u);
  EXPECT_FALSE(real_fs().exists(step_file(dir, 2) + ".abandoned"));
  EXPECT_TRUE(real_fs().exists(step_file(dir, 3) + ".abandoned"));
  expect_replay(o, dir, 4, resumed);
}

// A disk that fails while step 2 is recorded: the weights are those after step 1.
TEST(Recording, AFailedRecordEndsTheRunBeforeItsUpdate) {
  const TempDir dir;
  OptionSet o = recording_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  uint64_t after_one;
  {
    Rig one(o);
    one.start_and_serve();
    after_one = one.model().weight_digest();
  }
  files::remove_all(dir.file("record"));
  o.set_i64("pipeline.total_steps", 3);
  FaultFs fs;
  Rig rig(o, false, &fs);
  rig.on_score = [&, scored = 0](Pipeline& p, const SamplePtr& s) mutable {
    // The loop waits for this score: no file operation is under way.
    if (++scored == 32) fs.arm({.at = 1, .system_code = ENOSPC, .for_ever = true});
    p.score(s->id, low_id_reward(*s));
  };
  rig.pipeline().start();
  const Error e = expect_error(Code::kIo, [&] { rig.serve(); });
  EXPECT_TRUE(contains(e.message, "step_000002.rlbuf"));
  EXPECT_EQ(e.system_code, ENOSPC);
  EXPECT_EQ(rig.model().weight_digest(), after_one);
  EXPECT_EQ(rig.pipeline().status().step, 1u);
}

}  // namespace
}  // namespace rl

// Small things of a run: counts of one evaluation, epochs at their edges, rows of replaced groups,
// what a resume goes on from, and what a recorded step says of itself.
#include <map>
#include <set>

#include "pipeline/loop/run_state.h"
#include "pipeline/prompts/prompt_row.h"
#include "pipeline/session/buffer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace rl {
namespace {

using testing::options_with;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;

OptionSet with_eval(const TempDir& dir, const std::vector<std::string>& assignments) {
  write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  OptionSet o = options_with(dir, assignments);
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_text("eval.every_steps", "1");
  return o;
}

TEST(RunDetails, EveryEvaluationCountsItsOwnFailures) {
  const TempDir dir;
  Rig rig(with_eval(dir, {"pipeline.total_steps=2"}));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kEval && s->data_row == 1) {
      p.fail(s->id, "broken");
    } else {
      p.score(s->id, testing::low_id_reward(*s));
    }
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 2u);
  for (const auto& e : log.evals) EXPECT_EQ(e->num_failed, 1);
}

TEST(RunDetails, AStepThatEndsAnEpochIsOfThatEpoch) {
  const TempDir dir;  // ten rows
  Rig rig(options_with(dir, {"pipeline.prompts_per_step=5"}));
  EXPECT_EQ(rig.start_and_serve().series("training/epoch"), (std::vector<double>{0, 0, 1}));
}

TEST(RunDetails, ReplacedGroupsAreOfFurtherRows) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.filter=spread", "pipeline.total_steps=1"}));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, s->ordinal < 4 ? 1.0 : 0.25 * s->slot);
  };
  std::map<uint64_t, int64_t> row;
  std::set<int64_t> rows;
  for (const SamplePtr& s : rig.start_and_serve().samples) row[s->ordinal] = s->data_row;
  for (const auto& [ordinal, data_row] : row) rows.insert(data_row);
  EXPECT_EQ(row.size(), 8u);
  EXPECT_EQ(rows.size(), 8u) << "eight draws of an epoch of ten rows";
}

TEST(RunDetails, AGreedyResponseIsShapedLikeItsGroup) {
  const TempDir dir;
  Rig rig(options_with(
      dir, {"algo.advantage=remax", "algo.reward.clip_high=0.25", "pipeline.total_steps=1"}));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) { p.score(s->id, s->slot == 4 ? 1 : 0.5); };
  EXPECT_EQ(rig.start_and_serve().series("critic/advantages/mean"), std::vector<double>{0});
}

// Nothing of the step was learnt, so none of its groups counts as trained on.
TEST(RunDetails, AStepWithoutAnUpdateTrainsNoGroup) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.overlong_filter=true", "pipeline.total_steps=1"}));
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps[0].get("training/optimizer_steps"), 0.0);
  EXPECT_EQ(rig.pipeline().status().ledger.prompts_trained, 0);
  ASSERT_EQ(log.dropped.size(), 4u);
  for (const auto& d : log.dropped) {
    EXPECT_EQ(d->reason, DropReason::kFiltered);
    EXPECT_EQ(d->message, "the step ended: no token carried loss");
  }
}

TEST(RunDetails, AStepWhoseUpdateIsNotFiniteSaysSo) {
  const TempDir dir;
  Rig rig(options_with(dir, {"algo.adv_norm_std=false", "pipeline.total_steps=1"}));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, s->slot % 2 == 0 ? 1e300 : -1e300);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps[0].get("training/skipped_steps"), 1.0);
  ASSERT_EQ(log.dropped.size(), 4u);
  for (const auto& d : log.dropped) EXPECT_EQ(d->reason, DropReason::kNonFinite);
}

TEST(RunDetails, EvaluationsOfAResumedRunDrawOnWhereTheyStopped) {
  std::vector<std::vector<int32_t>> responses[2];
  for (const bool cut : {false, true}) {
    const TempDir dir;
    OptionSet o = with_eval(
        dir, {"eval.temperature=1", "checkpoint.every_steps=1", "pipeline.total_steps=2"});
    o.set_string("checkpoint.dir", dir.file("checkpoints"));
    if (cut) {
      OptionSet first = o;
      first.set_text("pipeline.total_steps", "1");
      { Rig(first).start_and_serve(); }
      o.set_text("checkpoint.resume", "auto");
    }
    Rig rig(o);
    for (const SamplePtr& s : rig.start_and_serve().samples) {
      if (s->purpose == Purpose::kEval && s->ordinal >= 3) responses[cut].push_back(s->ids);
    }
    EXPECT_EQ(responses[cut].size(), 3u);
  }
  std::ranges::sort(responses[0]);
  std::ranges::sort(responses[1]);
  EXPECT_EQ(responses[0], responses[1]);
}

class LogLines final : public LogSink {
 public:
  void write(const LogRecord& record) override { lines.emplace_back(record.message); }
  std::vector<std::string> lines;
};

OptionSet fed_options(const TempDir& dir) {
  OptionSet o = options_with(dir, {"pipeline.total_steps=0"});
  o.set_text("data.path", "");
  return o;
}

TEST(RunDetails, RowsOfAFeedThatFillNoStepAreReported) {
  const TempDir dir;
  Rig rig(fed_options(dir));
  const auto log = std::make_shared<LogLines>();
  rig.runtime().logger().set_sink(log);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(rig.pipeline().feed_ids({1, 2, 3 + i}, ""));
  rig.pipeline().end_feed();
  EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
  ASSERT_EQ(log->lines.size(), 1u);
  EXPECT_TRUE(contains(log->lines[0], "2 rows of the feed")) << log->lines[0];
}

TEST(RunDetails, RowsOfAFeedAreNumberedOnAfterAResume) {
  const TempDir dir;
  OptionSet o = fed_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_text("checkpoint.every_steps", "1");
  {
    Rig rig(o);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.pipeline().feed_ids({1, 2, 3 + i}, ""));
    rig.pipeline().end_feed();
    EXPECT_EQ(rig.start_and_serve().checkpoints.size(), 1u);
  }
  o.set_text("checkpoint.resume", "auto");
  Rig rig(o);
  const Error e = expect_error(Code::kDataLoss, [&] { rig.pipeline().feed_line("[]"); });
  EXPECT_EQ(e.location, "feed:5");
}

TEST(RunDetails, AStateOfAnotherStepThanItsCheckpointIsRefused) {
  const TempDir dir;
  OptionSet o = options_with(dir, {"pipeline.total_steps=1", "checkpoint.every_steps=1"});
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  { Rig(o).start_and_serve(); }
  const std::string path = dir.file("checkpoints/step_000001");
  CheckpointManifest manifest = read_manifest(real_fs(), path);
  RunState state = parse_run_state(manifest.state.meta.pipeline, path);
  state.step = 2;
  manifest.state.meta.pipeline = render_run_state(state);
  write_manifest(real_fs(), path, manifest);
  o.set_text("checkpoint.resume", "auto");
  const Error e = expect_error(Code::kDataLoss, [&] { Rig rig(o); });
  EXPECT_EQ(e.location, path);
  EXPECT_EQ(e.message, path + " is the checkpoint of step 1 but its run state is of step 2");
}

TEST(RunDetails, AResponseThatIsOneTokenTooLongIsRefused) {
  const TempDir dir;
  const OptionSet o = tiny_options(dir);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel);
  const auto make = [&](const char* row) {
    return make_prompt(parse_prompt_row(row, "f:1"), *model, {1, 8, Objective::kSft}, "f:1");
  };
  EXPECT_EQ(make(R"({"ids": [1, 2, 3, 4], "response": [5, 6, 7, 8]})").responses.front().size(),
            4u);
  const Error e = expect_error(
      Code::kOutOfRange, [&] { make(R"({"ids": [1, 2, 3, 4], "response": [5, 6, 7, 8, 9]})"); });
  EXPECT_TRUE(contains(e.message, "5 tokens of /response"));
}

TEST(RunDetails, ARecordedStepNamesTheSizeOfItsGroups) {
  const TempDir dir;
  OptionSet o = options_with(dir, {"pipeline.total_steps=1"});
  o.set_string("buffer.record_dir", dir.file("record"));
  { Rig(o).start_and_serve(); }
  const BufferInfo info = BufferSession::file_info(dir.file("record/step_000001.rlbuf"));
  EXPECT_EQ(info.group_size, 4);
  EXPECT_EQ(info.step, 1u);
}

}  // namespace
}  // namespace rl

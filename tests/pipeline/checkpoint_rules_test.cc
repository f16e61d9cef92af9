// A run whose checkpoints cannot be written stops or goes on, as checkpoint.on_failure says, and
// those with the best values of checkpoint.metric stay.
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"

namespace rl {
namespace {

using testing::low_id_reward;
using testing::options_with;
using testing::Rig;
using testing::RunLog;

// Fails to sync a file of the checkpoint of one step.
class FullAtStep final : public FaultFs {
 public:
  explicit FullAtStep(std::string step) : step_(std::move(step)) {}
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    if (path.find(step_) != std::string::npos && path.ends_with("masters.safetensors"))
      arm({.at = 3, .system_code = ENOSPC});
    return FaultFs::create(path);
  }

 private:
  const std::string step_;
};

std::vector<std::string> every_step(const TempDir& dir, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"checkpoint.dir=" + dir.file("checkpoints"),
                                  "checkpoint.every_steps=1", "pipeline.total_steps=3"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(CheckpointFailure, ARunThatGoesOnTellsItAndWritesTheNext) {
  const TempDir dir;
  FullAtStep fs("step_000002");
  Rig rig(options_with(dir, every_step(dir, {"checkpoint.on_failure=continue"})), false, &fs);
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 3u);
  ASSERT_EQ(log.failed_checkpoints.size(), 1u);
  EXPECT_EQ(log.failed_checkpoints[0]->step, 2u);
  EXPECT_NE(log.failed_checkpoints[0]->message.find("step_000002"), std::string::npos);
  ASSERT_EQ(log.checkpoints.size(), 2u);
  EXPECT_EQ(log.checkpoints[0]->step, 1u);
  EXPECT_EQ(log.checkpoints[1]->step, 3u);
  EXPECT_FALSE(log.steps[1].get("pipeline/checkpoints_failed").has_value());
  EXPECT_EQ(log.steps[2].get("pipeline/checkpoints_failed"), 1.0);
  EXPECT_FALSE(real_fs().exists(dir.file("checkpoints/step_000002")));
}

TEST(CheckpointFailure, TheRunThatWentOnResumesAsIfItHadNotFailed) {
  const TempDir dir, whole_dir;
  FullAtStep fs("step_000003");
  {
    Rig rig(options_with(dir, every_step(dir, {"checkpoint.on_failure=continue"})), false, &fs);
    rig.start_and_serve();
  }
  const auto resumed = [&](const TempDir& of) {
    OptionSet o = options_with(of, every_step(of, {"checkpoint.resume=auto"}));
    o.set_text("pipeline.total_steps", "4");
    Rig rig(o);
    rig.start_and_serve();
    return rig.model().weight_digest();
  };
  {
    Rig rig(options_with(whole_dir, every_step(whole_dir, {})));
    rig.start_and_serve();
  }
  EXPECT_EQ(resumed(dir), resumed(whole_dir));
}

TEST(CheckpointFailure, ByDefaultItEndsTheRun) {
  const TempDir dir;
  FullAtStep fs("step_000002");
  Rig rig(options_with(dir, every_step(dir, {})), false, &fs);
  rig.ends_with = Code::kIo;
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 2u);
  EXPECT_TRUE(log.failed_checkpoints.empty());
}

TEST(BestCheckpoints, AMetricThatNoStepHasIsNamed) {
  const TempDir dir;
  Rig rig(options_with(dir, every_step(dir, {"checkpoint.metric=no/such"})));
  rig.ends_with = Code::kNotFound;
  rig.start_and_serve();
  ASSERT_NE(rig.pipeline().failure(), nullptr);
  EXPECT_EQ(rig.pipeline().failure()->key, "checkpoint.metric");
  EXPECT_NE(rig.pipeline().failure()->message.find("no/such"), std::string::npos);
}

TEST(BestCheckpoints, AMetricOfEvaluationsThatNeverRunIsNamed) {
  const TempDir dir;
  Rig rig(options_with(dir, every_step(dir, {"checkpoint.metric=eval/rewards/mean"})));
  rig.ends_with = Code::kNotFound;
  rig.start_and_serve();
  ASSERT_NE(rig.pipeline().failure(), nullptr);
  EXPECT_EQ(rig.pipeline().failure()->key, "checkpoint.metric");
  EXPECT_NE(rig.pipeline().failure()->message.find("eval.path"), std::string::npos);
}

TEST(BestCheckpoints, AMetricOfAnEvaluationHoldsUntilTheNext) {
  const TempDir dir;
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(2));
  OptionSet o = options_with(
      dir, every_step(dir, {"checkpoint.keep_last=1", "checkpoint.keep_best=3",
                            "checkpoint.metric=eval/rewards/mean", "eval.every_steps=2",
                            "eval.path=" + dir.file("eval.jsonl")}));
  o.set_text("pipeline.total_steps", "4");
  Rig rig(o);
  // The first evaluation, after step 2, is better than the second.
  int64_t evals = 0;
  rig.on_event = [&](const Event& e) {
    evals += e.kind() == static_cast<int32_t>(EventKind::kEval) ? 1 : 0;
  };
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    p.score(s->id,
            s->purpose == Purpose::kEval ? 1.0 - static_cast<double>(evals) : low_id_reward(*s));
  };
  rig.start_and_serve();
  for (const int step : {1, 2, 3, 4}) {
    EXPECT_EQ(real_fs().exists(dir.file("checkpoints/step_00000" + std::to_string(step))), step > 1)
        << step;
  }
}

}  // namespace
}  // namespace rl

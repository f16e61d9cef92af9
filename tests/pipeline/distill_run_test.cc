// On-policy distillation: every token's advantage follows the teacher's log-probs of what the
// policy generated, or the loss its whole rows; the run nears its teacher, and memory, resume and
// errors are as for any run.
#include "core/arena.h"
#include "host_batch.h"
#include "pipeline/update/teacher_role.h"
#include "pipeline/update/trainer_session.h"
#include "replay_rig.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::host_batch;
using testing::LlamaShape;
using testing::Replay;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_random_llama;

OptionSet distill_options(const TempDir& dir, const std::string& teacher) {
  OptionSet o = tiny_options(dir);
  o.set_text("algo.objective", "distill");
  o.set_string("model.teacher_path", fixture_model(teacher));
  return o;
}

// All responses are as good.
RunLog play_without_rewards(Rig& rig) {
  rig.on_score = [](Pipeline& p, const SamplePtr& s) { p.score(s->id, 0.5); };
  return rig.start_and_serve();
}

// The weights at the end of a run, which takes the memory of its plan.
uint64_t planned_digest(const OptionSet& o, const MemoryPlan& plan) {
  Rig rig(o);
  EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
  rig.start_and_serve();
  EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
  return rig.model().weight_digest();
}

// Those of four steps, of which a resumed run with more threads takes the last two.
uint64_t resumed_digest(OptionSet o, const TempDir& dir) {
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("pipeline.total_steps", 2);
  o.set_i64("checkpoint.every_steps", 2);
  Rig(o).start_and_serve();
  o.set_i64("pipeline.total_steps", 4);
  o.set_string("checkpoint.resume", "auto");
  o.set_i64("runtime.threads", 2);
  Rig rest(o);
  rest.start_and_serve();
  return rest.model().weight_digest();
}

TEST(Distill, LowersItsKlToATeacherOfAnotherFamily) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "qwen2");
  o.set_text("pipeline.total_steps", "48");
  o.set_text("algo.policy_loss", "none");
  Rig rig(o);
  const std::vector<double> kl = play_without_rewards(rig).series("actor/distill_kl");
  const auto mean = [&](size_t first) {
    double sum = 0;
    for (size_t i = first; i < first + 6; ++i) sum += kl[i] / 6;
    return sum;
  };
  // An estimate from 128 tokens a step.
  EXPECT_GT(mean(0), 0);
  EXPECT_LT(mean(42), 0.8 * mean(0));
}

TEST(Distill, TakesTheLogRatioToTheTeacherOffTheAdvantages) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "qwen2");
  o.set_f64("algo.distill.coef", 0.25);
  OptionSet alone = tiny_options(dir, "qwen2");
  const auto open = [](const OptionSet& options) {
    return LoadedModel::open(std::make_shared<Runtime>(options), options, PlanUse::kTrain);
  };
  TrainerSession trainer(open(o), testing::for_session(o)),
      teacher(open(alone), testing::for_session(alone));
  const std::vector<SamplePtr> batch = host_batch(trainer, {.temperature = 0.8f});
  for (const SamplePtr& s : batch) s->reward = 1;
  double sum = 0, tokens = 0;
  for (const SamplePtr& s : batch) {
    const std::vector<float> q = teacher.logprobs(s->ids, 2, 0.8f);
    for (size_t t = 0; t < q.size(); ++t) {
      if (s->loss_mask[t] == 0) continue;
      sum += double{s->logprobs[t]} - q[t];
      tokens += 1;
    }
  }
  const MetricList m = trainer.step(batch);
  EXPECT_NEAR(m.get("actor/distill_kl").value(), sum / tokens, 1e-12);
  // Equal rewards have no advantage of their own.
  EXPECT_NEAR(m.get("critic/advantages/mean").value(), -0.25 * sum / tokens, 1e-12);
  EXPECT_GT(m.get("timing_s/teacher").value(), 0);
  // Advantages of the host are shifted alike.
  const std::vector<double> one(8, 1.0);
  const MetricList given = trainer.step_with_advantages(batch, one);
  EXPECT_NEAR(given.get("critic/advantages/mean").value(), 1 - 0.25 * sum / tokens, 1e-6);
}

// The head is computed in chunks of rows; no log-prob depends on their size.
TEST(Distill, EveryTokenHasALogProbOfTheTeacherWhateverTheChunksOfTheHead) {
  const auto first_kl = [](const char* chunk_tokens) {
    const TempDir dir;
    OptionSet o = distill_options(dir, "qwen2");
    o.set_text("pipeline.total_steps", "1");
    o.set_text("trainer.logprob_chunk_tokens", chunk_tokens);
    Rig rig(o);
    return play_without_rewards(rig).series("actor/distill_kl").front();
  };
  EXPECT_EQ(first_kl("7"), first_kl("1024"));
}

TEST(Distill, ATeacherThatIsThePolicyChangesNothing) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "llama");
  o.set_text("pipeline.total_steps", "1");
  Rig taught(o);
  EXPECT_EQ(taught.start_and_serve().series("actor/distill_kl"), std::vector<double>{0});
  OptionSet plain = tiny_options(dir);
  plain.set_text("pipeline.total_steps", "1");
  Rig rig(plain);
  rig.start_and_serve();
  EXPECT_EQ(taught.model().weight_digest(), rig.model().weight_digest());
}

TEST(Distill, IsPlannedAndResumed) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "mistral");
  o.set_text("pipeline.total_steps", "4");
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
  const uint64_t digest = planned_digest(o, plan);
  EXPECT_EQ(resumed_digest(o, dir), digest);
}

TEST(Distill, ATeacherThatCannotTeachIsNamed) {
  for (const char* kl : {"sampled", "reverse"}) {
    const TempDir dir;
    OptionSet o = distill_options(dir, "qwen2");
    o.set_text("algo.distill.kl", kl);
    o.set_string("model.teacher_path", std::string(RL_FIXTURES) + "/gguf/tiny_llama_half.gguf");
    const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kPipeline);
    const Error e = expect_error(Code::kIncompatible, [&] { const Pipeline p(model, o); });
    EXPECT_EQ(e.key, "model.teacher_path");
    EXPECT_TRUE(contains(e.message, "256"));
    o.set_string("model.teacher_path",
                 write_random_llama(dir.file("short"), LlamaShape{.max_position = 16}));
    EXPECT_EQ(expect_error(Code::kIncompatible, [&] { const Pipeline p(model, o); }).other_key,
              "engine.max_model_len");
    o.set_string("model.teacher_path", dir.file("none"));
    expect_error(Code::kNotFound, [&] { plan_memory(o, real_fs(), PlanUse::kTrain); });
  }
}

// On whole rows; no reward teaches.
OptionSet row_options(const TempDir& dir, const std::string& teacher, const std::string& kl) {
  OptionSet o = distill_options(dir, "qwen2");
  o.set_string("model.teacher_path", teacher);
  o.set_text("algo.distill.kl", kl);
  o.set_text("algo.distill.rewards", "false");
  return o;
}

class RowDistill : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RowDistill, ::testing::Values("forward", "reverse", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RowDistill, LowersItsDivergenceFromATeacherOfAnotherShape) {
  const TempDir dir;
  const std::string teacher =
      write_random_llama(dir.file("teacher"), {.hidden = 48, .layers = 3, .heads = 3});
  OptionSet o = row_options(dir, teacher, GetParam());
  o.set_text("pipeline.total_steps", "10");
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  const std::vector<double> kl = log.series("actor/distill_kl");
  EXPECT_GT(kl.front(), 0);
  // The generated prefixes differ from step to step, and with them the divergence by some percents.
  EXPECT_LT(kl.back(), 0.8 * kl.front());
  EXPECT_EQ(log.series("actor/pg_loss"), std::vector<double>(10, 0));
  EXPECT_EQ(log.series("actor/loss"), log.series("actor/distill_loss"));
  EXPECT_EQ(log.series("training/logprob_max_abs_diff"), std::vector<double>(10, 0));
  EXPECT_GT(log.series("timing_s/teacher").back(), 0);
}

TEST_P(RowDistill, IsPlannedResumedAndReplayed) {
  const TempDir dir;
  const std::string teacher = write_random_llama(dir.file("teacher"), {.hidden = 96, .heads = 3});
  OptionSet o = row_options(dir, teacher, GetParam());
  o.set_text("algo.distill.rewards", "true");
  o.set_text("pipeline.total_steps", "4");
  o.set_string("buffer.record_dir", dir.file("record"));
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
  uint64_t kept = 0;
  for (const PlanEntry& e : plan.parts) kept += e.name == "rows of the teacher" ? e.bytes : 0;
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(plan.train_workspace_bytes, plan.train_offsets.teacher_kept + kept);
  const uint64_t digest = planned_digest(o, plan);
  {
    Replay replay(o);
    for (int step = 1; step <= 4; ++step) {
      replay.step(dir.file(str("record/step_00000", step, ".rlbuf")));
    }
    EXPECT_EQ(replay.digest(), digest);
  }
  o.set_string("buffer.record_dir", "");
  EXPECT_EQ(resumed_digest(o, dir), digest);
}

TEST(DistillRows, RewardsTeachBesideTheTeacherUnlessTheyAreLeftOut) {
  const TempDir dir;
  const auto digest = [&](const char* rewards, bool vary) {
    OptionSet o = row_options(dir, fixture_model("qwen2"), "reverse");
    o.set_text("algo.distill.rewards", rewards);
    Rig rig(o);
    if (!vary) rig.on_score = [](Pipeline& p, const SamplePtr& s) { p.score(s->id, 0.5); };
    rig.start_and_serve();
    return rig.model().weight_digest();
  };
  const uint64_t alone = digest("false", true);
  EXPECT_EQ(digest("false", false), alone);
  EXPECT_EQ(digest("true", false), alone);  // equal rewards have no advantage
  EXPECT_NE(digest("true", true), alone);
}

TEST(DistillRows, RewardsAreLeftOutOfTheSampledFormToo) {
  const TempDir dir;
  const auto advantage = [&](const char* rewards) {
    OptionSet o = row_options(dir, fixture_model("qwen2"), "sampled");
    o.set_text("algo.distill.rewards", rewards);
    o.set_text("pipeline.total_steps", "1");
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    return std::pair(log.series("critic/advantages/max")[0],
                     -log.series("actor/distill_kl")[0] - log.series("critic/advantages/mean")[0]);
  };
  // The mean over groups is 0 with rewards as well, to rounding.
  EXPECT_EQ(advantage("false").second, 0);
  EXPECT_NE(advantage("false").first, advantage("true").first);
}

TEST(DistillRows, ATeacherThatIsThePolicyHasNoLoss) {
  const TempDir dir;
  OptionSet o = row_options(dir, fixture_model("llama"), "mixed");
  o.set_text("pipeline.total_steps", "1");
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.series("actor/loss"), std::vector<double>{0});
  EXPECT_EQ(log.series("actor/grad_norm"), std::vector<double>{0});
}

TEST(DistillRows, TakesTheBatchesOfAHost) {
  const TempDir dir;
  OptionSet o = row_options(dir, fixture_model("mistral"), "forward");
  o.set_text("optimizer.lr", "1e-2");
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o));
  EXPECT_EQ(model->runtime().ledger().bytes(),
            plan_memory(o, real_fs(), PlanUse::kTrain).arena_bytes);
  const std::vector<SamplePtr> batch = host_batch(trainer, {.temperature = 0.8f});
  const double first = trainer.step(batch).get("actor/distill_kl").value();
  EXPECT_LT(trainer.step(batch).get("actor/distill_kl").value(), first);
  const std::vector<double> advantages(8, 1.0);
  const Error e =
      expect_error(Code::kConflict, [&] { trainer.step_with_advantages(batch, advantages); });
  EXPECT_EQ(e.key, "step.advantages");
  EXPECT_EQ(e.other_key, "algo.distill.rewards");
}

}  // namespace
}  // namespace rl

// On-policy distillation: every token's advantage follows the teacher's log-probs of what the
// policy drew, the run nears its teacher, and memory, resume and errors are as for any run.
#include "core/arena.h"
#include "pipeline/teacher_role.h"
#include "pipeline/trainer_part.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

OptionSet distill_options(const TempDir& dir, const std::string& teacher) {
  OptionSet o = tiny_options(dir);
  o.set_text("algo.objective", "distill");
  o.set_string("model.teacher_path", fixture_model(teacher));
  return o;
}

// All answers are as good.
RunLog play_without_rewards(Rig& rig) {
  rig.on_score = [](Pipeline& p, const SamplePtr& s) { p.score(s->id, 0.5); };
  return rig.start_and_play();
}

TEST(Distill, LowersItsKlToATeacherOfAnotherFamily) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "qwen2");
  o.set_text("pipeline.total_steps", "24");
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
  EXPECT_LT(mean(18), 0.8 * mean(0));
}

std::vector<SamplePtr> batch_of(TrainerPart& trainer) {
  std::vector<SamplePtr> batch;
  for (int32_t i = 0; i < 8; ++i) {
    auto s = std::make_shared<Sample>();
    s->id = static_cast<uint64_t>(i) + 1;
    s->ordinal = static_cast<uint64_t>(i / 4);
    s->slot = static_cast<uint32_t>(i % 4);
    s->ids = {4, 5 + i / 4, 60 + 9 * i, 61 + i, 7};
    s->prompt_tokens = 2;
    s->logprobs = trainer.logprobs(s->ids, 2, 0.8f);
    s->temperature = 0.8f;
    s->versions.assign(3, 0);
    s->loss_mask = {1, static_cast<uint8_t>(i % 2), 1};
    s->reward = 1;
    s->scored = true;
    batch.push_back(s);
  }
  return batch;
}

TEST(Distill, TakesTheLogRatioToTheTeacherOffTheAdvantages) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "qwen2");
  o.set_f64("algo.distill.coef", 0.25);
  OptionSet alone = tiny_options(dir, "qwen2");
  const auto open = [](const OptionSet& options) {
    return LoadedModel::open(std::make_shared<Runtime>(options), options, PlanUse::kTrain);
  };
  TrainerPart trainer(open(o), o), teacher(open(alone), alone);
  const std::vector<SamplePtr> batch = batch_of(trainer);
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

TEST(Distill, ATeacherThatIsThePolicyChangesNothing) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "llama");
  o.set_text("pipeline.total_steps", "1");
  Rig taught(o);
  EXPECT_EQ(taught.start_and_play().series("actor/distill_kl"), std::vector<double>{0});
  OptionSet plain = tiny_options(dir);
  plain.set_text("pipeline.total_steps", "1");
  Rig rig(plain);
  rig.start_and_play();
  EXPECT_EQ(taught.model().weight_digest(), rig.model().weight_digest());
}

TEST(Distill, IsPlannedAndResumed) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "mistral");
  o.set_text("pipeline.total_steps", "4");
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
  uint64_t digest = 0;
  {
    Rig rig(o);
    EXPECT_EQ(Arena::live_bytes(), plan.arena_bytes);
    rig.start_and_play();
    EXPECT_EQ(Arena::live_bytes(), plan.arena_bytes);
    digest = rig.model().weight_digest();
  }
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("pipeline.total_steps", 2);
  o.set_i64("checkpoint.every_steps", 2);
  Rig(o).start_and_play();
  o.set_i64("pipeline.total_steps", 4);
  o.set_string("checkpoint.resume", "auto");
  o.set_i64("runtime.threads", 2);
  Rig rest(o);
  rest.start_and_play();
  EXPECT_EQ(rest.model().weight_digest(), digest);
}

TEST(Distill, ATeacherThatCannotTeachIsNamed) {
  const TempDir dir;
  OptionSet o = distill_options(dir, "qwen2");
  o.set_string("model.teacher_path", std::string(RL_FIXTURES) + "/gguf/tiny_llama_half.gguf");
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kPipeline);
  const Error e = expect_error(Code::kIncompatible, [&] { const Pipeline p(model, o); });
  EXPECT_EQ(e.key, "model.teacher_path");
  EXPECT_TRUE(contains(e.message, "256"));
  o.set_string("model.teacher_path", dir.file("none"));
  expect_error(Code::kNotFound, [&] { plan_memory(o, real_fs(), PlanUse::kTrain); });
}

}  // namespace
}  // namespace rl

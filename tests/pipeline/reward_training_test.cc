// A reward model from its training to its use: what a run writes scores the samples of another run
// to the same bits, held-out pairs are counted, and what a model of scores cannot do is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "pipeline/session/buffer_session.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::computable_dtypes;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;
using Texts = std::vector<std::string>;

// Rows of prompts that end in 20 + i; the chosen response has ids below 64, the rejected one
// others.
Texts pair_rows(int count, int first = 0) {
  Texts rows;
  for (int i = first; i < first + count; ++i) {
    rows.push_back(str("{\"ids\": [1, ", 10 + i % 5, ", ", 20 + i, "], \"chosen\": [", 3 + i, ", ",
                       40 - i, "], \"rejected\": [", 100 + 3 * i, ", ", 200 - 2 * i, ", 90]}"));
  }
  return rows;
}

OptionSet reward_options(const TempDir& dir, const Texts& texts = {}) {
  OptionSet o = tiny_options(dir);
  for (const char* key :
       {"engine.max_num_batched_tokens", "engine.max_num_seqs", "pipeline.samples_per_prompt",
        "sampling.ignore_eos", "sampling.max_new_tokens"}) {
    o.unset(key);
  }
  for (const char* text : {"algo.objective=reward_model", "pipeline.total_steps=6"}) {
    o.set_assignment(text);
  }
  write_lines(dir.file("data.jsonl"), pair_rows(12));
  write_lines(dir.file("eval.jsonl"), pair_rows(7, 12));
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

std::shared_ptr<LoadedModel> open(const OptionSet& o, PlanUse use) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, use);
}

TEST(RewardTraining, WhatARunSavesScoresAnotherRunToTheSameBits) {
  const TempDir dir;
  const OptionSet o = reward_options(dir);
  Rig rig(o);
  rig.start_and_serve();
  rig.model().save(dir.file("reward"), Dtype::kF32, false);

  OptionSet rl = tiny_options(dir);
  rl.set_string("model.reward_path", dir.file("reward"));
  rl.set_string("buffer.record_dir", dir.file("record"));
  Rig policy(rl);
  const RunLog log = policy.start_and_serve();
  EXPECT_TRUE(log.samples.empty());
  EXPECT_NE(log.series("critic/score/max").front(), log.series("critic/score/min").front());

  // The trained model as a trainer of its own, without a step.
  OptionSet again = o;
  again.set_string("model.path", dir.file("reward"));
  const auto model = open(again, PlanUse::kTrain);
  EXPECT_EQ(model->weight_digest(), rig.model().weight_digest());
  TrainerSession trainer(model, testing::for_session(again));
  BufferSession buffer(rl, 100);
  size_t compared = 0;
  for (int step = 1; step <= 3; ++step) {
    buffer.load(dir.file(str("record/step_00000", step, ".rlbuf")), nullptr);
    const std::vector<SamplePtr> samples = buffer.take(100);
    const std::vector<float> scores = trainer.scores(samples);
    for (size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(samples[i]->reward, scores[i]);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 48u);
}

TEST(RewardTraining, HeldOutPairsAreCountedAndChangeNothing) {
  const TempDir dir;
  Rig plain(reward_options(dir));
  plain.start_and_serve();
  Rig rig(reward_options(dir, {"eval.path=" + dir.file("eval.jsonl"), "eval.every_steps=3",
                               "metrics.eval_jsonl=" + dir.file("evals.jsonl")}));
  rig.pipeline().request_eval();
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(rig.model().weight_digest(), plain.model().weight_digest());
  ASSERT_EQ(log.evals.size(), 3u);
  for (const auto& e : log.evals) {
    EXPECT_EQ(e->num_scored, 7);
    EXPECT_EQ(e->num_failed, 0);
    EXPECT_EQ(e->mean_reward, e->metrics.get("eval/rewards/accuracies"));
  }
  const MetricList &first = log.evals.front()->metrics, &last = log.evals.back()->metrics;
  EXPECT_NEAR(first.get("eval/loss").value(), std::log(2.0), 1e-12);
  EXPECT_EQ(first.get("eval/rewards/accuracies"), 0.0);  // a head of zeros prefers nothing
  EXPECT_LT(last.get("eval/loss").value(), 0.5);
  EXPECT_EQ(last.get("eval/rewards/accuracies"), 1.0);
  EXPECT_NEAR(last.get("eval/rewards/margins").value(),
              last.get("eval/rewards/chosen").value() - last.get("eval/rewards/rejected").value(),
              1e-12);
  EXPECT_EQ(log.evals.back()->step, 6u);
  const std::string file = read_text_file(real_fs(), dir.file("evals.jsonl"), 1 << 20);
  EXPECT_EQ(std::ranges::count(file, '\n'), 3);
}

// The same responses with their roles exchanged have the same rewards.
TEST(RewardTraining, AnEvaluationScoresBothResponsesOfAPair) {
  const TempDir dir;
  const auto last = [&](const char* chosen, const char* rejected) {
    const OptionSet o =
        reward_options(dir, {"eval.path=" + dir.file("pair.jsonl"), "eval.every_steps=3"});
    write_lines(dir.file("pair.jsonl"), {str("{\"ids\": [1, 10, 30], \"chosen\": ", chosen,
                                             ", \"rejected\": ", rejected, "}")});
    return Rig(o).start_and_serve().evals.back()->metrics;
  };
  const MetricList right = last("[3, 40]", "[136, 176, 90]");
  const MetricList wrong = last("[136, 176, 90]", "[3, 40]");
  EXPECT_LT(right.get("eval/rewards/rejected").value(), 0);
  EXPECT_EQ(right.get("eval/rewards/rejected"), wrong.get("eval/rewards/chosen"));
  EXPECT_EQ(right.get("eval/rewards/chosen"), wrong.get("eval/rewards/rejected"));
}

// The first id of the chosen and of the rejected response of row 3 of the held-out file, which no
// other row has.
TEST(RewardTraining, PairsWithoutFiniteScoresFailInAnEvaluation) {
  for (const int64_t id : {3 + 15, 100 + 3 * 15}) {
    SCOPED_TRACE(id);
    const TempDir dir;
    Rig rig(reward_options(dir, {"eval.path=" + dir.file("eval.jsonl"), "pipeline.total_steps=1",
                                 "eval.every_steps=1"}));
    Model& model = rig.model().model();
    const int64_t hidden = model.config().hidden;
    std::fill_n(model.master() + model.layout().embedding() + id * hidden, hidden, NAN);
    model.publish();
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.evals.at(0)->num_scored, 6);
    EXPECT_EQ(log.evals.at(0)->num_failed, 1);
    EXPECT_EQ(log.evals.at(0)->metrics.get("eval/failed"), 1.0);
    EXPECT_TRUE(std::isfinite(log.evals.at(0)->metrics.get("eval/loss").value()));
  }
}

TEST(RewardTraining, ThePlanEqualsTheLedger) {
  const TempDir dir;
  for (const Texts& texts :
       {Texts{},
        Texts{str("model.dtype=", computable_dtypes().back()), "trainer.sequence_packing=false"},
        Texts{"trainer.max_tokens_per_device=32", "trainer.logprob_max_tokens_per_device=32"},
        Texts{"trainer.dynamic_batching=false", "trainer.micro_batch_size=3"}}) {
    const OptionSet o = reward_options(dir, texts);
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
    Rig rig(o);
    EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
    const std::vector<double> loss = rig.start_and_serve().series("actor/loss");
    EXPECT_LT(loss.back(), loss.front());
    EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
  }
}

// A sample of engine.max_model_len tokens has as many rows.
TEST(RewardTraining, TheLongestSampleFitsItsBudgets) {
  const TempDir dir;
  const std::string ids = "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20";
  const std::string row = str("{\"ids\": [", ids, "], \"chosen\": [", ids, "], \"rejected\": [1]}");
  for (const char* text : {"trainer.max_tokens_per_device=32", "trainer.seq_len=32",
                           "trainer.logprob_max_tokens_per_device=32"}) {
    OptionSet o = reward_options(dir, {text, "pipeline.total_steps=1"});
    write_lines(dir.file("data.jsonl"), {row, row, row, row});
    EXPECT_EQ(Rig(o).start_and_serve().steps.size(), 1u);
    std::string less = text;
    less.replace(less.size() - 2, 2, "31");
    o.set_assignment(less);
    const Error e = expect_error(Code::kConflict, [&] { Rig rig(o); });
    EXPECT_EQ(e.expected, "0, or at least 32");
  }
}

TEST(RewardTraining, ARewardModelGeneratesNothingAndHasNoLogprobs) {
  const TempDir dir;
  const OptionSet scored = reward_options(dir), language = tiny_options(dir);
  const auto model = open(scored, PlanUse::kTrain);
  EXPECT_TRUE(model->config().scalar_head);
  const Error engine = expect_error(
      Code::kConflict, [&] { EngineSession part(model, testing::for_session(scored)); });
  EXPECT_EQ(engine.key, "algo.objective");
  EXPECT_TRUE(contains(engine.message, "cannot generate"));
  const Error other = expect_error(
      Code::kConflict, [&] { TrainerSession part(model, testing::for_session(language)); });
  EXPECT_EQ(other.key, "algo.objective");
  EXPECT_TRUE(contains(other.message, "opened with reward_model, with a scalar head"));
  const auto plain = open(language, PlanUse::kTrain);
  EXPECT_TRUE(
      contains(expect_error(Code::kConflict,
                            [&] { TrainerSession part(plain, testing::for_session(scored)); })
                   .message,
               "algo.objective is reward_model but the model was opened with rl, without"));
  TrainerSession trainer(model, testing::for_session(scored)),
      policy(plain, testing::for_session(language));
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] {
                           trainer.logprobs(std::vector<int32_t>{1, 2, 3}, 1, 1);
                         })
                .key,
            "algo.objective");
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { policy.scores({}); }).key,
            "algo.objective");
  const Error generate = expect_error(Code::kConflict, [&] { open(scored, PlanUse::kGenerate); });
  EXPECT_EQ(generate.key, "algo.objective");
}

TEST(RewardTraining, WeightsOfHalfAStepHaveNoScores) {
  const TempDir dir;
  const OptionSet o = reward_options(dir);
  const auto model = open(o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o));
  const auto s = std::make_shared<Sample>();
  s->ids = {1, 2, 3};
  s->prompt_tokens = 1;
  const std::vector<SamplePtr> samples = {s};
  const std::vector<float> scores = trainer.scores(samples);
  model->note_failed_step({model->model().published().release(), 1, 2});
  const Error e = expect_error(Code::kFailedPrecondition, [&] { trainer.scores(samples); });
  EXPECT_TRUE(contains(e.message, "half-trained"));
  trainer.publish();
  EXPECT_EQ(trainer.scores(samples), scores);
}

// What has a scalar head already is trained on.
TEST(RewardTraining, GoesOnFromARewardModel) {
  const TempDir dir;
  Rig first(reward_options(dir));
  const RunLog before = first.start_and_serve();
  first.model().save(dir.file("reward"), Dtype::kF32, false);
  OptionSet o = reward_options(dir, {"model.path=" + dir.file("reward"), "pipeline.total_steps=1"});
  Rig second(o);
  const RunLog after = second.start_and_serve();
  EXPECT_LT(after.series("actor/loss").front(), 0.5 * before.series("actor/loss").front());
}

}  // namespace
}  // namespace rl

// The objectives beside rl lower their losses on the real model. The figures stand in
// docs/algorithms.md.
#include <cstdlib>
#include <iostream>

#include "pipeline/run_rig.h"

namespace rl::testing {
namespace {

class SmolLm2Objectives : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RL_SMOLLM2_GGUF");
    if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
    for (const char* text :
         {"runtime.seed=3", "runtime.threads=2", "engine.max_model_len=96", "optimizer.lr=1e-5",
          "pipeline.prompts_per_step=8", "pipeline.total_steps=4"}) {
      options_.set_assignment(text);
    }
    options_.set_string("model.path", path);
    options_.set_string("data.path", dir_.file("data.jsonl"));
  }

  // Each step trains on the same eight rows; the responses are made from both summands and the sum.
  RunLog run(const std::function<std::string(int a, int b)>& answers,
             const std::string& save_to = "") {
    std::vector<std::string> rows;
    for (int i = 0; i < 8; ++i) {
      const int a = 3 + i, b = 11 - i;
      rows.push_back(str("{\"messages\": [{\"role\": \"user\", \"content\": \"What is ", a, " + ",
                         b, "?\"}], ", answers(a, b), "}"));
    }
    write_lines(dir_.file("data.jsonl"), rows);
    Rig rig(options_, true);
    rig.on_score = [](Pipeline& p, const SamplePtr& s) { p.score(s->id, 1); };
    RunLog log = rig.start_and_serve();
    if (!save_to.empty()) rig.model().save(save_to, Dtype::kBf16, false);
    return log;
  }
  // Sums, each with a response and something else, of three forms each.
  void write_pairs(const std::string& name, int count, int first) {
    std::vector<std::string> rows;
    for (int i = first; i < first + count; ++i) {
      const int a = 2 + i * 7 % 40, b = 3 + i * 11 % 37;
      const std::string good[] = {str(a, " + ", b, " = ", a + b, "."),
                                  str("The sum is ", a + b, "."), str("It is ", a + b, ".")};
      const std::string bad[] = {str("I cannot add ", a, " and ", b, "."), "Why do you ask?",
                                 str(b, " is a nice number.")};
      rows.push_back(str("{\"messages\": [{\"role\": \"user\", \"content\": \"What is ", a, " + ",
                         b, "?\"}], \"chosen\": \"", good[i % 3], "\", \"rejected\": \"",
                         bad[i / 3 % 3], "\"}"));
    }
    write_lines(dir_.file(name), rows);
  }
  static void print(const RunLog& log, const char* name) {
    std::cout << name;
    for (const double value : log.series(name)) std::cout << " " << value;
    std::cout << "\n";
  }

  TempDir dir_;
  OptionSet options_;
};

TEST_F(SmolLm2Objectives, SftLowersItsLoss) {
  options_.set_assignment("algo.objective=sft");
  const RunLog log = run([](int a, int b) {
    return str("\"response\": \"Adding ", b, " to ", a, " gives ", a + b, ".\"");
  });
  print(log, "actor/loss");
  const std::vector<double> loss = log.series("actor/loss");
  for (size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i], loss[i - 1]);
}

TEST_F(SmolLm2Objectives, DpoLowersItsLossAndTellsThePairsApart) {
  options_.set_assignment("algo.objective=dpo");
  const RunLog log = run([](int a, int b) {
    return str("\"chosen\": \"", a + b, "\", \"rejected\": \"I cannot add ", a, " and ", b, ".\"");
  });
  for (const char* name : {"actor/loss", "rewards/accuracies", "rewards/margins"}) print(log, name);
  const std::vector<double> loss = log.series("actor/loss");
  for (size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i], loss[i - 1]);
  EXPECT_EQ(log.series("rewards/accuracies").back(), 1);
}

// The held-out pairs have other summands. The rate is that of a head which begins with zeros.
TEST_F(SmolLm2Objectives, ARewardModelTellsHeldOutPairsApart) {
  if (std::getenv("RL_LONG") == nullptr) GTEST_SKIP() << "RL_LONG is not set";
  for (const char* text : {"algo.objective=reward_model", "optimizer.lr=1e-4",
                           "pipeline.total_steps=6", "eval.every_steps=3"}) {
    options_.set_assignment(text);
  }
  write_pairs("data.jsonl", 24, 0);
  write_pairs("eval.jsonl", 12, 1000);
  options_.set_string("eval.path", dir_.file("eval.jsonl"));
  Rig rig(options_, true);
  rig.pipeline().request_eval();
  const RunLog log = rig.start_and_serve();
  for (const char* name : {"actor/loss", "rewards/accuracies", "rewards/margins"}) print(log, name);
  for (const char* name : {"eval/loss", "eval/rewards/accuracies", "eval/rewards/margins"}) {
    std::cout << name;
    for (const auto& e : log.evals) std::cout << " " << e->metrics.get(name).value();
    std::cout << "\n";
  }
  const std::vector<double> loss = log.series("actor/loss");
  EXPECT_LT(loss.back(), 0.7 * loss.front());
  EXPECT_GT(log.evals.back()->mean_reward, 0.9);
  EXPECT_GT(log.evals.back()->mean_reward, log.evals.front()->mean_reward);
}

// The teacher is the model after the run of sft above; every response has the same score.
class SmolLm2ObjectivesDistill : public SmolLm2Objectives {
 protected:
  void SetUp() override {
    SmolLm2Objectives::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("RL_LONG") == nullptr) GTEST_SKIP() << "RL_LONG is not set";
    const OptionSet base = options_;
    options_.set_assignment("algo.objective=sft");
    const auto answers = [](int a, int b) {
      return str("\"response\": \"Adding ", b, " to ", a, " gives ", a + b, ".\"");
    };
    run(answers, dir_.file("teacher"));
    options_ = base;
    for (const char* text :
         {"algo.objective=distill", "algo.policy_loss=none", "sampling.max_new_tokens=16",
          "pipeline.samples_per_prompt=4", "pipeline.total_steps=5"}) {
      options_.set_assignment(text);
    }
    options_.set_string("model.teacher_path", dir_.file("teacher"));
  }
  // By a third at least; the generated responses differ from step to step.
  void expect_nearer() {
    const RunLog log = run([](int, int) { return std::string("\"tag\": \"\""); });
    for (const char* name : {"actor/distill_kl", "timing_s/teacher", "timing_s/train_head"}) {
      print(log, name);
    }
    const std::vector<double> kl = log.series("actor/distill_kl");
    EXPECT_GT(kl.front(), 0);
    EXPECT_LT(kl.back(), 0.7 * kl.front());
  }
};

TEST_F(SmolLm2ObjectivesDistill, BySampledTokensNearsItsTeacher) { expect_nearer(); }

TEST_F(SmolLm2ObjectivesDistill, ByWholeRowsNearsItsTeacher) {
  options_.set_assignment("algo.distill.kl=reverse");
  options_.set_assignment("algo.distill.rewards=false");
  expect_nearer();
}

}  // namespace
}  // namespace rl::testing

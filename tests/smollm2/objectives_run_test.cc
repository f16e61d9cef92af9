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

  // Each step trains on the same eight rows; the answers are made from both summands and the sum.
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
    RunLog log = rig.start_and_play();
    if (!save_to.empty()) rig.model().save(save_to, Dtype::kBf16, false);
    return log;
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

// The teacher is the model after the run of sft above; every answer has the same score.
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
  // By a third at least; the drawn answers differ from step to step.
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

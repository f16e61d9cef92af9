// optimizer.ema in a run: evaluations and references with the averages, and what they leave alone.
#include <gtest/gtest.h>

#include "run_rig.h"

namespace rl {
namespace {

using testing::id_rows;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;

using Texts = std::vector<std::string>;

OptionSet options_of(const TempDir& dir, const Texts& texts) {
  OptionSet o = tiny_options(dir);
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  for (const char* text :
       {"pipeline.total_steps=4", "eval.every_steps=1", "optimizer.lr=0.03", "optimizer.ema=0.5"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

struct Outcome {
  RunLog log;
  uint64_t digest;
};

Outcome run(const OptionSet& o) {
  Rig rig(o);
  Outcome out{rig.start_and_serve(), 0};
  out.digest = rig.model().weight_digest();
  return out;
}

// Of all tokens of evaluations: greedy responses may be equal, but their log-probs are the
// weights'.
double eval_logprobs(const RunLog& log) {
  double sum = 0;
  for (const SamplePtr& s : log.samples) {
    if (s->purpose != Purpose::kEval) continue;
    for (const float logprob : s->logprobs) sum += logprob;
  }
  return sum;
}

TEST(AveragesRun, EvaluationsWithAveragesLeaveTheRunAlone) {
  const TempDir dir;
  const Outcome trained = run(options_of(dir, {})),
                averaged = run(options_of(dir, {"eval.weights=ema"}));
  ASSERT_EQ(averaged.log.evals.size(), 4u);
  EXPECT_EQ(trained.digest, averaged.digest);
  EXPECT_EQ(trained.log.series("actor/loss"), averaged.log.series("actor/loss"));
  EXPECT_NE(eval_logprobs(trained.log), eval_logprobs(averaged.log));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trained.log.evals[i]->version, averaged.log.evals[i]->version);
  }
}

// A model that never moves has averages equal to it.
TEST(AveragesRun, AveragesOfAModelThatStaysAreItself) {
  const TempDir dir;
  const Outcome trained = run(options_of(dir, {"optimizer.lr=0"})),
                averaged = run(options_of(dir, {"optimizer.lr=0", "eval.weights=ema"}));
  EXPECT_EQ(eval_logprobs(trained.log), eval_logprobs(averaged.log));
}

TEST(AveragesRun, AReferenceOfAveragesFollowsThePolicy) {
  const TempDir dir;
  const Texts kl = {"algo.kl.where=loss", "algo.kl.coef=0.5"};
  Texts ema = kl;
  ema.push_back("reference.weights=ema");
  const std::vector<double> fixed = run(options_of(dir, kl)).log.series("actor/kl"),
                            follows = run(options_of(dir, ema)).log.series("actor/kl");
  ASSERT_EQ(fixed.size(), 4u);
  EXPECT_EQ(fixed[0], follows[0]) << "both begin as the policy";
  EXPECT_LT(follows[3], fixed[3]) << "it is nearer to the policy";
}

TEST(AveragesRun, AResumeContinuesWithTheSameAveragesAndReference) {
  const TempDir dir;
  OptionSet o = options_of(dir, {"algo.kl.where=loss", "algo.kl.coef=0.5", "reference.weights=ema",
                                 "eval.weights=ema", "checkpoint.every_steps=2"});
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  const Outcome whole = run(o);
  ASSERT_EQ(whole.log.checkpoints.size(), 2u);
  o.set_string("checkpoint.resume", whole.log.checkpoints[0]->path);
  const Outcome resumed = run(o);
  EXPECT_EQ(resumed.log.steps.size(), 2u);
  EXPECT_EQ(whole.digest, resumed.digest);
}

}  // namespace
}  // namespace rl

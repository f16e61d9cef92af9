// Ranks that divide the rows of micro-batches, as a host and a pipeline have them.
#include <gtest/gtest.h>

#include "../pipeline/plan_arenas.h"
#include "../pipeline/rank_rig.h"
#include "../pipeline/run_rig.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan/planner.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl::testing {
namespace {

// max_tokens: of a micro-batch of all ranks.
OptionSet options_of(const TempDir& dir, int context, int data = 1, int64_t max_tokens = 96,
                     const std::vector<std::string>& assignments = {}) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.context", context);
  o.set_i64("parallel.data", data);
  o.set_i64("trainer.max_tokens_per_device", max_tokens / context);
  o.set_text("optimizer.lr", "1e-3");
  for (const std::string& a : assignments) o.set_assignment(a);
  return o;
}

TEST(ContextSessions, TrainToEqualWeightsTwice) {
  const TempDir dir;
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"parallel.context_zigzag=true"},
      {"parallel.context_kind=ulysses"},
      {"parallel.context_kind=ring", "parallel.context_zigzag=true"},
      {"algo.advantage=gae", "critic.optimizer.lr=1e-3"},
      {"algo.kl.where=loss", "algo.kl.coef=0.1", "algo.policy_loss=gspo"},
      {"trainer.recompute_granularity=full", "trainer.recompute_method=uniform",
       "trainer.recompute_num_layers=1", "trainer.grad_dtype=bf16"}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments.empty() ? "" : assignments[0]);
    const OptionSet o = options_of(dir, 2, 1, 96, assignments);
    const std::vector<std::string> texts = on_trainers(o, two_steps);
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(on_trainers(o, two_steps), texts);
  }
}

TEST(ContextSessions, GroupsOfRanksTrainTogether) {
  const TempDir dir;
  for (const char* zero : {"parallel.zero_stage=0", "parallel.zero_stage=1"}) {
    const std::vector<std::string> texts =
        on_trainers(options_of(dir, 2, 2, 96, {zero}), two_steps);
    ASSERT_EQ(texts.size(), 4u);
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  }
}

TEST(ContextSessions, OneRankHasTheSameBatchMetrics) {
  const TempDir dir;
  std::vector<MetricList> metrics(2);
  for (const int size : {1, 2}) {
    on_trainers(options_of(dir, size), [&](RankParts& parts) {
      const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
      if (parts.rank == 0) metrics[static_cast<size_t>(size - 1)] = step;
      return std::string();
    });
  }
  int64_t compared = 0;
  for (const Metric& m : metrics[0]) {
    if (m.name.starts_with("timing_s/") || m.name == "training/computed_rows") continue;
    const double bound = m.name.starts_with("actor/") ? 1e-5 * std::abs(m.value) + 1e-9 : 0;
    EXPECT_NEAR(metrics[1].get(m.name).value(), m.value, bound) << m.name;
    ++compared;
  }
  EXPECT_GT(compared, 30);
  EXPECT_EQ(metrics[1].get("training/logprob_max_abs_diff"), 0);
  EXPECT_GT(metrics[1].get("comm/context_bytes").value(), 0);
  EXPECT_FALSE(metrics[0].get("comm/context_bytes").has_value());
}

// Two ranks save after a step; one rank and two go on.
TEST(ContextSessions, ACheckpointIsResumedByAnyNumberOfRanks) {
  const TempDir dir;
  std::string path;
  const auto save = [&](RankParts& parts) {
    parts.trainer.step(host_batch(parts.trainer));
    if (parts.rank == 0) {
      path = parts.trainer.save(
          {.dir = dir.file("saved"), .host = "", .keep_last = 0, .replace_existing = false});
    }
    parts.trainer.step(host_batch(parts.trainer));
    return str(parts.model->weight_digest());
  };
  const std::vector<std::string> uninterrupted = on_trainers(options_of(dir, 2), save);
  EXPECT_EQ(uninterrupted[1], uninterrupted[0]);
  const auto resume = [&](RankParts& parts) {
    parts.trainer.load(path);
    const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
    EXPECT_EQ(step.get("training/logprob_max_abs_diff"), 0);
    return str(parts.model->weight_digest());
  };
  EXPECT_EQ(on_trainers(options_of(dir, 2), resume)[0], uninterrupted[0]);
  EXPECT_NE(on_trainers(options_of(dir, 1), resume)[0], "");
}

TEST(ContextSessions, EachRankHoldsWhatItsPlanSays) {
  const TempDir dir;
  for (const char* kind : {"all_gather", "ulysses", "ring"}) {
    const OptionSet o = options_of(
        dir, 2, 1, 1024,
        {str("parallel.context_kind=", kind), "algo.advantage=gae", "critic.optimizer.lr=1e-3"});
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kTrain);
    EXPECT_EQ(plan.max_tokens, 1024);
    on_trainers(o, [&](RankParts& parts) {
      EXPECT_EQ(live(parts.model->runtime()), planned(plan));
      return std::string();
    });
  }
}

TEST(ContextSessions, ActivationsAreDivided) {
  const TempDir dir;
  const auto workspace = [&](int context) {
    const MemoryPlan plan =
        plan_memory(options_of(dir, context, 1, 4096), real_fs(), PlanUse::kTrain);
    return static_cast<double>(plan.train_workspace_bytes);
  };
  EXPECT_LT(workspace(4), 0.5 * workspace(1));
}

void expect_pipelines_train_together(const std::string& option) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, 1, 96, {option});
  std::vector<uint64_t> digests(2);
  std::vector<size_t> steps(2);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    Rig rig(o, std::move(runtime));
    const RunLog log = rig.start_and_serve();
    steps[rank] = log.steps.size();
    digests[rank] = rig.model().weight_digest();
    if (rank != 0) return;
    const double bound =
        logprob_bound(context_rule_from(Settings(o)), rig.model().model().compute_dtype());
    EXPECT_LE(log.steps[0].get("training/logprob_max_abs_diff").value(), bound);
  });
  EXPECT_EQ(steps[0], 3u);
  EXPECT_EQ(digests[0], digests[1]);
}

// With a ring a rank has the keys and values of its own rows and of two others, whatever their
// number.
TEST(ContextSessions, KeysAndValuesOfAllRowsTakeNoMemoryInARing) {
  const TempDir dir;
  const auto workspace = [&](const char* kind, int context) {
    const OptionSet o = options_of(dir, context, 1, 8192, {str("parallel.context_kind=", kind)});
    return plan_memory(o, real_fs(), PlanUse::kTrain).train_workspace_bytes;
  };
  EXPECT_LT(workspace("ring", 4), workspace("all_gather", 4));
  EXPECT_LT(workspace("ring", 8), workspace("all_gather", 8));
  EXPECT_LT(workspace("ring", 8), workspace("ring", 4));
}

TEST(ContextSessions, APipelineTrainsOnWhatAllRanksGenerate) {
  for (const char* kind : {"all_gather", "ring"}) {
    SCOPED_TRACE(kind);
    expect_pipelines_train_together(str("parallel.context_kind=", kind));
  }
}

TEST(ContextSessions, RanksThatShareNoPromptsAreRefusedAPipeline) {
  const TempDir dir;
  for (const char* option :
       {"data.path=", "pipeline.filter=mean", "pipeline.discard_zero_advantage=true"}) {
    OptionSet o = options_of(dir, 2);
    o.set_assignment(option);
    const auto runtime = std::make_shared<Runtime>(o);
    const auto model = LoadedModel::open(runtime, o, PlanUse::kPipeline);
    const Error e =
        expect_error(Code::kUnsupported, [&] { check_for_use(*model, o, PlanUse::kPipeline); });
    EXPECT_EQ(e.key, std::string(option).substr(0, std::string(option).find('=')));
    EXPECT_EQ(e.other_key, "parallel.context");
  }
}

TEST(ContextSessions, ABudgetOfARankThatIsTooSmallIsRefused) {
  const TempDir dir;
  const Error e = expect_error(
      Code::kConflict, [&] { plan_memory(options_of(dir, 2, 1, 20), real_fs(), PlanUse::kTrain); });
  EXPECT_EQ(e.key, "trainer.max_tokens_per_device");
  EXPECT_TRUE(contains(e.message, "10 on each of 2 parallel.context ranks")) << e.message;
  EXPECT_EQ(e.expected, "0, or at least 16");
}

TEST(ContextSessions, HeadsThatRanksDoNotDivideAreRefused) {
  const TempDir dir;
  for (const auto& [ranks, what] : {std::pair(3, "4 heads"), std::pair(4, "2 KV heads")}) {
    const Error e = expect_error(Code::kIncompatible, [&, ranks = ranks] {
      plan_memory(options_of(dir, ranks, 1, 96, {"parallel.context_kind=ulysses"}), real_fs(),
                  PlanUse::kTrain);
    });
    EXPECT_EQ(e.key, "parallel.context_kind");
    EXPECT_EQ(e.other_key, "parallel.context");
    EXPECT_TRUE(contains(e.message, what)) << e.message;
  }
}

TEST(ContextSessions, HeadsOfATeacherOfRowsAreDividedToo) {
  const TempDir dir;
  const std::string teacher = write_random_llama(dir.file("teacher"), {.hidden = 48, .heads = 3});
  const Error e = expect_error(Code::kIncompatible, [&] {
    plan_memory(options_of(dir, 2, 1, 96,
                           {"parallel.context_kind=ulysses", "algo.objective=distill",
                            "algo.distill.kl=reverse", "model.teacher_path=" + teacher}),
                real_fs(), PlanUse::kTrain);
  });
  EXPECT_EQ(e.key, "parallel.context_kind");
  EXPECT_TRUE(contains(e.message, "layer 0 of model.teacher_path has 3 heads")) << e.message;
}

TEST(ContextSessions, ARankThatEndsIsNamed) {
  const TempDir dir;
  const auto work = [](RankParts& parts) { return step_without(parts, 1); };
  EXPECT_EQ(on_trainers(options_of(dir, 2), work), (std::vector<std::string>{"rank 1", ""}));
}

}  // namespace
}  // namespace rl::testing

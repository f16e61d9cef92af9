// Ranks as a host has them: runtimes of one run, whose trainers share each step and end with equal
// weights, and checkpoints that do not depend on the number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "../pipeline/rank_rig.h"
#include "../pipeline/run_rig.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/planner.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

OptionSet options_of(const TempDir& dir, int ranks,
                     const std::vector<std::string>& assignments = {}) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.data", ranks);
  o.set_text("optimizer.lr", "1e-3");
  for (const std::string& a : assignments) o.set_assignment(a);
  return o;
}

TEST(RankSessions, RanksAreMadeOnceEach) {
  const TempDir dir;
  const std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options_of(dir, 3));
  ASSERT_EQ(ranks.size(), 3u);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->ranks().rank(), r);
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->ranks().size(), 3);
  }
  for (const int taken : {0, 1, 2}) {
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { ranks[1]->make_rank(taken); }).key,
              "rank");
  }
  for (const int none : {-1, 3}) {
    const Error e = expect_error(Code::kOutOfRange, [&] { ranks[1]->make_rank(none); });
    EXPECT_EQ(e.expected, "0..2");
  }
  const Runtime alone(options_of(dir, 1));
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { alone.make_rank(1); }).key,
            "parallel.data");
}

TEST(RankSessions, ErrorsNameAnAxisThatHasRanks) {
  for (const char* key :
       {"parallel.data", "parallel.context", "parallel.pipeline", "parallel.tensor"}) {
    OptionSet o;
    o.set_i64(key, 2);
    EXPECT_STREQ(rank_axis_of(Settings(o)), key);
  }
}

TEST(RankSessions, HaveTheGpusAfterThatOfTheFirst) {
  EXPECT_EQ(gpu_of_rank(1, 0, 4), 1);
  EXPECT_EQ(gpu_of_rank(1, 2, 4), 3);
  EXPECT_EQ(gpu_of_rank(1, 3, 4), 0);
  EXPECT_EQ(gpu_of_rank(0, 3, 2), 1);
  // What there is not is an error when the device is made.
  EXPECT_EQ(gpu_of_rank(7, 0, 2), 7);
  EXPECT_EQ(gpu_of_rank(0, 1, 0), 0);
}

TEST(RankSessions, ShareTheCoresUnlessThreadsAreSet) {
  const TempDir dir;
  const int cores = usable_cores();
  EXPECT_EQ(make_ranks(options_of(dir, 2, {"runtime.threads=0"}))[1]->num_threads(),
            std::max(1, cores / 2));
  EXPECT_EQ(make_ranks(options_of(dir, 2, {"runtime.threads=1"}))[1]->num_threads(), 1);
}

// Before anything runs, by name, on every rank, whatever the ranks divide.
TEST(RankSessions, RefuseDifferentOptions) {
  const TempDir dir;
  const std::vector<std::vector<std::string>> layouts = {
      {"parallel.data=3"},
      {"parallel.context=3"},
      {"parallel.tensor=2", "parallel.reduction_parts=2"},
      {"parallel.pipeline=2"}};
  for (const auto& layout : layouts) {
    SCOPED_TRACE(layout[0]);
    run_ranks(make_ranks(options_of(dir, 1, layout)), [&](std::shared_ptr<Runtime> runtime) {
      const int last = runtime->ranks().size() - 1;
      OptionSet own = runtime->options();
      if (runtime->ranks().rank() == last) own.set_text("optimizer.lr", "2e-3");
      const auto model = LoadedModel::open(runtime, own, PlanUse::kTrain);
      TrainerSession trainer(model, for_session(own));
      const uint64_t before = model->weight_digest();
      const Error e = expect_error(Code::kConflict, [&] { trainer.step(host_batch(trainer)); });
      EXPECT_EQ(e.key, "optimizer.lr");
      EXPECT_EQ(e.location, str("rank ", last));
      EXPECT_EQ(model->weight_digest(), before);
    });
  }
}

TEST(RankSessions, TrainToEqualWeights) {
  const TempDir dir;
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"trainer.balance=flops", "trainer.balance_groups=true"},
      {"parallel.zero_stage=1"},
      {"parallel.zero_stage=2", "trainer.free_grad_buffers_on_publish=true"},
      {"algo.advantage=gae", "critic.optimizer.lr=1e-3"},
      {"algo.kl.where=loss", "algo.kl.coef=0.1", "algo.policy_loss=gspo"},
      {"algo.whiten=eps", "trainer.num_minibatches=2", "trainer.grad_dtype=bf16"}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments.empty() ? "" : assignments[0]);
    const OptionSet o = options_of(dir, 3, assignments);
    const std::vector<std::string> texts = on_trainers(o, two_steps);
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
    EXPECT_EQ(on_trainers(o, two_steps), texts);
  }
}

// The rewards are normalized, and the advantages compared, over all samples.
TEST(RankSessions, OneRankHasTheSameBatchMetrics) {
  const TempDir dir;
  std::vector<MetricList> metrics(2);
  for (const int size : {1, 2}) {
    on_trainers(options_of(dir, size, {"algo.reward.normalize=true"}), [&](RankParts& parts) {
      const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
      if (parts.rank == 0) metrics[static_cast<size_t>(size - 1)] = step;
      return std::string();
    });
  }
  // How the batch is cut differs, and gradients are summed in another order.
  const std::set<std::string> differ = {"training/micro_batches", "training/computed_rows"};
  int64_t compared = 0;
  for (const Metric& m : metrics[0]) {
    if (m.name.starts_with("timing_s/") || differ.contains(m.name)) continue;
    const double bound = m.name.starts_with("actor/") ? 1e-5 * std::abs(m.value) + 1e-9 : 0;
    EXPECT_NEAR(metrics[1].get(m.name).value(), m.value, bound) << m.name;
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

// All ranks come to a save, of which rank 0 writes the files.
TEST(RankSessions, ACheckpointHasNoTraceOfTheStage) {
  const TempDir dir;
  const auto save = [&](const char* name, int stage) {
    const OptionSet o = options_of(dir, 3, {str("parallel.zero_stage=", stage)});
    return on_trainers(o, [&](RankParts& parts) {
      parts.trainer.step(host_batch(parts.trainer));
      if (parts.rank != 0 && stage == 0) return std::string();
      return parts.trainer.save(
          {.dir = dir.file(name), .host = "", .keep_last = 0, .replace_existing = false});
    });
  };
  const std::string whole = save("whole", 0)[0];
  for (const int stage : {1, 2, 3}) {
    const std::vector<std::string> paths = save(str("stage", stage).c_str(), stage);
    EXPECT_EQ(paths[1], paths[0]);
    for (const char* name :
         {"masters.safetensors", "first_moments.safetensors", "second_moments.safetensors"}) {
      EXPECT_EQ(read_text_file(real_fs(), paths[0] + "/" + name, 1 << 26),
                read_text_file(real_fs(), whole + "/" + name, 1 << 26))
          << name;
    }
  }
}

// Three ranks save after one step; whoever loads it goes on with the same second step.
TEST(RankSessions, ACheckpointIsTheSameForAnyNumberOfRanks) {
  const TempDir dir;
  std::string path;
  const OptionSet three = options_of(dir, 3);
  const auto save = [&](RankParts& parts) {
    const std::vector<SamplePtr> batch = host_batch(parts.trainer);
    parts.trainer.step(batch);
    if (parts.rank == 0)
      path = parts.trainer.save(
          {.dir = dir.file("saved"), .host = "", .keep_last = 0, .replace_existing = false});
    parts.trainer.step(host_batch(parts.trainer));
    return str(parts.model->weight_digest());
  };
  const std::vector<std::string> uninterrupted = on_trainers(three, save);
  const auto resume = [&](RankParts& parts) {
    parts.trainer.load(path);
    const uint64_t loaded = parts.model->weight_digest();
    const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
    EXPECT_EQ(step.step, 2u);
    return str(loaded, " ", parts.model->weight_digest());
  };
  const std::string with_three = on_trainers(three, resume)[0];
  EXPECT_EQ(with_three.substr(with_three.find(' ') + 1), uninterrupted[0]);
  for (const int size : {1, 2}) {
    const std::vector<std::string> texts = on_trainers(options_of(dir, size), resume);
    const std::string loaded = with_three.substr(0, with_three.find(' ') + 1);
    for (const std::string& text : texts) {
      EXPECT_TRUE(text.starts_with(loaded)) << text;
      EXPECT_EQ(text, texts[0]);
    }
  }
}

TEST(RankSessions, ABatchThatOneRankRefusesIsRefusedByAll) {
  const TempDir dir;
  const auto work = [](RankParts& parts) {
    const uint64_t before = parts.model->weight_digest();
    refuse_step(parts);
    EXPECT_EQ(parts.model->weight_digest(), before);
    parts.trainer.step(host_batch(parts.trainer));
    return str(parts.model->weight_digest());
  };
  const std::vector<std::string> digests = on_trainers(options_of(dir, 2), work);
  EXPECT_EQ(digests[0], digests[1]);
}

// A rank ends while the others train.
TEST(RankSessions, ARankThatEndsIsNamed) {
  const TempDir dir;
  const auto work = [](RankParts& parts) { return step_without(parts, 2); };
  EXPECT_EQ(on_trainers(options_of(dir, 3), work),
            (std::vector<std::string>{"rank 2", "rank 2", ""}));
}

TEST(RankSessions, CollectivesArePlanned) {
  const TempDir dir;
  const auto planned = [&](int ranks, const std::vector<std::string>& assignments = {}) {
    const OptionSet o = options_of(dir, ranks, assignments);
    return plan_memory(o, real_fs(), PlanUse::kTrain).baseline_bytes;
  };
  EXPECT_EQ(planned(5) - planned(2), 3u << 18);
  // A chunk of one other rank, twice, and the sums of a chunk of bf16 in fp32.
  EXPECT_EQ(planned(4, {"parallel.zero_stage=1", "parallel.zero_group=2"}) -
                planned(4, {"parallel.zero_stage=1"}),
            4u << 18);
}

}  // namespace
}  // namespace rl::testing

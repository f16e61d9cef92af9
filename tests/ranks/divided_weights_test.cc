// Stage 3 of ZeRO as a host has it: what ranks save and load together, and what is refused because
// no rank has all weights.
#include <gtest/gtest.h>

#include "../pipeline/plan_arenas.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/weight_tensors.h"
#include "rank_pipelines.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

constexpr const char* kMatrix = "model.layers.1.mlp.down_proj.weight";
constexpr const char* kNorm = "model.norm.weight";

OptionSet options_of(const TempDir& dir, int ranks, int stage,
                     const std::vector<std::string>& assignments = {}) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.data", ranks);
  o.set_i64("parallel.zero_stage", stage);
  o.set_text("optimizer.lr", "1e-3");
  for (const std::string& a : assignments) o.set_assignment(a);
  return o;
}

std::string text_of(const std::string& path) { return read_text_file(real_fs(), path, 1 << 26); }

// Metrics of all ranks, and the model and its critic as files.
TEST(DividedWeights, TrainAndSaveAsWholeOnesDo) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"algo.advantage=gae", "critic.optimizer.lr=1e-3"},
      {"algo.kl.where=loss", "algo.kl.coef=0.1", "trainer.num_minibatches=2"},
      {"trainer.grad_dtype=bf16", "model.freeze=model.layers.0.*"},
      {"optimizer.name=muon", "trainer.backward_weights=resident"}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments.empty() ? "" : assignments[0]);
    const TempDir dir;
    const bool has_critic = !assignments.empty() && assignments[0].find("gae") != std::string::npos;
    const auto run = [&](int stage) {
      const std::string saved = dir.file(str("stage", stage));
      return on_trainers(options_of(dir, 3, stage, assignments), [&](RankParts& parts) {
        const std::string metrics = two_steps_metrics(parts);
        if (parts.rank == 0 || stage == 3) {
          parts.model->save(saved, Dtype::kF32, false);
          if (has_critic) parts.trainer.save_critic(saved + "-critic", Dtype::kF32, false);
        }
        return metrics;
      });
    };
    const std::vector<std::string> whole = run(0), divided = run(3);
    for (const std::string& metrics : divided) EXPECT_EQ(metrics, whole[0]);
    for (const char* suffix : {"", "-critic"}) {
      if (*suffix != 0 && !has_critic) continue;
      const std::string file = str(suffix, "/model.safetensors");
      EXPECT_EQ(text_of(dir.file("stage3") + file), text_of(dir.file("stage0") + file)) << suffix;
    }
  }
}

TEST(DividedWeights, AreNotReadOrSetByName) {
  const TempDir dir;
  on_trainers(options_of(dir, 2, 3), [](RankParts& parts) {
    for (const auto& read : {+[](const std::shared_ptr<LoadedModel>&model, const char*name) {
                               return lend_weight(model, name);
                             },
                             +[](const std::shared_ptr<LoadedModel>&model, const char*name) {
                               return copy_weight(*model, name);
                             }}) {
      const Error e = expect_error(Code::kUnsupported, [&] { read(parts.model, kMatrix); });
      EXPECT_EQ(e.key, "parallel.zero_stage");
      EXPECT_EQ(read(parts.model, kNorm)->num_elements(), parts.model->config().hidden);
    }
    const TensorPtr norm = copy_weight(*parts.model, kNorm);
    const std::vector<NamedTensor> weights = {{kNorm, norm}};
    const Error e = expect_error(Code::kUnsupported, [&] { set_weights(*parts.model, weights); });
    EXPECT_EQ(e.key, "parallel.zero_stage");
    return std::string();
  });
}

TEST(DividedWeights, StayPackedWhileAnEngineSleeps) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, 3);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const auto model = LoadedModel::open(runtime, o, PlanUse::kParts);
    EngineSession engine(model, for_session(o));
    EXPECT_EQ(expect_error(Code::kUnsupported, [&] { engine.sleep(2); }).key,
              "parallel.zero_stage");
    engine.sleep(1);
    engine.wake();
  });
}

// All hear of it before anything has changed, and may load another one.
TEST(DividedWeights, ACheckpointThatOneRankCannotLoadIsLoadedByNone) {
  const TempDir dir;
  std::string path, other;
  on_trainers(options_of(dir, 1, 0), [&](RankParts& parts) {
    for (std::string* const saved : {&path, &other}) {
      parts.trainer.step(host_batch(parts.trainer));
      *saved = parts.trainer.save({.dir = dir.file(saved == &path ? "one" : "two"),
                                   .host = "",
                                   .keep_last = 0,
                                   .replace_existing = false});
    }
    return std::string();
  });
  const auto work = [&](RankParts& parts) {
    const uint64_t before = parts.model->weight_digest();
    const std::string own = parts.rank == 1 ? dir.file("nothing") : path;
    const Code code = parts.rank == 1 ? Code::kNotFound : Code::kFailedPrecondition;
    const Error refused = expect_error(code, [&] { parts.trainer.load(own); });
    EXPECT_TRUE(parts.rank == 1 || refused.location == "rank 1") << refused.location;
    const Error differs = expect_error(Code::kIncompatible,
                                       [&] { parts.trainer.load(parts.rank == 1 ? other : path); });
    EXPECT_EQ(differs.location, "rank 1");
    EXPECT_EQ(parts.model->weight_digest(), before);
    parts.trainer.load(path);
    return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
  };
  const std::vector<std::string> divided = on_trainers(options_of(dir, 3, 3), work);
  const std::vector<std::string> whole = on_trainers(options_of(dir, 3, 0), [&](RankParts& parts) {
    parts.trainer.load(path);
    return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
  });
  EXPECT_EQ(divided, whole);
}

TEST(DividedWeights, ArePlannedAsReserved) {
  const TempDir dir;
  const std::vector<std::string> critic = {"algo.advantage=gae"};
  for (const char* packing : {"by_layer", "resident"}) {
    OptionSet o = options_of(dir, 3, 3, critic);
    o.set_text("trainer.backward_weights", packing);
    on_trainers(o, [&](RankParts& parts) {
      EXPECT_EQ(live(parts.model->runtime()),
                planned(parts.model->plan_session(for_session(o), PlanUse::kTrain)));
      return std::string();
    });
    OptionSet whole = o;
    whole.set_i64("parallel.zero_stage", 2);
    const auto bytes = [](const OptionSet& options) {
      return plan_memory(options, real_fs(), PlanUse::kTrain).bytes_of("master weights");
    };
    EXPECT_LT(bytes(o), bytes(whole));
  }
}

OptionSet saving(const TempDir& dir, int ranks, int stage, int steps, const char* async) {
  OptionSet o = options_with(
      dir, {"checkpoint.every_steps=1", "checkpoint.keep_last=0", str("checkpoint.async=", async),
            "checkpoint.contents=model,optimizer,extra,hf_model", str("parallel.data=", ranks),
            str("parallel.zero_stage=", stage)});
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_i64("pipeline.total_steps", steps);
  o.set_string("checkpoint.resume", "auto");
  return o;
}

TEST(DividedWeights, PipelinesSaveAndResume) {
  for (const char* async : {"false", "true"}) {
    SCOPED_TRACE(async);
    const TempDir dir, other;
    const std::vector<RankRun> whole = run_pipelines(saving(other, 3, 0, 3, async));
    run_pipelines(saving(dir, 3, 3, 2, async));
    const std::vector<RankRun> resumed = run_pipelines(saving(dir, 3, 3, 3, async));
    ASSERT_EQ(resumed[0].log.steps.size(), 1u);
    expect_same_files(resumed[0].log.checkpoints.back()->path,
                      whole[0].log.checkpoints.back()->path);
    const std::vector<RankRun> one = run_pipelines(saving(dir, 1, 0, 4, async));
    EXPECT_EQ(one[0].log.steps.size(), 1u);
  }
}

}  // namespace
}  // namespace rl::testing

// The stages of a model as a host has them: the calls of trainers and engines that they make
// together give what one rank gives.
#include <gtest/gtest.h>

#include <filesystem>

#include "../pipeline/option_looks.h"
#include "../pipeline/plan_arenas.h"
#include "../pipeline/rank_rig.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan/planner.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl::testing {
namespace {

OptionSet options_of(const TempDir& dir, int stages,
                     const std::vector<std::string>& assignments = {},
                     const std::string& model = "llama") {
  OptionSet o = tiny_options(dir, model);
  o.set_i64("parallel.pipeline", stages);
  o.set_assignment("trainer.dynamic_batching=false");
  o.set_assignment("trainer.micro_batch_size=2");  // four micro-batches of a batch
  for (const std::string& a : assignments) o.set_assignment(a);
  return o;
}

TEST(StageSessions, TrainAsOneRankDoes) {
  const TempDir dir;
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"algo.kl.where=loss", "algo.kl.coef=0.1"},
      {"optimizer.ema=0.9", "optimizer.no_decay=norms,*.layers.1.self_attn.o_proj.weight",
       "optimizer.weight_decay=0.1", "trainer.num_minibatches=2"},
      {"optimizer.cpu_offload=true", "optimizer.cpu_offload_fraction=0.5"}};
  for (const char* model : {"llama", "smollm2"}) {
    for (const auto& assignments : cases) {
      SCOPED_TRACE(str(model, " ", assignments.empty() ? "" : assignments[0]));
      const OptionSet alone = options_of(dir, 1, assignments, model);
      const std::string one = on_trainers(alone, two_steps_metrics)[0];
      for (const std::string& stage :
           on_trainers(options_of(dir, 2, assignments, model), two_steps_metrics))
        EXPECT_EQ(stage, one);
    }
  }
}

TEST(StageSessions, GroupsOfRanksTrainTogether) {
  const TempDir dir;
  const std::string two =
      on_trainers(options_of(dir, 1, {"parallel.data=2"}), two_steps_metrics)[0];
  const std::vector<std::string> four =
      on_trainers(options_of(dir, 2, {"parallel.data=2"}), two_steps_metrics);
  ASSERT_EQ(four.size(), 4u);
  for (const std::string& rank : four) EXPECT_EQ(rank, two);
}

// The samples of engines that step together, of prompts of many lengths, with log-probs of prompts.
std::string generate_on(const std::shared_ptr<Runtime>& runtime) {
  const OptionSet& o = runtime->options();
  EngineSession engine(LoadedModel::open(runtime, o, PlanUse::kGenerate), for_session(o));
  for (const int32_t length : {20, 3, 17, 9}) {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < length; ++i) prompt.push_back((length + 7 * i) % 256);
    Request request = request_of(o, prompt, 3, 12);
    request.prompt_logprobs = length > 9;
    engine.submit(request);
  }
  engine.run();
  std::string out;
  for (const SamplePtr& s : engine.take_finished()) {
    out += text_of(*s);
    if (s->prompt_logprobs != nullptr) {
      for (const float lp : *s->prompt_logprobs) out += str(" ", lp);
    }
  }
  return out;
}

TEST(StageSessions, GenerateAsOneRankDoes) {
  const TempDir dir;
  for (const char* few_blocks : {"engine.max_num_seqs=16", "engine.max_num_seqs=3"}) {
    std::vector<std::vector<std::string>> texts;
    for (const int stages : {1, 2}) {
      std::vector<std::string> out(static_cast<size_t>(stages));
      run_ranks(make_ranks(options_of(dir, stages, {few_blocks})),
                [&](std::shared_ptr<Runtime> runtime) {
                  out[static_cast<size_t>(runtime->ranks().rank())] = generate_on(runtime);
                });
      texts.push_back(out);
    }
    EXPECT_FALSE(texts[0][0].empty());
    EXPECT_EQ(texts[1][0], texts[0][0]);
    EXPECT_EQ(texts[1][1], texts[0][0]);
  }
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// One rank or two save after a step, one rank and two go on.
TEST(StageSessions, ACheckpointIsTheSameForOneRankAndTwo) {
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    const TempDir dir;
    const auto save_as = [&](const std::string& name) {
      return [&dir, name](RankParts& parts) {
        parts.trainer.step(host_batch(parts.trainer));
        parts.trainer.save(
            {.dir = dir.file(name), .host = "", .keep_last = 0, .replace_existing = false});
        parts.model->save(dir.file(name + "_hf"), Dtype::kF32, false);
        return parts.trainer.step(host_batch(parts.trainer)).without_times().to_json();
      };
    };
    on_trainers(options_of(dir, 1, {"optimizer.ema=0.9"}, model), save_as("one"));
    const auto two = options_of(dir, 2, {"optimizer.ema=0.9"}, model);
    const std::vector<std::string> uninterrupted = on_trainers(two, save_as("two"));
    int files = 0;
    for (const char* tree : {"", "_hf"}) {
      const std::string one = dir.file(std::string("one") + tree);
      for (const auto& entry : std::filesystem::recursive_directory_iterator(one)) {
        if (!entry.is_regular_file() || entry.path().extension() != ".safetensors") continue;
        const std::string name = entry.path().string().substr(one.size());
        EXPECT_TRUE(bytes_of(dir.file(std::string("two") + tree) + name) == bytes_of(one + name))
            << name;
        ++files;
      }
    }
    EXPECT_EQ(files, 5);  // masters, two moments, averages, and the model
    const auto resume = [&](RankParts& parts) {
      parts.trainer.load(dir.file("two"));
      return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
    };
    const auto go_on = [&](RankParts& parts) {
      parts.trainer.step(host_batch(parts.trainer));
      return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
    };
    const std::string next = on_trainers(two, go_on)[0];
    for (const int stages : {1, 2}) {
      for (const std::string& rank :
           on_trainers(options_of(dir, stages, {"optimizer.ema=0.9"}, model), resume))
        EXPECT_EQ(rank, next) << stages;
    }
  }
}

// Of a step: each row once in each direction, and those of the embedding's gradient.
TEST(StageSessions, MetricsHaveTheBytesOfTheFormula) {
  const TempDir dir;
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    on_trainers(options_of(dir, 2, {}, model), [](RankParts& parts) -> std::string {
      const std::vector<SamplePtr> batch = host_batch(parts.trainer);
      const TrainedStep step = parts.trainer.step(batch);
      const ModelConfig& c = parts.model->config();
      const double row = 4 * static_cast<double>(c.hidden);
      const double rows = step.get("training/computed_rows").value() * row;
      const bool first = parts.rank == 0;
      EXPECT_EQ(step.get("comm/activation_bytes").value(), c.tied_head && first ? 2 * rows : rows);
      EXPECT_EQ(step.get("comm/gradient_bytes").value(),
                c.tied_head && !first ? static_cast<double>(c.vocab) * row : 0);
      EXPECT_GE(step.get("comm/sent_bytes").value(), rows);
      return "";
    });
  }
}

TEST(StageSessions, ABatchThatOneStageRefusesIsRefusedByAll) {
  const TempDir dir;
  expect_refused_by_all(options_of(dir, 2));
}

TEST(StageSessions, AStageThatEndsIsNamed) {
  const TempDir dir;
  for (const int leaves : {0, 1}) {
    const auto work = [&](RankParts& parts) { return step_without(parts, leaves); };
    std::vector<std::string> named(2, str("rank ", leaves));
    named[static_cast<size_t>(leaves)] = "";
    EXPECT_EQ(on_trainers(options_of(dir, 2), work), named);
  }
}

// A stage whose loss fails in the middle of a minibatch, while the others wait for it.
TEST(StageSessions, AStageThatFailsIsNamedOnAllOthers) {
  const TempDir dir;
  OptionSet o = options_of(dir, 3, {"parallel.pipeline_last_layers=3"});
  o.set_string("model.path", write_random_llama(dir.file("deep"), {.layers = 5}));
  const auto work = [](RankParts& parts) -> std::string {
    std::vector<SamplePtr> batch = host_batch(parts.trainer);
    auto wrong = std::make_shared<Sample>(*batch.back());
    wrong->logprobs[0] += 1;  // of the present weights, which have another log-prob
    batch.back() = wrong;
    try {
      parts.trainer.step(batch);
    } catch (const Error& e) {
      return e.location;
    }
    return "no error";
  };
  const std::vector<std::string> said = on_trainers(o, work);
  EXPECT_EQ(said[0], "rank 2");
  EXPECT_EQ(said[1], "rank 2");
  EXPECT_TRUE(contains(said[2], "position")) << said[2];
}

TEST(StageSessions, ThePlanOfEachStageEqualsItsLedger) {
  const TempDir dir;
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    const OptionSet o = options_of(dir, 2, {"algo.kl.where=loss", "algo.kl.coef=0.1"}, model);
    std::vector<uint64_t> bytes(2);
    on_trainers(o, [&](RankParts& parts) -> std::string {
      const MemoryPlan plan = parts.model->plan_session(for_session(o), PlanUse::kTrain);
      EXPECT_EQ(live(parts.model->runtime()), planned(plan));
      parts.trainer.step(host_batch(parts.trainer));
      EXPECT_EQ(live(parts.model->runtime()), planned(plan));
      bytes[static_cast<size_t>(parts.rank)] = plan.arena_bytes;
      return "";
    });
    const uint64_t largest = plan_memory(o, real_fs(), PlanUse::kTrain).arena_bytes;
    EXPECT_EQ(largest, std::max(bytes[0], bytes[1]));
  }
}

TEST(StageSessions, AStageHasStatesOfItsLayersAlone) {
  const TempDir dir;
  const auto arena = [&](int stages, const char* name) {
    OptionSet o = options_of(dir, stages);
    o.set_string("model.path", write_random_llama(dir.file(str("m", stages)), {.layers = 6}));
    return plan_memory(o, real_fs(), PlanUse::kTrain).bytes_of(name);
  };
  for (const char* name : {"master weights", "gradients", "optimizer states"})
    EXPECT_LT(arena(2, name), arena(1, name)) << name;
}

// Where a budget decides, every stage takes what the one with least room does.
TEST(StageSessions, AllStagesChooseTheSameSizes) {
  const TempDir dir;
  OptionSet o = options_of(dir, 2, {"parallel.pipeline_last_layers=1"});
  o.set_string("model.path", write_random_llama(dir.file("deep"), {.layers = 6}));
  o.unset("trainer.dynamic_batching");
  o.unset("trainer.micro_batch_size");
  const uint64_t least = plan_memory(o, real_fs(), PlanUse::kParts).least_bytes;
  o.set_u64("runtime.memory_budget_bytes", least + least / 4);
  const PlanModels whole = plan_models(o, real_fs(), PlanUse::kParts);
  std::vector<int64_t> rows, blocks;
  for (const int stage : {0, 1}) {
    const MemoryPlan plan =
        plan_memory(o, plan_models(o, whole.whole, real_fs(), PlanUse::kParts, stage),
                    PlanUse::kParts, 1, cpu_device());
    rows.push_back(plan.max_tokens);
    blocks.push_back(plan.engine.num_blocks);
  }
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_EQ(blocks[0], blocks[1]);
  EXPECT_GT(rows[0], 0);
  EXPECT_GT(blocks[0], 0);
}

TEST(StageSessions, LayersThatCannotBeDividedAreRefused) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 3);
  const auto runtime = std::make_shared<Runtime>(o);
  const Error e =
      expect_error(Code::kIncompatible, [&] { LoadedModel::open(runtime, o, PlanUse::kTrain); });
  EXPECT_EQ(e.key, "parallel.pipeline");
  EXPECT_TRUE(contains(e.message, "2 layers")) << e.message;
}

}  // namespace
}  // namespace rl::testing

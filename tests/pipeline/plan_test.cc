// The plan against the ledger of arenas, the budget, and its refusals.
#include "pipeline/plan/plan.h"

#include <algorithm>
#include <map>

#include "core/arena.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "plan_arenas.h"
#include "run_rig.h"
#include "scored_model.h"
#include "smollm2_plan.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::computable_dtypes;
using testing::fixture_model;
using testing::live;
using testing::planned;
using testing::smollm2;
using testing::smollm2_options;
using testing::tiny_options;

TEST(Plan, EqualsTheLedgerOfAPipeline) {
  const TempDir dir;
  for (const char* model : {"llama", "smollm2", "qwen2"}) {
    for (const char* dtype : computable_dtypes()) {
      for (const char* kl : {"none", "loss"}) {
        SCOPED_TRACE(str(model, " ", dtype, " ", kl));
        OptionSet o = tiny_options(dir, model);
        o.set_string("model.dtype", dtype);
        o.set_string("algo.kl.where", kl);
        const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
        testing::Rig rig(o);
        EXPECT_EQ(live(rig.runtime()), planned(plan));
        EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
        rig.start_and_serve();
        EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
      }
    }
  }
}

// What optimizers keep, and where.
TEST(Plan, EqualsTheLedgerWithEachOptimizer) {
  const TempDir dir;
  using Texts = std::vector<std::string>;
  for (const Texts& texts : std::vector<Texts>{
           {"optimizer.ema=0.9"},
           {"optimizer.state_dtype=bf16"},
           {"trainer.grad_dtype=bf16"},
           {"trainer.grad_dtype=bf16", "optimizer.name=muon", "algo.advantage=gae"},
           {"trainer.free_grad_buffers_on_publish=true"},
           {"trainer.free_grad_buffers_on_publish=true", "trainer.grad_dtype=bf16",
            "algo.advantage=gae"},
           {"optimizer.state_dtype=int8", "optimizer.ema=0.9", "algo.advantage=gae"},
           {"optimizer.cpu_offload=true"},
           {"optimizer.cpu_offload=true", "optimizer.cpu_offload_fraction=0.4",
            "optimizer.state_dtype=int8", "optimizer.overlap_d2h_h2d=false"},
           {"optimizer.name=muon", "optimizer.no_decay=norms,biases"},
           {"optimizer.name=muon", "algo.advantage=gae", "model.freeze=model.layers.0.*"}}) {
    SCOPED_TRACE(texts.front() + " " + texts.back());
    OptionSet o = tiny_options(dir);
    for (const std::string& text : texts) o.set_assignment(text);
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
    testing::Rig rig(o);
    EXPECT_EQ(live(rig.runtime()), planned(plan));
    rig.start_and_serve();
    EXPECT_EQ(live(rig.runtime()), planned(plan));
  }
}

TEST(Plan, FewerBitsAndMuonSaveWhatTheySay) {
  const auto states = [](const std::vector<std::string>& texts) {
    const MemoryPlan plan =
        plan_memory(testing::smollm2_options(texts), testing::smollm2(), PlanUse::kTrain);
    return plan.bytes_of("optimizer states") + plan.bytes_of("optimizer workspace");
  };
  const auto whole = static_cast<double>(states({}));
  EXPECT_EQ(static_cast<double>(states({"optimizer.state_dtype=bf16"})), whole / 2);
  EXPECT_NEAR(static_cast<double>(states({"optimizer.state_dtype=int8"})) / whole, 0.254, 0.001);
  // 106 of 135 million parameters are matrices of layers.
  EXPECT_NEAR(static_cast<double>(states({"optimizer.name=muon"})) / whole, 0.617, 0.02);
}

// The scratch has room for the largest matrix of a layer.
TEST(Plan, GradientsInBf16AreHalf) {
  const auto plan = [](const std::vector<std::string>& texts) {
    return plan_memory(testing::smollm2_options(texts), testing::smollm2(), PlanUse::kTrain);
  };
  const MemoryPlan whole = plan({}), half = plan({"trainer.grad_dtype=bf16"});
  EXPECT_EQ(half.bytes_of("gradients"), whole.bytes_of("gradients") / 2);
  EXPECT_EQ(whole.bytes_of("gradient scratch"), 0u);
  EXPECT_LT(half.bytes_of("gradient scratch"), whole.bytes_of("gradients") / 100);
  EXPECT_EQ(whole.arena_bytes - half.arena_bytes,
            whole.bytes_of("gradients") / 2 - half.bytes_of("gradient scratch"));
}

// Rollout has the memory of gradients, which count in no phase but that of training.
TEST(Plan, LentGradientsShareTheWorkspaceWithRollout) {
  const auto plan = [](const std::vector<std::string>& texts) {
    return plan_memory(testing::smollm2_options(texts), testing::smollm2(), PlanUse::kPipeline);
  };
  const auto in = [](const MemoryPlan& plan, const char* phase) {
    for (const PlanEntry& e : plan_phases(plan)) {
      if (e.phase == phase) return e.bytes;
    }
    return uint64_t{0};
  };
  const MemoryPlan own = plan({}), lent = plan({"trainer.free_grad_buffers_on_publish=true"});
  const uint64_t gradients = own.bytes_of("gradients");
  EXPECT_EQ(lent.bytes_of("gradients"), 0u);
  EXPECT_LE(lent.train_workspace_bytes - own.train_workspace_bytes, gradients + 64);
  EXPECT_GE(lent.train_workspace_bytes - own.train_workspace_bytes, gradients);
  EXPECT_EQ(in(own, "publish") - in(lent, "publish"), gradients);
  EXPECT_EQ(in(own, "rollout") - in(lent, "rollout"), gradients);
  EXPECT_NEAR(static_cast<double>(in(lent, "train")), static_cast<double>(in(own, "train")), 64);
  EXPECT_EQ(lent.total_bytes, own.total_bytes) << "training needs most";
  const std::vector<std::string> rollout = {"trainer.max_tokens_per_device=128",
                                            "engine.max_num_seqs=256"};
  std::vector<std::string> both = rollout;
  both.emplace_back("trainer.free_grad_buffers_on_publish=true");
  const uint64_t saved = plan(rollout).total_bytes - plan(both).total_bytes;
  EXPECT_GT(saved, gradients / 10 * 9) << "rollout needs nearly as much more than training";
  EXPECT_LE(saved, gradients);
}

TEST(Plan, EqualsTheLedgerOfTheParts) {
  const TempDir dir;
  for (const int64_t copies : {1, 2}) {
    OptionSet o = tiny_options(dir);
    o.set_i64("model.compute_copies", copies);
    const auto runtime = std::make_shared<Runtime>(o);
    {
      const auto model = LoadedModel::open(runtime, o, PlanUse::kModel);
      EXPECT_EQ(live(*runtime), planned(plan_memory(o, model->config(), PlanUse::kModel)));
      const EngineSession engine(model, testing::for_session(o));
      EXPECT_EQ(live(*runtime), planned(plan_memory(o, model->config(), PlanUse::kGenerate)));
    }
    const auto model = LoadedModel::open(runtime, o, PlanUse::kModel);
    const TrainerSession trainer(model, testing::for_session(o));
    EXPECT_EQ(live(*runtime), planned(plan_memory(o, model->config(), PlanUse::kTrain)));
  }
}

// In synchronous mode the same bytes serve KV or activations.
TEST(Plan, RolloutAndTrainingShareOneArena) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto sum = [](const MemoryPlan& plan, const char* phase) {
    uint64_t bytes = 0;
    for (const PlanEntry& e : plan.parts) bytes += e.phase == phase ? e.bytes : 0;
    return bytes;
  };
  for (const int64_t seqs : {4, 2048}) {  // training needs more, then rollout
    o.set_i64("engine.max_num_seqs", seqs);
    o.set_i64("engine.max_num_batched_tokens", std::max<int64_t>(64, seqs));
    const MemoryPlan shared = plan_memory(o, real_fs(), PlanUse::kPipeline);
    const MemoryPlan engine = plan_memory(o, real_fs(), PlanUse::kGenerate);
    const uint64_t rollout = sum(shared, "rollout"), train = sum(shared, "train");
    EXPECT_EQ(rollout, shared.kv_bytes + shared.engine_workspace_bytes);
    EXPECT_EQ(rollout, engine.bytes_of("engine workspace"));
    EXPECT_EQ(shared.bytes_of("phase workspace"), std::max(rollout, shared.train_workspace_bytes));
    EXPECT_EQ(rollout > train, seqs == 2048);
    EXPECT_LE(train, shared.train_workspace_bytes);
    EXPECT_GT(train, 0u);
  }
}

TEST(Plan, ABudgetOfTheTotalIsEnoughAndOneBelowTheLeastIsRefused) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const MemoryPlan free = plan_memory(o, real_fs(), PlanUse::kPipeline);
  o.set_u64("runtime.memory_budget_bytes", free.total_bytes + (uint64_t{64} << 20));
  o.set_f64("engine.memory_fraction", 1.0);
  const MemoryPlan fits = plan_memory(o, real_fs(), PlanUse::kPipeline);
  EXPECT_EQ(fits.max_tokens, free.max_tokens);
  o.set_u64("runtime.memory_budget_bytes", 1);
  const Error e = expect_error(Code::kResourceExhausted,
                               [&] { plan_memory(o, real_fs(), PlanUse::kPipeline); });
  EXPECT_EQ(e.key, "runtime.memory_budget_bytes");
  EXPECT_TRUE(contains(e.message, "phase train"));
  EXPECT_TRUE(contains(e.message, "engine.max_model_len = 16 saves "));
  // What the error asks for is enough, and one byte less is not.
  const uint64_t least = std::stoull(e.expected.substr(std::string("at least ").size()));
  o.set_u64("runtime.memory_budget_bytes", least);
  EXPECT_LE(plan_memory(o, real_fs(), PlanUse::kPipeline).total_bytes, least);
  o.set_u64("runtime.memory_budget_bytes", least - 1);
  expect_error(Code::kResourceExhausted, [&] { plan_memory(o, real_fs(), PlanUse::kPipeline); });
}

TEST(Plan, ARefusedBudgetReservesNothing) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_u64("runtime.memory_budget_bytes", 1);
  const auto runtime = std::make_shared<Runtime>(o);
  const uint64_t before = runtime->ledger().bytes();
  expect_error(Code::kResourceExhausted,
               [&] { LoadedModel::open(runtime, o, PlanUse::kPipeline); });
  EXPECT_EQ(runtime->ledger().bytes(), before);
}

TEST(Plan, TheMicroBatchGrowsWithTheBudgetAndNotWithThreads) {
  int64_t last = 0;
  for (const uint64_t gib : {4, 5, 12}) {
    OptionSet o = smollm2_options();
    o.set_u64("runtime.memory_budget_bytes", gib << 30);
    const MemoryPlan plan = plan_memory(o, smollm2(), PlanUse::kPipeline);
    EXPECT_LE(plan.total_bytes, gib << 30);
    EXPECT_GT(plan.max_tokens, last);
    EXPECT_EQ(plan.max_tokens % 64, 0);
    EXPECT_LE(plan.max_tokens, 4096);
    last = plan.max_tokens;
    o.set_i64("runtime.threads", 1);
    EXPECT_EQ(plan_memory(o, smollm2(), PlanUse::kPipeline).max_tokens, plan.max_tokens);
    o.set_i64("runtime.threads", 4);
    EXPECT_EQ(plan_memory(o, smollm2(), PlanUse::kPipeline).max_tokens, plan.max_tokens);
  }
  EXPECT_EQ(last, 4096);
}

// Without a budget a micro-batch holds a whole minibatch: here the largest of three, of 16 samples.
TEST(Plan, TheMicroBatchHoldsTheLargestMinibatch) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  for (const char* text : {"engine.max_model_len=64", "engine.max_num_batched_tokens=128",
                           "trainer.num_minibatches=3"}) {
    o.set_assignment(text);
  }
  EXPECT_EQ(plan_memory(o, real_fs(), PlanUse::kPipeline).max_tokens, 6 * 64);
}

TEST(Plan, TheLastGroupOfAFullEngineHasItsBlocksToo) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto blocks = [&](int64_t sequences) {
    o.set_i64("engine.max_num_seqs", sequences);
    return plan_memory(o, real_fs(), PlanUse::kPipeline).engine.num_blocks;
  };
  // Groups of four: ten sequences may be of three groups.
  EXPECT_EQ(blocks(12) * 2, blocks(8) * 3);
  EXPECT_EQ(blocks(10), blocks(12));
  EXPECT_EQ(blocks(8), blocks(7));
}

TEST(Plan, TheShareOfTheEnginesHoldsALongestSequenceOfEach) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto config = open_weight_source(real_fs(), o.get_string("model.path"))->config();
  const int64_t least = Planner(o, config, PlanUse::kGenerate).min_blocks();
  for (const std::string& text : testing::with_blocks(o, least)) o.set_assignment(text);
  EXPECT_EQ(plan_memory(o, real_fs(), PlanUse::kGenerate).engine.num_blocks, least);
  o.set_text("engine.num_engines", "2");
  const Error e = expect_error(Code::kResourceExhausted,
                               [&] { plan_memory(o, real_fs(), PlanUse::kGenerate); });
  EXPECT_EQ(e.key, "engine.memory_fraction");
  for (const std::string& text : testing::with_blocks(o, 2 * least)) o.set_assignment(text);
  EXPECT_EQ(plan_memory(o, real_fs(), PlanUse::kGenerate).engine.num_blocks, least);
}

TEST(Plan, TheKvPoolIsThatOfAllEngines) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_text("engine.max_num_seqs", "4");
  const auto pool = [&](const char* engines) {
    o.set_text("engine.num_engines", engines);
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
    for (const PlanEntry& part : plan.parts) {
      if (part.name == "KV pool") return part.bytes;
    }
    ADD_FAILURE() << "the plan has no KV pool";
    return uint64_t{1};
  };
  const uint64_t one = pool("1");
  EXPECT_EQ(pool("2"), 2 * one);
}

// A step of few samples needs fewer KV blocks than the rows of a micro-batch would admit.
TEST(Plan, EveryRoleHasBlocksForTheSamplesOfAStep) {
  const TempDir dir;
  using Bytes = std::map<std::string, uint64_t>;
  const auto bytes_of = [](OptionSet o, int64_t prompts) {
    o.set_i64("pipeline.prompts_per_step", prompts);
    const auto config = open_weight_source(real_fs(), o.get_string("model.path"))->config();
    const Planner p(o, plan_models(o, config, real_fs(), PlanUse::kPipeline), PlanUse::kPipeline);
    constexpr int64_t kRows = 1024;
    Bytes bytes{{"policy", p.train_sizes(kRows).workspace}};
    if (p.has_critic()) bytes["critic"] = p.critic_sizes(kRows).workspace;
    if (p.has_reward_model()) bytes["reward"] = p.reward_workspace(kRows);
    if (p.has_teacher()) bytes["teacher"] = p.teacher_bytes(kRows);
    return bytes;
  };
  OptionSet rewarded = tiny_options(dir), taught = tiny_options(dir);
  rewarded.set_text("algo.advantage", "gae");
  rewarded.set_string("model.reward_path", testing::scored_model(dir));
  taught.set_text("algo.objective", "distill");
  taught.set_string("model.teacher_path", fixture_model("qwen2"));
  OptionSet of_rows = taught;
  of_rows.set_text("algo.distill.kl", "forward");
  size_t roles = 0;
  for (const OptionSet& o : {rewarded, taught, of_rows}) {
    const Bytes few = bytes_of(o, 1), many = bytes_of(o, 64);
    roles += few.size();
    for (const auto& [role, bytes] : few) EXPECT_LT(bytes, many.at(role)) << role;
  }
  EXPECT_EQ(roles, 3u + 2u + 2u);
}

TEST(Plan, TheLargestEvaluationHasItsSamples) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("eval.path", dir.file("data.jsonl"));
  const auto bytes = [&](int64_t prompts) {
    o.set_i64("eval.max_prompts", prompts);
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
    const auto at = std::ranges::find(plan.outside, std::string("samples"), &PlanEntry::name);
    return at == plan.outside.end() ? 0 : at->bytes;
  };
  EXPECT_EQ(bytes(16), bytes(1)) << "a step has as many";
  EXPECT_EQ(bytes(160), 10 * bytes(16));
}

TEST(Plan, ASeedOfRequestsIsRefusedInAPipeline) {
  const TempDir dir;
  for (const char* seed : {"0", "7"}) {
    OptionSet o = tiny_options(dir);
    o.set_text("sampling.seed", seed);
    const Error e =
        expect_error(Code::kConflict, [&] { plan_memory(o, real_fs(), PlanUse::kPipeline); });
    EXPECT_EQ(e.key, "sampling.seed");
    plan_memory(o, real_fs(), PlanUse::kGenerate);
  }
}

TEST(Plan, ContradictionsAreNamed) {
  OptionSet o = smollm2_options();
  const auto refused = [&](const char* text, Code code) {
    OptionSet bad = o;
    bad.set_assignment(text);
    return expect_error(code, [&] { plan_memory(bad, smollm2(), PlanUse::kPipeline); });
  };
  EXPECT_EQ(refused("engine.max_model_len=9000", Code::kOutOfRange).key, "engine.max_model_len");
  EXPECT_EQ(refused("trainer.max_tokens_per_device=64", Code::kConflict).key,
            "trainer.max_tokens_per_device");
}

TEST(Runtime, ADtypeThatTheProcessorCannotComputeIsRefusedByName) {
  OptionSet o;
  EXPECT_EQ(compute_dtype_of(o), cpu_has_bf16_dot() ? Dtype::kBf16 : Dtype::kF32);
  o.set_string("model.dtype", "fp32");
  EXPECT_EQ(compute_dtype_of(o), Dtype::kF32);
  o.set_string("model.dtype", "bf16");
  if (cpu_has_bf16_dot()) {
    EXPECT_EQ(compute_dtype_of(o), Dtype::kBf16);
    return;
  }
  EXPECT_EQ(expect_error(Code::kUnsupported, [&] { compute_dtype_of(o); }).key, "model.dtype");
  GTEST_SKIP() << "this CPU has no bf16 dot product: no test of pipelines runs in bf16";
}

TEST(Runtime, OptionsOfItsObjectsMustAgree) {
  const TempDir dir;
  const OptionSet o = tiny_options(dir);
  testing::Rig rig(o);
  for (const char* text : {"runtime.seed=8", "runtime.instance=1", "runtime.threads=2",
                           "model.dtype=bf16", "engine.block_size=32", "engine.max_model_len=64"}) {
    SCOPED_TRACE(text);
    OptionSet other = o;
    other.set_assignment(text);
    const Error e = expect_error(Code::kConflict, [&] { Pipeline(rig.shared_model(), other); });
    EXPECT_EQ(e.key, std::string(text).substr(0, e.key.size()));
  }
}

}  // namespace
}  // namespace rl

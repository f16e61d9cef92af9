// The plan of an engine and a trainer side by side against the ledger of their runtime, the share
// of threads and vocabulary in a plan, and runtimes that keep their own books.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "plan_arenas.h"
#include "run_rig.h"
#include "session_options.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl {
namespace {

using testing::Arenas;
using testing::fixture_model;
using testing::live;
using testing::planned;
using testing::tiny_options;
using Texts = std::vector<std::string>;

OptionSet parts_options(const TempDir& dir, const Texts& texts) {
  OptionSet o = tiny_options(dir);
  for (const std::string& text : texts) o.set_assignment(text);
  if (o.get_string("algo.objective") == "distill") {
    o.set_string("model.teacher_path", fixture_model("mistral"));
  }
  return o;
}

// A runtime of so many threads, whatever the machine has.
std::shared_ptr<Runtime> runtime_of(const OptionSet& o, int threads) {
  RuntimeSeams seams;
  seams.executor = make_thread_executor(threads);
  return std::make_shared<Runtime>(o, std::move(seams));
}

// One group is generated with every filter, scored and trained on.
void generate_and_train(EngineSession& engine, TrainerSession& trainer, const OptionSet& o) {
  Request r = request_from(o);
  r.prompt = {1, 2, 3};
  r.num_samples = 4;
  r.min_new_tokens = 2;
  r.sampling.top_p = 0.9f;
  r.sampling.top_k = 100;
  r.sampling.repetition_penalty = 1.1f;
  engine.submit(r);
  engine.run();
  const std::vector<SamplePtr> samples = engine.take_finished();
  ASSERT_EQ(samples.size(), 4u);
  for (const SamplePtr& s : samples) {
    s->scored = true;
    s->reward = s->slot % 2;
  }
  const MetricList metrics = trainer.step(samples);
  EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
}

TEST(PartsPlan, EqualsTheLedgerOfEngineAndTrainer) {
  for (const Texts& texts :
       {Texts{}, Texts{"model.compute_copies=2"}, Texts{"algo.kl.where=loss"},
        Texts{"algo.advantage=gae"}, Texts{"engine.num_engines=3"}, Texts{"algo.objective=distill"},
        Texts{"model.freeze=model.embed_tokens.weight"}, Texts{"model.train_only=*.q_proj.weight"},
        Texts{"algo.kl.where=loss", "model.compute_copies=2", "engine.num_engines=2"}}) {
    const TempDir dir;
    const OptionSet o = parts_options(dir, texts);
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.back());
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kParts);
    const auto runtime = runtime_of(o, 1);
    const auto model = LoadedModel::open(runtime, o, PlanUse::kParts);
    EngineSession engine(model, testing::for_session(o));
    TrainerSession trainer(model, testing::for_session(o));
    EXPECT_EQ(live(*runtime), planned(plan));
    generate_and_train(engine, trainer, o);
    EXPECT_EQ(runtime->ledger().bytes(), plan.arena_bytes);
  }
}

// The plan of a trainer alone says nothing of the engine beside it.
TEST(PartsPlan, IsThatOfBothWorkspaces) {
  const TempDir dir;
  const OptionSet o = tiny_options(dir);
  const MemoryPlan both = plan_memory(o, real_fs(), PlanUse::kParts);
  const MemoryPlan trainer = plan_memory(o, real_fs(), PlanUse::kTrain);
  const MemoryPlan engine = plan_memory(o, real_fs(), PlanUse::kGenerate);
  EXPECT_EQ(both.max_tokens, trainer.max_tokens);
  EXPECT_EQ(both.engine.num_blocks, engine.engine.num_blocks);
  EXPECT_EQ(both.bytes_of("engine workspace"), engine.bytes_of("engine workspace"));
  EXPECT_GT(engine.bytes_of("engine workspace"), 0u);
  EXPECT_EQ(both.arena_bytes, trainer.arena_bytes + engine.bytes_of("engine workspace"));
}

// A budget that binds is shared out once, in whichever order the two are made.
TEST(PartsPlan, ABudgetHoldsBoth) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("engine.max_num_seqs", 256);
  o.set_i64("engine.max_num_batched_tokens", 256);
  const MemoryPlan free = plan_memory(o, real_fs(), PlanUse::kParts);
  o.set_u64("runtime.memory_budget_bytes", 1);
  o.set_f64("engine.memory_fraction", 1.0);
  const Error e =
      expect_error(Code::kResourceExhausted, [&] { plan_memory(o, real_fs(), PlanUse::kParts); });
  const uint64_t least = std::stoull(e.expected.substr(std::string("at least ").size()));
  ASSERT_LT(least, free.total_bytes);
  for (const uint64_t budget : {least, (least + free.total_bytes) / 2}) {
    o.set_u64("runtime.memory_budget_bytes", budget);
    for (const bool engine_first : {true, false}) {
      const auto runtime = runtime_of(o, 1);
      const auto model = LoadedModel::open(runtime, o, PlanUse::kParts);
      const MemoryPlan& plan = model->plan();
      EXPECT_LE(plan.total_bytes, budget);
      EXPECT_LT(plan.max_tokens, free.max_tokens);
      std::unique_ptr<EngineSession> engine;
      if (engine_first) engine = std::make_unique<EngineSession>(model, testing::for_session(o));
      TrainerSession trainer(model, testing::for_session(o));
      if (!engine_first) engine = std::make_unique<EngineSession>(model, testing::for_session(o));
      EXPECT_EQ(live(*runtime), planned(plan));
      generate_and_train(*engine, trainer, o);
    }
  }
}

// Llama 3.2 1B with the vocabulary of Qwen2.5.
ModelConfig wide_vocabulary() {
  ModelConfig c;
  c.vocab = 151936;
  c.hidden = 2048;
  c.layers = 16;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 64;
  c.ffn = 8192;
  c.max_position = 8192;
  c.rms_eps = 1e-5f;
  c.rope.theta = 500000;
  c.tied_head = true;
  return c;
}

OptionSet wide_options(int threads) {
  OptionSet o;
  for (const char* text : {"model.dtype=fp32", "engine.max_model_len=2048",
                           "sampling.max_new_tokens=512", "engine.max_num_batched_tokens=2048"}) {
    o.set_assignment(text);
  }
  o.set_i64("runtime.threads", threads);
  return o;
}

uint64_t bytes_of(const std::vector<PlanEntry>& entries, const std::string& name) {
  uint64_t bytes = 0;
  for (const PlanEntry& e : entries) bytes += e.name == name ? e.bytes : 0;
  return bytes;
}

// The scratch of a draw is 28 bytes an id for each thread of each engine.
TEST(Plan, KnowsWhatSamplingFromAWideVocabularyTakes) {
  const ModelConfig config = wide_vocabulary();
  for (const PlanUse use : {PlanUse::kGenerate, PlanUse::kPipeline, PlanUse::kParts}) {
    OptionSet one = wide_options(1), many = wide_options(16);
    const auto engine = [&](const OptionSet& o) {
      return bytes_of(plan_memory(o, config, use).parts, "engine");
    };
    const uint64_t scratch = 15 * 28 * static_cast<uint64_t>(config.vocab);
    EXPECT_GE(engine(many), engine(one) + scratch);
    const uint64_t of_one = engine(many);
    many.set_i64("engine.num_engines", 3);
    EXPECT_EQ(engine(many), 3 * of_one);
  }
}

// The automatic micro-batch leaves room for the scratch of as many threads as there are.
TEST(Plan, ABudgetThatBindsIsEnoughForManyThreads) {
  const ModelConfig config = wide_vocabulary();
  const uint64_t less = uint64_t{512} << 20;
  const uint64_t budget =
      plan_memory(wide_options(4), config, PlanUse::kPipeline).total_bytes - less;
  int64_t last = 0;
  for (const int threads : {64, 16, 4}) {
    OptionSet o = wide_options(threads);
    o.set_u64("runtime.memory_budget_bytes", budget);
    const MemoryPlan plan = plan_memory(o, config, PlanUse::kPipeline);
    EXPECT_EQ(plan.threads, threads);
    EXPECT_LE(plan.total_bytes, budget);
    EXPECT_GT(plan.max_tokens, last);
    EXPECT_LT(plan.max_tokens, 4096);
    last = plan.max_tokens;
  }
  for (const int threads : {1, 2}) {
    OptionSet o = wide_options(threads);
    o.set_u64("runtime.memory_budget_bytes", budget);
    EXPECT_EQ(plan_memory(o, config, PlanUse::kPipeline).max_tokens, last);
  }
}

// Beside an engine too, whose scratch and blocks follow the threads: the micro-batch decides bits.
TEST(PartsPlan, UpToFourThreadsHaveOneMicroBatch) {
  const ModelConfig config = wide_vocabulary();
  const uint64_t less = uint64_t{512} << 20;
  const uint64_t budget = plan_memory(wide_options(4), config, PlanUse::kParts).total_bytes - less;
  const auto plan_of = [&](int threads) {
    OptionSet o = wide_options(threads);
    o.set_u64("runtime.memory_budget_bytes", budget);
    return plan_memory(o, config, PlanUse::kParts);
  };
  const MemoryPlan four = plan_of(4);
  EXPECT_LT(four.max_tokens, 4096);
  for (const int threads : {1, 2, 3}) {
    const MemoryPlan plan = plan_of(threads);
    EXPECT_EQ(plan.max_tokens, four.max_tokens) << threads;
    EXPECT_EQ(plan.engine.num_blocks, four.engine.num_blocks) << threads;
    EXPECT_LT(plan.total_bytes, four.total_bytes) << threads;
  }
}

// A host's executor may have other threads than the option says: the plan is of those that compute.
TEST(Plan, IsOfTheThreadsThatTheRuntimeHas) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const MemoryPlan free = plan_memory(o, real_fs(), PlanUse::kPipeline, 16);
  EXPECT_EQ(free.threads, 16);
  o.set_u64("runtime.memory_budget_bytes", free.total_bytes - (uint64_t{3} << 20));
  const auto runtime = runtime_of(o, 16);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kPipeline);
  EXPECT_EQ(model->plan().threads, 16);
  EXPECT_LT(model->plan().max_tokens, free.max_tokens);
  const Pipeline pipeline(model, o);
  EXPECT_EQ(live(*runtime), planned(model->plan()));
}

TEST(PartsPlan, AWideVocabularyOnManyThreadsTakesWhatThePlanSays) {
  const TempDir dir;
  testing::LlamaShape shape;
  shape.vocab = 151936;
  shape.hidden = 32;
  shape.layers = 1;
  shape.scale = 0.1f;
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", testing::write_random_llama(dir.file("wide"), shape));
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kParts, 16);
  const auto runtime = runtime_of(o, 16);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kParts);
  EngineSession engine(model, testing::for_session(o));
  TrainerSession trainer(model, testing::for_session(o));
  EXPECT_EQ(live(*runtime), planned(plan));
  generate_and_train(engine, trainer, o);
  EXPECT_EQ(live(*runtime), planned(plan));
}

// What another runtime of the process holds is not held by this one.
TEST(ArenaLedger, IsOfOneRuntime) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto first = runtime_of(o, 1);
  const auto model = LoadedModel::open(first, o, PlanUse::kGenerate);
  const EngineSession engine(model, testing::for_session(o));
  const Arenas held = live(*first);
  o.set_u64("runtime.memory_budget_bytes",
            plan_memory(o, real_fs(), PlanUse::kGenerate).total_bytes);
  o.set_f64("engine.memory_fraction", 1.0);
  const auto second = runtime_of(o, 1);
  const auto other = LoadedModel::open(second, o, PlanUse::kGenerate);
  const EngineSession beside(other, testing::for_session(o));
  EXPECT_EQ(second->ledger().bytes(), other->plan().arena_bytes);
  EXPECT_EQ(live(*first), held);
}

// Reference, teacher and reward model are read, never trained: no masters.
TEST(Plan, FrozenModelsHaveNoMasters) {
  const TempDir dir;
  for (const Texts& texts : {Texts{"algo.kl.where=loss"}, Texts{"algo.objective=distill"}}) {
    const OptionSet o = parts_options(dir, texts);
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kTrain);
    const auto count = [&](const char* name) {
      return std::ranges::count(plan.arenas, name, &PlanEntry::name);
    };
    EXPECT_EQ(count("master weights"), 1);
    EXPECT_EQ(count("packed weights, forward"), 2);
    EXPECT_EQ(count("unpacked weights, copy"), 1);
  }
}

// A trainer alone expects responses as long as one beside an engine does.
TEST(Plan, ATrainerAlonePlansForTheLengthOfSampling) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto arrays = [&](PlanUse use) {
    return bytes_of(plan_memory(o, real_fs(), use).outside, "arrays of a training step");
  };
  EXPECT_EQ(arrays(PlanUse::kTrain), arrays(PlanUse::kParts));
  const uint64_t before = arrays(PlanUse::kTrain);
  o.set_i64("sampling.max_new_tokens", 2 * o.get_i64("sampling.max_new_tokens"));
  EXPECT_EQ(arrays(PlanUse::kTrain), 2 * before);
}

TEST(Plan, ItemsOutsideAddUp) {
  const TempDir dir;
  for (const PlanUse use : {PlanUse::kModel, PlanUse::kGenerate, PlanUse::kTrain,
                            PlanUse::kPipeline, PlanUse::kParts}) {
    const MemoryPlan plan = plan_memory(tiny_options(dir), real_fs(), use);
    uint64_t sum = 0;
    for (const PlanEntry& e : plan.outside) sum += e.bytes;
    EXPECT_EQ(sum, plan.baseline_bytes);
    EXPECT_EQ(plan.total_bytes, plan.arena_bytes + sum);
  }
}

}  // namespace
}  // namespace rl

// Every key of engine.* acts on an engine made from options, none of them changes a sample, and
// what cannot act is refused by name.
#include <algorithm>
#include <bit>

#include "core/violations.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan/planner.h"
#include "pipeline/session/engine_session.h"
#include "rollout/sample_edit.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::tiny_options;

Request request_of(const OptionSet& o, std::vector<int32_t> prompt, int64_t tokens) {
  Request r = request_from(o);
  r.prompt = std::move(prompt);
  r.max_new_tokens = tokens;
  return r;
}

std::vector<int32_t> ids_from(int32_t first, int32_t count) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((first + 7 * i) % 256);
  return ids;
}

// An engine of options that differ from tiny_options by assignments.
class Bench {
 public:
  explicit Bench(std::vector<const char*> assignments) : options_(tiny_options(dir_)) {
    for (const char* text : assignments) options_.set_assignment(text);
    runtime_ = std::make_shared<Runtime>(options_);
    model_ = LoadedModel::open(runtime_, options_, PlanUse::kGenerate);
    engine_ = std::make_unique<EngineSession>(model_, testing::for_session(options_));
  }
  EngineSession& engine() { return *engine_; }
  const OptionSet& options() const { return options_; }
  uint64_t submit(std::vector<int32_t> prompt, int64_t tokens, int64_t samples = 1) {
    Request r = request_of(options_, std::move(prompt), tokens);
    r.num_samples = samples;
    return engine_->submit(r);
  }
  // Prompts of many lengths, some twice, in groups; all bits of all samples, by id.
  std::string play_mixed() {
    for (const int32_t length : {20, 3, 17, 20, 9, 16}) submit(ids_from(length, length), 12, 3);
    return serve();
  }
  std::string serve() {
    while (engine_->step() == EngineStep::kComputed) {
      most_running_ = std::max(most_running_, engine_->stats().running);
    }
    std::vector<SamplePtr> samples = engine_->take_finished();
    for (const SamplePtr& s : samples) order_.push_back(s->id);
    std::sort(samples.begin(), samples.end(),
              [](const SamplePtr& a, const SamplePtr& b) { return a->id < b->id; });
    std::string text;
    for (const SamplePtr& s : samples) {
      text += str(s->id, ":");
      for (const int32_t id : s->ids) text += str(" ", id);
      for (const float p : s->logprobs) text += str(" ", std::bit_cast<uint32_t>(p));
      text += "\n";
    }
    return text;
  }
  int64_t most_running() const { return most_running_; }
  const std::vector<uint64_t>& order() const { return order_; }

 private:
  TempDir dir_;
  OptionSet options_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<EngineSession> engine_;
  int64_t most_running_ = 0;
  std::vector<uint64_t> order_;
};

std::vector<std::string> with_blocks(int64_t blocks) {
  const TempDir dir;
  return testing::with_blocks(tiny_options(dir), blocks);
}

std::vector<const char*> joined(const std::vector<std::string>& first,
                                std::vector<const char*> more = {}) {
  for (const std::string& text : first) more.push_back(text.c_str());
  return more;
}

TEST(EngineKeys, NoneChangesASample) {
  const std::string expected = Bench({}).play_mixed();
  const std::vector<std::string> small = with_blocks(6);
  const std::vector<std::vector<const char*>> settings = {
      {"engine.prefix_caching=false"},
      {"engine.prefill_chunk=5"},
      {"engine.chunked_prefill=false"},
      {"engine.scheduling_policy=priority"},
      {"engine.max_num_seqs=2"},
      {"engine.max_num_batched_tokens=16"},
      joined(small),
      joined(small, {"engine.kv_watermark=0.5"}),
      joined(small, {"engine.preemption=swap", "engine.swap_space_bytes=65536"})};
  for (const auto& setting : settings) {
    SCOPED_TRACE(setting.front());
    EXPECT_EQ(Bench(setting).play_mixed(), expected);
  }
}

TEST(EngineKeys, PrefixCachingFindsWhatWasComputed) {
  for (const bool caching : {true, false}) {
    Bench bench({caching ? "engine.prefix_caching=true" : "engine.prefix_caching=false"});
    bench.submit(ids_from(1, 20), 4);
    bench.serve();
    bench.submit(ids_from(1, 20), 4);
    bench.serve();
    EXPECT_EQ(bench.engine().stats().cached_tokens, caching ? 16 : 0);
  }
}

TEST(EngineKeys, ChunksCutAPromptAndWithoutThemItWaits) {
  const auto first_rows = [](std::vector<const char*> setting) {
    setting.push_back("engine.max_num_batched_tokens=32");
    Bench bench(setting);
    bench.submit(ids_from(1, 20), 4);
    bench.submit(ids_from(2, 20), 4);
    bench.engine().step();
    return bench.engine().stats().prefill_tokens;
  };
  EXPECT_EQ(first_rows({}), 32);
  EXPECT_EQ(first_rows({"engine.chunked_prefill=false"}), 20);
  EXPECT_EQ(first_rows({"engine.prefill_chunk=6"}), 12);
}

TEST(EngineKeys, PreemptedBlocksAreSwappedOrComputedAnew) {
  const auto stats = [](std::vector<const char*> setting) {
    const std::vector<std::string> small = with_blocks(4);
    Bench bench(joined(small, std::move(setting)));
    EXPECT_EQ(bench.engine().stats().blocks_total, 4);
    for (int32_t i = 0; i < 4; ++i) bench.submit(ids_from(i, 10), 20);
    bench.serve();
    return bench.engine().stats();
  };
  const EngineStats computed = stats({});
  EXPECT_GT(computed.preemptions, 0);
  EXPECT_EQ(computed.swapped_blocks, 0);
  const EngineStats swapped = stats({"engine.preemption=swap", "engine.swap_space_bytes=1048576"});
  EXPECT_GT(swapped.preemptions, 0);
  EXPECT_GT(swapped.swapped_blocks, 0);
  EXPECT_LT(swapped.prefill_tokens, computed.prefill_tokens);
}

TEST(EngineKeys, TheWatermarkKeepsBlocksFree) {
  const auto most_running = [](const char* setting) {
    const std::vector<std::string> blocks = with_blocks(8);
    Bench bench(joined(blocks, {setting}));
    for (int32_t i = 0; i < 8; ++i) bench.submit(ids_from(i, 10), 6);
    bench.serve();
    return bench.most_running();
  };
  EXPECT_EQ(most_running("engine.kv_watermark=0"), 8);
  EXPECT_EQ(most_running("engine.kv_watermark=0.5"), 4);
}

// Three requests for one place: a prompt, an urgent prompt, a sample that is continued.
std::vector<uint64_t> order_under(const char* policy, int64_t priority) {
  Bench bench({"engine.max_num_seqs=1", policy});
  bench.submit(ids_from(1, 4), 2);
  bench.engine().run();
  const SamplePtr begun = bench.engine().take_finished().front();
  bench.submit(ids_from(2, 4), 2);
  Request urgent = request_of(bench.options(), ids_from(3, 4), 2);
  urgent.priority = priority;
  bench.engine().submit(urgent);
  Request more = request_of(bench.options(), {}, 2);
  more.resume = begun;
  bench.engine().submit(more);
  bench.serve();
  return bench.order();
}

TEST(EngineKeys, ThePolicyOrdersRequests) {
  EXPECT_EQ(order_under("engine.scheduling_policy=fcfs", 0), (std::vector<uint64_t>{2, 3, 1}));
  EXPECT_EQ(order_under("engine.scheduling_policy=priority", 0), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(order_under("engine.scheduling_policy=priority", 2), (std::vector<uint64_t>{3, 1, 2}));
  const Error e =
      expect_error(Code::kConflict, [] { order_under("engine.scheduling_policy=fcfs", 1); });
  EXPECT_EQ(e.key, "request.priority");
  EXPECT_EQ(e.other_key, "engine.scheduling_policy");
}

// Of two continued samples the one of more turns goes first.
TEST(EngineKeys, LaterTurnsGoFirst) {
  Bench bench({"engine.max_num_seqs=1", "engine.scheduling_policy=priority"});
  bench.submit(ids_from(1, 4), 2, 2);
  bench.engine().run();
  std::vector<SamplePtr> begun = bench.engine().take_finished();
  auto later = std::make_shared<Sample>(*begun[1]);
  append_given(*later, 9);
  for (const SamplePtr& s : {begun[0], later}) {
    Request r = request_of(bench.options(), {}, 2);
    r.resume = s;
    bench.engine().submit(r);
  }
  bench.serve();
  EXPECT_EQ(bench.order(), (std::vector<uint64_t>{later->id, begun[0]->id}));
}

// However many tokens the environment wrote in it.
TEST(EngineKeys, ATurnOfManyTokensIsOneTurn) {
  Bench bench({"engine.max_num_seqs=1", "engine.scheduling_policy=priority"});
  bench.submit(ids_from(1, 4), 3, 2);
  bench.engine().run();
  const std::vector<SamplePtr> begun = bench.engine().take_finished();
  const auto one = std::make_shared<Sample>(*begun[0]), two = std::make_shared<Sample>(*begun[1]);
  for (const int32_t id : {9, 8, 7, 6}) append_given(*one, id);
  append_given(*two, 9);
  two->loss_mask[1] = 0;  // an earlier turn of the environment
  for (const SamplePtr& s : {one, two}) {
    Request r = request_of(bench.options(), {}, 2);
    r.resume = s;
    bench.engine().submit(r);
  }
  bench.serve();
  EXPECT_EQ(bench.order(), (std::vector<uint64_t>{two->id, one->id}));
}

TEST(EngineKeys, SizesLimitWhatRunsAndWhatIsAdmitted) {
  Bench bench({"engine.max_num_seqs=2", "engine.max_num_batched_tokens=7"});
  for (int32_t i = 0; i < 5; ++i) bench.submit(ids_from(i, 5), 4);
  bench.engine().step();
  EXPECT_EQ(bench.engine().stats().prefill_tokens, 7);
  bench.serve();
  EXPECT_EQ(bench.most_running(), 2);
  const Error e = expect_error(Code::kOutOfRange, [&] { bench.submit(ids_from(1, 20), 13); });
  EXPECT_TRUE(contains(e.message, "20 tokens"));
  EXPECT_TRUE(contains(e.message, "engine.max_model_len 32"));
  // Blocks of twice the tokens: half as many for a longest sequence.
  const std::vector<std::string> small = with_blocks(2);
  EXPECT_EQ(Bench(joined(small)).engine().stats().blocks_total, 2);
  EXPECT_EQ(Bench(joined(small, {"engine.block_size=32"})).engine().stats().blocks_total, 1);
}

TEST(EngineKeys, WithoutALengthTheLongestSequenceIsTheModels) {
  Bench bench({"engine.max_model_len=0"});
  const Error e = expect_error(Code::kOutOfRange, [&] { bench.submit(ids_from(0, 100), 29); });
  EXPECT_TRUE(contains(e.message, "engine.max_model_len 128"));
  bench.submit(ids_from(0, 100), 28);
  bench.serve();
  EXPECT_EQ(bench.engine().stats().generated_tokens, 28);
  EXPECT_EQ(engine_options_from(bench.options(), 128).max_model_len, 128);
}

Error refusal_of(std::vector<const char*> assignments, PlanUse use = PlanUse::kGenerate) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  for (const char* text : assignments) o.set_assignment(text);
  try {
    plan_memory(o, real_fs(), use);
  } catch (const Error& error) {
    EXPECT_LE(error.parts.size(), 1u) << error.message;
    return error.parts.empty() ? error : error.parts.front();
  }
  ADD_FAILURE() << "nothing was refused";
  return Error(Code::kOk, "");
}

void expect_refusal(const Error& e, Code code, const char* key, const char* part) {
  EXPECT_EQ(e.code, code) << e.message;
  EXPECT_EQ(e.key, key) << e.message;
  EXPECT_TRUE(contains(e.message, part)) << e.message;
}

TEST(EngineKeys, TheTypeOfKeysAndValuesActsInThePlanAndInEverySample) {
  const auto generate = [](const char* setting) {
    return Bench({"model.dtype=fp32", setting}).play_mixed();
  };
  EXPECT_EQ(generate("engine.kv_dtype=auto"), generate("engine.kv_dtype=fp32"));
  EXPECT_NE(generate("engine.kv_dtype=bf16"), generate("engine.kv_dtype=fp32"));
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("model.dtype=fp32");
  const MemoryPlan wide = plan_memory(o, real_fs(), PlanUse::kPipeline);
  o.set_assignment("engine.kv_dtype=bf16");
  const MemoryPlan narrow = plan_memory(o, real_fs(), PlanUse::kPipeline);
  EXPECT_EQ(wide.kv_bytes / static_cast<uint64_t>(wide.engine.num_blocks),
            2 * narrow.kv_bytes / static_cast<uint64_t>(narrow.engine.num_blocks));
  for (const double d : testing::Rig(o).start_and_serve().series("training/logprob_max_abs_diff")) {
    EXPECT_EQ(d, 0.0);
  }
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { o.set_assignment("engine.kv_dtype=fp8"); }).key,
            "engine.kv_dtype");
}

TEST(EngineKeys, WhatCannotActIsRefused) {
  expect_refusal(refusal_of({"engine.chunked_prefill=false", "engine.max_num_batched_tokens=31"}),
                 Code::kConflict, "engine.chunked_prefill", "engine.max_model_len is 32");
  expect_refusal(refusal_of({"engine.chunked_prefill=false", "engine.max_num_batched_tokens=100",
                             "engine.max_model_len=0"}),
                 Code::kConflict, "engine.chunked_prefill", "longest sequence has 128");
  expect_refusal(refusal_of({"engine.chunked_prefill=false", "engine.prefill_chunk=8"}),
                 Code::kConflict, "engine.prefill_chunk", "engine.chunked_prefill");
  expect_refusal(refusal_of({"engine.prefill_chunk=65"}), Code::kConflict, "engine.prefill_chunk",
                 "engine.max_num_batched_tokens = 64");
  expect_refusal(refusal_of({"engine.preemption=swap"}), Code::kConflict, "engine.preemption",
                 "engine.swap_space_bytes");
  expect_refusal(refusal_of({"engine.swap_space_bytes=65536"}), Code::kConflict,
                 "engine.swap_space_bytes", "engine.preemption");
  expect_refusal(refusal_of({"engine.preemption=swap", "engine.swap_space_bytes=100"}),
                 Code::kOutOfRange, "engine.swap_space_bytes", "holds 0 KV blocks of 8192 bytes");
  expect_refusal(refusal_of({"engine.scheduling_policy=priority"}, PlanUse::kPipeline),
                 Code::kConflict, "engine.scheduling_policy", "has no effect in a pipeline");
  expect_refusal(refusal_of({"engine.tensor_parallel_size=2"}), Code::kConflict,
                 "engine.tensor_parallel_size", "a model is divided among parallel.tensor = 1");
  expect_refusal(refusal_of({"engine.graph_batch_sizes=1,8"}), Code::kConflict,
                 "engine.graph_batch_sizes", "runtime.device");
  expect_refusal(refusal_of({"engine.keep_kv_on_publish=true", "engine.preemption=swap",
                             "engine.swap_space_bytes=65536"}),
                 Code::kConflict, "engine.keep_kv_on_publish", "model.compute_copies");
  expect_refusal(refusal_of({"engine.keep_kv_on_publish=true", "model.compute_copies=2"}),
                 Code::kConflict, "engine.keep_kv_on_publish", "preempted sample");
  OptionSet o;
  const auto not_taken = [&](const char* text) {
    return expect_error(Code::kOutOfRange, [&] { o.set_assignment(text); }).key;
  };
  EXPECT_EQ(
      expect_error(Code::kWrongType, [&] { o.set_assignment("engine.prefix_caching=maybe"); }).key,
      "engine.prefix_caching");
  EXPECT_EQ(not_taken("engine.tensor_parallel_size=-1"), "engine.tensor_parallel_size");
  EXPECT_EQ(not_taken("sync.bucket_bytes=65535"), "sync.bucket_bytes");
  EXPECT_EQ(not_taken("engine.graph_batch_sizes=0"), "engine.graph_batch_sizes");
  EXPECT_EQ(not_taken("pipeline.partial_rollout_max_aborts=-1"),
            "pipeline.partial_rollout_max_aborts");
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { o.set_f64("engine.kv_watermark", 1.0); }).key,
            "engine.kv_watermark");
}

TEST(EngineKeys, ASmallShareOfTheBudgetIsRefusedWithTheLeastThatServes) {
  OptionSet o;
  const TempDir dir;
  o = tiny_options(dir);
  o.set_u64("runtime.memory_budget_bytes", 1 << 30);
  o.set_f64("engine.memory_fraction", 1e-6);
  const Error e = expect_error(Code::kResourceExhausted,
                               [&] { plan_memory(o, real_fs(), PlanUse::kGenerate); });
  EXPECT_EQ(e.key, "engine.memory_fraction");
  o.set_text("engine.memory_fraction", e.expected.substr(std::string("at least ").size()));
  EXPECT_GE(plan_memory(o, real_fs(), PlanUse::kGenerate).engine.num_blocks, 2);
}

TEST(EngineKeys, TheSwapSpaceIsPartOfThePlan) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const MemoryPlan without = plan_memory(o, real_fs(), PlanUse::kGenerate);
  o.set_text("engine.preemption", "swap");
  o.set_u64("engine.swap_space_bytes", 100000);
  const MemoryPlan with = plan_memory(o, real_fs(), PlanUse::kGenerate);
  const uint64_t whole_blocks = 100000 / 8192 * 8192;
  EXPECT_EQ(with.total_bytes, without.total_bytes + whole_blocks);
  EXPECT_EQ(with.engine.swap_blocks, 12);
  EXPECT_EQ(with.parts.back().name, "swap space");
  EXPECT_EQ(with.parts.back().bytes, whole_blocks);
}

}  // namespace
}  // namespace rl

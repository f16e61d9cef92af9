// engine.num_engines: the same run at every number of engines, memory as planned, figures of each.
#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/arena.h"
#include "pipeline/plan/planner.h"
#include "pipeline/session/conversation.h"
#include "pipeline/session/engine_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::id_rows;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

// What a run generated, with every bit of the log-probs. Ids are unique in a runtime, so they are
// counted from the first of the run.
std::string generated(const std::vector<SamplePtr>& samples) {
  uint64_t first = std::numeric_limits<uint64_t>::max();
  for (const SamplePtr& s : samples) first = std::min(first, s->id);
  std::set<std::string> lines;
  for (const SamplePtr& s : samples) {
    std::string line =
        str(static_cast<int>(s->purpose), " ", s->id - first, " ", s->ordinal, ".", s->slot);
    for (const int32_t id : s->ids) line += str(" ", id);
    line.append(reinterpret_cast<const char*>(s->logprobs.data()), s->logprobs.size() * 4);
    line.append(reinterpret_cast<const char*>(s->logprobs_sampled.data()),
                s->logprobs_sampled.size() * 4);
    lines.insert(line);
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// All metrics but times and how often a prompt was computed, which a schedule decides.
std::string results(const RunLog& log) {
  std::string out;
  for (const MetricList& step : log.steps) {
    MetricList kept;
    for (const Metric& m : step.without_times()) {
      if (!m.name.starts_with("rollout/")) kept.set(m.name, m.value);
    }
    out += kept.to_json() + "\n";
  }
  return out;
}

TEST(Replicas, ARunIsTheSameAtEveryNumberOfEngines) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), id_rows(5));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_assignment("eval.every_steps=2");
  o.set_assignment("engine.max_num_seqs=5");
  std::string samples, metrics;
  uint64_t digest = 0;
  for (const int64_t engines : {1, 2, 3}) {
    SCOPED_TRACE(engines);
    o.set_i64("engine.num_engines", engines);
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.samples.size(), 3u * 16 + 5);
    if (engines == 1) {
      samples = generated(log.samples);
      metrics = results(log);
      digest = rig.model().weight_digest();
    }
    EXPECT_EQ(generated(log.samples), samples);
    EXPECT_EQ(results(log), metrics);
    EXPECT_EQ(rig.model().weight_digest(), digest);
  }
}

// The members of a group that find no place wait; so do those of an evaluation.
TEST(Replicas, AGroupMayBeLargerThanAnEngine) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  for (const char* text :
       {"eval.every_steps=2", "eval.temperature=1", "eval.samples_per_prompt=5"}) {
    o.set_assignment(text);
  }
  std::string samples, metrics;
  for (const int64_t running : {16, 3, 1}) {
    SCOPED_TRACE(running);
    o.set_i64("engine.max_num_seqs", running);
    const RunLog log = Rig(o).start_and_serve();
    EXPECT_EQ(log.samples.size(), 3u * 16 + 3 * 5);
    if (running == 16) {
      samples = generated(log.samples);
      metrics = results(log);
    }
    EXPECT_EQ(generated(log.samples), samples);
    EXPECT_EQ(results(log), metrics);
  }
}

TEST(Replicas, AnEngineOfTheHostGeneratesTheSameAtEveryNumber) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto runtime = std::make_shared<Runtime>(o);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kGenerate);
  std::string one;
  for (const int64_t engines : {1, 2, 3}) {
    SCOPED_TRACE(engines);
    o.set_i64("engine.num_engines", engines);
    EngineSession part(model, testing::for_session(o));
    for (int i = 0; i < 7; ++i) {
      Request r;
      r.prompt = {1, 2, 3 + i % 2};
      r.max_new_tokens = 3 + i;
      r.num_samples = 1 + i % 3;
      part.submit(r);
    }
    part.run();
    const std::string got = generated(part.take_finished());
    if (engines == 1) one = got;
    EXPECT_EQ(got, one);
    ASSERT_EQ(part.num_engines(), engines);
    int64_t finished = 0;
    for (int64_t i = 0; i < engines; ++i) {
      EXPECT_GT(part.stats(i).finished, 0);
      finished += part.stats(i).finished;
    }
    EXPECT_EQ(finished, part.stats().finished);
  }
}

// Five groups that pass drains and sleeps, and a conversation of two turns.
std::string eventful(const std::shared_ptr<EngineSession>& part) {
  const auto ask = [&](int64_t i) {
    Request r;
    r.prompt = {1, 2, static_cast<int32_t>(3 + i % 3)};
    r.max_new_tokens = 8 + i;
    r.num_samples = 2;
    part->submit(r);
  };
  for (int64_t i = 0; i < 3; ++i) ask(i);
  Conversation talk(part, std::vector<int32_t>{5, 6, 7});
  Request turn;
  turn.max_new_tokens = 6;
  talk.generate(turn);
  for (int i = 0; i < 6; ++i) part->step();
  EXPECT_EQ(part->drain(0), EngineStep::kTimedOut);
  ask(3);
  EXPECT_EQ(part->drain(-1), EngineStep::kIdle);
  EXPECT_FALSE(part->idle());  // what came during the drain waits
  part->unpause();
  part->sleep(1);
  ask(4);
  part->wake();
  for (int i = 0; i < 4; ++i) part->step();
  part->sleep(2);
  part->wake();
  part->run();
  talk.append(std::vector<int32_t>{9});
  talk.generate(turn);
  part->run();
  std::vector<SamplePtr> all = part->take_finished();
  all.push_back(talk.sample());
  EXPECT_EQ(all.size(), 11u);
  return generated(all);
}

TEST(Replicas, DrainsSleepsAndTurnsGenerateTheSameAtEveryNumber) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("engine.max_model_len=64");
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kGenerate);
  std::string one;
  for (const int64_t engines : {1, 2, 3}) {
    SCOPED_TRACE(engines);
    o.set_i64("engine.num_engines", engines);
    const std::string got =
        eventful(std::make_shared<EngineSession>(model, testing::for_session(o)));
    if (engines == 1) one = got;
    EXPECT_EQ(got, one);
  }
}

TEST(Replicas, ThePlanHoldsAllOfThem) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const MemoryPlan one = plan_memory(o, real_fs(), PlanUse::kGenerate);
  o.set_i64("engine.num_engines", 3);
  const MemoryPlan three = plan_memory(o, real_fs(), PlanUse::kGenerate);
  EXPECT_EQ(three.num_engines, 3);
  EXPECT_EQ(three.engine.num_blocks, one.engine.num_blocks);  // no budget: all that can be used
  EXPECT_EQ(three.kv_bytes, 3 * one.kv_bytes);
  EXPECT_EQ(three.engine_workspace_bytes, 3 * one.engine_workspace_bytes);
  {
    const auto runtime = std::make_shared<Runtime>(o);
    const auto model = LoadedModel::open(runtime, o, PlanUse::kGenerate);
    const EngineSession part(model, testing::for_session(o));
    EXPECT_EQ(runtime->ledger().bytes(), three.arena_bytes);
    EXPECT_EQ(part.stats().blocks_total, 3 * one.engine.num_blocks);
  }
  const MemoryPlan pipeline = plan_memory(o, real_fs(), PlanUse::kPipeline);
  Rig rig(o);
  EXPECT_EQ(rig.runtime().ledger().bytes(), pipeline.arena_bytes);
}

TEST(Replicas, ABudgetIsSharedAndTooManyEnginesAreNamed) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const MemoryPlan free = plan_memory(o, real_fs(), PlanUse::kGenerate);
  const ModelConfig config =
      LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kModel)->config();
  o.set_assignment("engine.memory_fraction=1");
  o.set_i64("engine.num_engines", 2);
  const uint64_t both = Planner(o, config, PlanUse::kGenerate).min_total();
  const uint64_t block = free.kv_bytes / static_cast<uint64_t>(free.engine.num_blocks);
  o.set_u64("runtime.memory_budget_bytes", both + 4 * block);
  const MemoryPlan shared = plan_memory(o, real_fs(), PlanUse::kGenerate);
  const int64_t least = Planner(o, config, PlanUse::kGenerate).min_blocks();
  EXPECT_EQ(shared.engine.num_blocks, least + 2);
  o.set_i64("engine.num_engines", 3);
  const Error e = expect_error(Code::kResourceExhausted,
                               [&] { plan_memory(o, real_fs(), PlanUse::kGenerate); });
  EXPECT_EQ(e.key, "engine.num_engines");
  EXPECT_EQ(e.other_key, "runtime.memory_budget_bytes");
  EXPECT_EQ(e.expected, "at most 2");
  EXPECT_TRUE(contains(e.message, "engine.num_engines is 3")) << e.message;
}

TEST(Replicas, TheirNumberHasBounds) {
  OptionSet o;
  for (const int64_t number : {0, 65, -1}) {
    const Error e =
        expect_error(Code::kOutOfRange, [&] { o.set_i64("engine.num_engines", number); });
    EXPECT_EQ(e.key, "engine.num_engines");
  }
}

TEST(Replicas, EventsAndLanesNameTheirEngine) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("engine.num_engines=2");
  o.set_assignment("engine.stats_interval_ns=1ns");
  o.set_assignment("profiler.timeline.enable=true");
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  const RunLog log = Rig(o).start_and_serve();
  std::map<int64_t, double> finished;
  for (const auto& e : log.intervals) {
    EXPECT_EQ(e->metrics.get("perf/engine/number"), e->engine);
    finished[e->engine] += e->metrics.get("perf/engine/finished").value();
  }
  EXPECT_EQ(finished, (std::map<int64_t, double>{{0, 24}, {1, 24}}));
  std::ifstream in(dir.file("trace/trace.json"));
  std::set<std::string> lanes;
  const auto trace = nlohmann::json::parse(in);
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("name") == "thread_name") lanes.insert(e.at("args").at("name").get<std::string>());
  }
  for (const char* name : {"engine 0", "engine 1", "engine 0 slot 0", "engine 1 slot 7"}) {
    EXPECT_TRUE(lanes.contains(name)) << name;
  }
  EXPECT_FALSE(lanes.contains("engine 1 slot 8"));
}

}  // namespace
}  // namespace rl

// What a run tells of its engine: metrics of a step, intervals as events and as lines of the
// metrics file, and lanes of samples in the trace.
#include "pipeline/update/engine_metrics.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "pipeline/session/engine_session.h"
#include "profile/metrics_writer.h"
#include "report/report_series.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

double sum_of(const RunLog& log, const char* name) {
  double sum = 0;
  for (const auto& e : log.intervals) sum += e->metrics.get(name).value();
  return sum;
}

TEST(EngineMetrics, ARequestIsQueuedThenPrefilledThenDecoded) {
  const auto s = std::make_shared<Sample>();
  s->submitted_ns = 1'000'000'000;
  s->admitted_ns = 1'250'000'000;
  s->first_token_ns = 1'750'000'000;
  s->finished_ns = 3'750'000'000;
  s->preemptions = 2;
  const MetricList m = request_metrics(std::vector<SamplePtr>{s});
  for (const char* which : {"mean", "max", "min"}) {
    EXPECT_DOUBLE_EQ(m.get(str("timing_s/request/queue/", which)).value(), 0.25);
    EXPECT_DOUBLE_EQ(m.get(str("timing_s/request/first_token/", which)).value(), 0.75);
    EXPECT_DOUBLE_EQ(m.get(str("timing_s/request/prefill/", which)).value(), 0.5);
    EXPECT_DOUBLE_EQ(m.get(str("timing_s/request/decode/", which)).value(), 2.0);
    EXPECT_EQ(m.get(str("perf/request/preemptions/", which)), 2.0);
  }
}

TEST(EngineMetrics, AStepHasWhatCameSinceTheOneBefore) {
  EngineStats before, after;
  before.cached_tokens = 10;
  before.looked_up_tokens = 100;
  before.preemptions = 2;
  before.prefill_ns = 1'000'000'000;
  after.cached_tokens = 40;
  after.looked_up_tokens = 150;
  after.preemptions = 5;
  after.prefill_ns = 1'500'000'000;
  const MetricList m = rollout_metrics(before, after);
  EXPECT_EQ(m.get("perf/engine/prefix_hit_rate"), 0.6);
  EXPECT_EQ(m.get("perf/engine/preemptions"), 3.0);
  EXPECT_DOUBLE_EQ(m.get("timing_s/engine/prefill").value(), 0.5);
}

TEST(EngineMetrics, AnIntervalHasItsFiguresInTheirUnits) {
  EngineStats s;
  s.busy_ns = 2'000'000'000;
  s.running = 3;
  s.waiting = 4;
  s.blocks_in_use = 25;
  s.blocks_peak = 50;
  s.blocks_total = 100;
  s.preemptions = 2;
  s.cached_tokens = 30;
  s.looked_up_tokens = 40;
  s.generated_tokens = 500;
  s.admitted = 4;
  s.queue_ns = 6'000'000'000;
  s.longest_queue_ns = 3'000'000'000;
  s.first_tokens = 2;
  s.first_token_ns = 1'000'000'000;
  s.longest_first_token_ns = 750'000'000;
  s.prefill_ns = 500'000'000;
  s.decode_ns = 1'250'000'000;
  const MetricList m = interval_metrics(1, s);
  const auto at = [&](const char* name) { return m.get(name).value(); };
  EXPECT_EQ(at("perf/engine/number"), 1);
  EXPECT_EQ(at("timing_s/engine/interval"), 2);
  EXPECT_EQ(at("perf/engine/running"), 3);
  EXPECT_EQ(at("perf/engine/waiting"), 4);
  EXPECT_EQ(at("perf/engine/kv_use"), 0.25);
  EXPECT_EQ(at("perf/engine/kv_use_peak"), 0.5);
  EXPECT_EQ(at("perf/engine/preemptions"), 2);
  EXPECT_EQ(at("perf/engine/prefix_hit_rate"), 0.75);
  EXPECT_EQ(at("perf/engine/tokens_per_s"), 250);
  EXPECT_EQ(at("timing_s/request/queue/mean"), 1.5);
  EXPECT_EQ(at("timing_s/request/queue/max"), 3);
  EXPECT_EQ(at("timing_s/request/first_token/mean"), 0.5);
  EXPECT_EQ(at("timing_s/request/first_token/max"), 0.75);
  EXPECT_EQ(at("timing_s/engine/prefill"), 0.5);
  EXPECT_EQ(at("timing_s/engine/decode"), 1.25);
  EXPECT_EQ(interval_metrics(0, {}).get("perf/engine/prefix_hit_rate"), 0);
  EXPECT_EQ(m.without_times().size(), 0u);  // none is the same in every run
}

TEST(EngineMetrics, EveryIntervalIsAnEventAndALine) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("engine.stats_interval_ns=1ns");
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  const RunLog log = Rig(o).start_and_serve();
  // Three steps of eight forwards each.
  EXPECT_EQ(log.intervals.size(), 24u);
  EXPECT_EQ(sum_of(log, "perf/engine/finished"), 48);
  EXPECT_EQ(sum_of(log, "perf/engine/admitted"), 48);
  for (const auto& e : log.intervals) {
    EXPECT_EQ(e->version, e->step);
    EXPECT_EQ(e->engine, 0);
  }
  std::vector<nlohmann::json> engine, steps;
  uint64_t last = 0;
  for (const auto& line : lines_of(dir.file("metrics.jsonl"))) {
    (line.contains(kEngineMetric) ? engine : steps).push_back(line);
    const auto step = line.at(kStepMetric).get<uint64_t>();
    EXPECT_GE(step, last);
    last = step;
  }
  EXPECT_EQ(steps.size(), 3u);
  ASSERT_EQ(engine.size(), log.intervals.size());
  for (size_t i = 0; i < engine.size(); ++i) {
    EXPECT_EQ(engine[i].at(kStepMetric), log.intervals[i]->step + 1);
    for (const Metric& m : log.intervals[i]->metrics) EXPECT_EQ(engine[i].at(m.name), m.value);
  }
  ReadNotes notes;
  const StepTable table = read_step_table(real_fs(), dir.file("metrics.jsonl"), notes);
  EXPECT_EQ(table.steps, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(notes.sentences().empty());
}

// In the first step only the critic is trained, so that two steps draw with version 0.
TEST(EngineMetrics, AnIntervalNamesTheVersionOfItsWeights) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"engine.stats_interval_ns=1ns", "algo.advantage=gae", "algo.critic_warmup_steps=1"}) {
    o.set_assignment(text);
  }
  const RunLog log = Rig(o).start_and_serve();
  ASSERT_EQ(log.intervals.size(), 24u);
  for (const auto& e : log.intervals) EXPECT_EQ(e->version, e->step == 0 ? 0 : e->step - 1);
}

TEST(EngineMetrics, WithoutAnIntervalNothingIsReported) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  EXPECT_TRUE(Rig(o).start_and_serve().intervals.empty());
  EXPECT_EQ(lines_of(dir.file("metrics.jsonl")).size(), 3u);
  o.set_assignment("engine.stats_interval_ns=1h");  // longer than the run
  EXPECT_TRUE(Rig(o).start_and_serve().intervals.empty());
  const Error e =
      expect_error(Code::kOutOfRange, [&] { o.set_i64("engine.stats_interval_ns", -1); });
  EXPECT_EQ(e.key, "engine.stats_interval_ns");
}

TEST(EngineMetrics, AResumedRunHasEachLineOnce) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("engine.stats_interval_ns=1ns");
  o.set_assignment("checkpoint.every_steps=2");
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  Rig(o).start_and_serve();
  o.set_string("checkpoint.resume", "auto");
  Rig(o).start_and_serve();
  std::map<uint64_t, int> lines;
  for (const auto& line : lines_of(dir.file("metrics.jsonl"))) {
    ++lines[line.at(kStepMetric).get<uint64_t>()];
  }
  EXPECT_EQ(lines, (std::map<uint64_t, int>{{1, 9}, {2, 9}, {3, 9}}));
}

TEST(EngineMetrics, AStepTellsOfWaitsPreemptionsAndHits) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto serve = [&](const char* text) {
    o.set_assignment(text);
    return Rig(o).start_and_serve();
  };
  const RunLog wide = serve("engine.max_num_seqs=16"), narrow = serve("engine.max_num_seqs=4");
  for (size_t i = 0; i < 3; ++i) {
    const MetricList &w = wide.steps[i], &n = narrow.steps[i];
    EXPECT_GT(n.get("timing_s/request/queue/max"), w.get("timing_s/request/queue/max"));
    EXPECT_GT(n.get("timing_s/request/first_token/mean"), n.get("timing_s/request/queue/mean"));
    EXPECT_GT(w.get("timing_s/request/decode/min"), 0);
    EXPECT_GE(w.get("timing_s/request/prefill/min"), 0);
    EXPECT_GT(w.get("timing_s/engine/prefill"), 0);
    EXPECT_GT(w.get("timing_s/engine/decode"), 0);
    EXPECT_EQ(w.get("perf/engine/preemptions"), 0);
    EXPECT_EQ(w.get("perf/request/preemptions/max"), 0);
    EXPECT_EQ(w.get("perf/engine/prefix_hit_rate"), 0);  // prompts of three tokens fill no block
    EXPECT_GT(w.get("perf/engine/kv_use_peak"), 0);
    EXPECT_LE(w.get("perf/engine/kv_use_peak"), 1);
  }
}

TEST(EngineMetrics, TheTraceHasALaneForEachPlaceThatWasUsed) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("profiler.timeline.enable=true");
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  Rig(o).start_and_serve();
  std::ifstream in(dir.file("trace/trace.json"));
  const auto trace = nlohmann::json::parse(in);
  std::set<std::string> lanes;
  int stays = 0;
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M" && e.at("name") == "thread_name" && e.at("tid") >= kFirstSampleLane) {
      lanes.insert(e.at("args").at("name").get<std::string>());
    }
    stays += e.at("ph") == "X" && e.at("name") == "sample";
  }
  EXPECT_EQ(lanes.size(), 16u);
  EXPECT_TRUE(lanes.contains("engine 0 slot 15"));
  EXPECT_EQ(stays, 48);
}

TEST(EngineMetrics, AnEngineWithoutAPipelineOffersItsIntervals) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto runtime = std::make_shared<Runtime>(o);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kGenerate);
  {
    const EngineSession plain(model, testing::for_session(o));
    const Error e = expect_error(Code::kFailedPrecondition, [&] { plain.last_interval(0); });
    EXPECT_EQ(e.key, "engine.stats_interval_ns");
  }
  o.set_assignment("engine.stats_interval_ns=1ns");
  EngineSession engine(model, testing::for_session(o));
  EXPECT_FALSE(engine.last_interval(0));
  Request r;
  r.prompt = {1, 2, 3};
  r.max_new_tokens = 4;
  r.ignore_eos = true;
  engine.submit(r);
  engine.run();
  ASSERT_TRUE(engine.last_interval(0));
  EXPECT_EQ(engine.last_interval(0)->finished, 1);
  EXPECT_EQ(engine.last_interval(0)->forwards, 1);
}

}  // namespace
}  // namespace rl

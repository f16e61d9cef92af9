// The registry of metrics (abi/metrics.yml) against what runs emit: every event has the names that
// the registry gives it under the conditions of its run, and no other, and no name of the registry
// is without a run that emits it.
#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "host_batch.h"
#include "late_scorer.h"
#include "rank_rig.h"
#include "roles/role_rig.h"
#include "scenarios.h"
#include "support/metric_table.gen.h"

namespace rl {
namespace {

using testing::host_batch;
using testing::kMetricTable;
using testing::MetricRow;
using testing::Names;
using testing::options_of;
using testing::Rig;
using testing::RunLog;
using testing::Scenario;
using testing::scenarios;
using testing::score_unless_late;

struct Emitted {
  std::string run, event;
  Names conditions, names;
};

Names conditions_of(const Scenario& run) {
  const std::string_view objective = run.objective;
  Names out = {"samples", "updated"};
  const bool rewarded = objective == "rl" || objective == "distill";
  if (rewarded) out.insert({"rewarded", "estimated"});
  if (!run.part) out.insert("pipeline");
  if (!run.part && rewarded) out.insert("generated");
  if (objective == "dpo" || objective == "reward_model") out.insert("pairs");
  if (objective == "distill") out.insert("teacher");
  if (objective == "dpo") out.insert("dpo");
  out.insert(objective == "reward_model" ? "scalar_head" : "no_scalar_head");
  out.insert(run.adds.begin(), run.adds.end());
  for (const std::string& name : run.lacks)
    EXPECT_EQ(out.erase(name), 1u) << run.name << ": " << name;
  return out;
}

Names names_of(const MetricList& metrics) {
  Names out;
  for (const Metric& m : metrics) EXPECT_TRUE(out.insert(m.name).second) << m.name;
  return out;
}

void serve(const Scenario& run, std::vector<Emitted>& out) {
  const TempDir dir;
  Rig rig(options_of(run, dir));
  if (run.on_score) rig.on_score = run.on_score;
  const RunLog log = rig.start_and_serve();
  Names conditions = conditions_of(run);
  for (const auto& d : log.dropped) conditions.insert(str("dropped_", drop_reason_name(d->reason)));
  const auto add = [&](const char* event, const MetricList& metrics) {
    out.push_back({run.name, event, conditions, names_of(metrics)});
  };
  for (const MetricList& m : log.steps) add("step", m);
  for (const auto& e : log.evals) add("eval", e->metrics);
  for (const auto& e : log.intervals) add("interval", e->metrics);
  EXPECT_FALSE(log.steps.empty()) << run.name;
  EXPECT_EQ(!log.evals.empty(), run.evaluates) << run.name;
}

void run_sessions(const Scenario& run, std::vector<Emitted>& out) {
  const TempDir dir;
  const OptionSet o = options_of(run, dir);
  TrainerSession trainer(LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain),
                         testing::for_session(o));
  const bool is_sft = std::string_view(run.objective) == "sft";
  const std::vector<SamplePtr> batch = host_batch(trainer, {.with_logprobs = !is_sft});
  const std::vector<double> advantages(batch.size(), 0.5);
  const MetricList metrics = run.lacks.contains("estimated")
                                 ? trainer.step_with_advantages(batch, advantages)
                                 : trainer.step(batch);
  out.push_back({run.name, "step", conditions_of(run), names_of(metrics)});
}

// The first checkpoint fails after the first step, and the second step says so.
void serve_without_checkpoints(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{.name = "a checkpoint that cannot be written",
                          .assignments = {"pipeline.total_steps=2"}};
  OptionSet o = options_of(scenario, dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  for (const char* text :
       {"checkpoint.every_steps=1", "checkpoint.on_failure=continue", "checkpoint.metric=no/such"})
    o.set_assignment(text);
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  Names conditions = conditions_of(scenario);
  conditions.insert("checkpoint_failed");
  ASSERT_EQ(log.steps.size(), 2u);
  out.push_back({scenario.name, "step", conditions, names_of(log.steps[1])});
}

// The checkpoint of the first step is complete when that of the second begins, so the third step
// has its times.
void serve_with_async_checkpoints(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{.name = "checkpoints that are written meanwhile",
                          .assignments = {"pipeline.total_steps=3"}};
  OptionSet o = options_of(scenario, dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  for (const char* text : {"checkpoint.every_steps=1", "checkpoint.async=true"})
    o.set_assignment(text);
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  Names conditions = conditions_of(scenario);
  conditions.insert("checkpoint_async");
  ASSERT_EQ(log.steps.size(), 3u);
  out.push_back({scenario.name, "step", conditions, names_of(log.steps[2])});
}

void serve_with_prefetched_prompts(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{
      .name = "prompts that are read before",
      .assignments = {"pipeline.prompt_prefetch=true", "data.streaming_buffer_size=2",
                      "data.preprocess_workers=2", "pipeline.max_concurrent_prompts_per_engine=1"},
      .adds = {"prefetched", "kept_rows", "workers", "lanes"}};
  Rig rig(options_of(scenario, dir));
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 1u);
  out.push_back({scenario.name, "step", conditions_of(scenario), names_of(log.steps[0])});
}

// Advantages that no fp32 holds.
void score_too_high(Pipeline& p, const SamplePtr& s) {
  p.score(s->id, s->slot % 2 == 0 ? 1e300 : -1e300);
}

// Groups are cancelled when weights are published, and the steps after that say so.
void serve_with_cancelled_groups(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{
      .name = "groups that are cancelled",
      .assignments = {"pipeline.mode=async", "model.compute_copies=2",
                      "pipeline.partial_rollout=true", "pipeline.max_off_policy_steps=0",
                      "trainer.max_tokens_per_device=48", "sampling.max_new_tokens=24",
                      "pipeline.total_steps=4"},
      .adds = {"ahead", "dropped_cancelled"}};
  Rig rig(options_of(scenario, dir));
  rig.on_score = score_unless_late;
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 4u);
  out.push_back({scenario.name, "step", conditions_of(scenario), names_of(log.steps[3])});
}

// The bound on the age of samples is lowered while a batch is generated.
void serve_with_a_lower_bound(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{.name = "groups that become too old",
                          .assignments = {"pipeline.mode=async", "model.compute_copies=2",
                                          "pipeline.queue_size=0", "pipeline.total_steps=6"},
                          .adds = {"ahead", "dropped_stale"}};
  const OptionSet o = options_of(scenario, dir);
  Rig rig(o);
  rig.on_step = [&](Pipeline& p, const StepEvent& e) {
    if (e.step != 2) return;
    OptionSet next = o;
    next.set_i64("pipeline.max_staleness", 0);
    p.set_options(next);
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 6u);
  out.push_back({scenario.name, "step", conditions_of(scenario), names_of(log.steps[5])});
}

// The groups are those of another pipeline.
void serve_from_a_store(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{
      .name = "groups of a store", .adds = {"ahead", "claims"}, .lacks = {"generated"}};
  const RunLog log =
      testing::run_both(testing::rollout_options(dir), testing::train_options(dir)).train;
  ASSERT_EQ(log.steps.size(), 4u);
  out.push_back({scenario.name, "step", conditions_of(scenario), names_of(log.steps[3])});
}

// The first rank of two has the metrics of a step.
void step_on_ranks(std::vector<Emitted>& out) {
  const TempDir dir;
  const Scenario scenario{.name = "a step of two ranks", .adds = {"ranks"}, .part = true};
  OptionSet o = options_of(scenario, dir);
  o.set_i64("parallel.data", 2);
  testing::run_ranks(testing::make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    testing::RankParts parts(runtime);
    const MetricList metrics = parts.trainer.step(host_batch(parts.trainer, {}));
    if (parts.rank != 0) return;
    out.push_back({scenario.name, "step", conditions_of(scenario), names_of(metrics)});
  });
}

// All runs, once for all tests.
const std::vector<Emitted>& emitted() {
  static const std::vector<Emitted> all = [] {
    std::vector<Emitted> out;
    for (const Scenario& run : scenarios()) run.part ? run_sessions(run, out) : serve(run, out);
    serve({.name = "an update that is not finite",
           .assignments = {"algo.adv_norm_std=false"},
           .on_score = score_too_high},
          out);
    step_on_ranks(out);
    serve_without_checkpoints(out);
    serve_with_async_checkpoints(out);
    serve_with_prefetched_prompts(out);
    serve_with_cancelled_groups(out);
    serve_with_a_lower_bound(out);
    serve_from_a_store(out);
    return out;
  }();
  return all;
}

Names words_of(const MetricRow& row) {
  std::istringstream words(row.conditions);
  return {std::istream_iterator<std::string>(words), {}};
}

bool holds(const MetricRow& row, const Emitted& in) {
  return in.event == row.event && std::ranges::includes(in.conditions, words_of(row));
}

Names registered(const Emitted& in) {
  Names out;
  for (const MetricRow& row : kMetricTable) {
    if (holds(row, in)) out.insert(row.name);
  }
  return out;
}

Names without(const Names& all, const Names& less) {
  Names out;
  std::ranges::set_difference(all, less, std::inserter(out, out.end()));
  return out;
}

TEST(MetricRegistry, HasTheNamesOfEveryEventAndWhenTheyAreThere) {
  for (const Emitted& e : emitted()) {
    SCOPED_TRACE(str(e.run, ", event ", e.event));
    const Names expected = registered(e);
    for (const std::string& name : without(e.names, expected)) {
      ADD_FAILURE() << name << " is emitted, but abi/metrics.yml does not have it here";
    }
    for (const std::string& name : without(expected, e.names)) {
      ADD_FAILURE() << name << " is not emitted, but abi/metrics.yml has it here";
    }
  }
}

// Some event lacks the metric for want of this condition alone.
TEST(MetricRegistry, HasNoConditionThatCouldBeLeftOut) {
  for (const MetricRow& row : kMetricTable) {
    const Names words = words_of(row);
    for (const std::string& word : words) {
      const Names others = without(words, {word});
      const auto shows = [&](const Emitted& e) {
        return e.event == row.event && !e.conditions.contains(word) &&
               std::ranges::includes(e.conditions, others);
      };
      EXPECT_TRUE(std::ranges::any_of(emitted(), shows))
          << row.event << " " << row.name << ": no run shows that it needs the condition " << word;
    }
  }
}

TEST(MetricRegistry, HasNoNameThatNoRunEmits) {
  Names seen;
  for (const Emitted& e : emitted()) {
    for (const std::string& name : e.names) seen.insert(str(e.event, " ", name));
  }
  for (const MetricRow& row : kMetricTable) {
    const std::string key = str(row.event, " ", row.name);
    EXPECT_TRUE(seen.contains(key)) << key << " is in abi/metrics.yml, but no run emits it";
  }
}

}  // namespace
}  // namespace rl

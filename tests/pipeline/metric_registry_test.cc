// The registry of metrics (abi/metrics.yml) against what runs emit: every event has the names that
// the registry gives it under the conditions of its run, and no other, and no name of the registry
// is without a run that emits it.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>

#include "host_batch.h"
#include "run_rig.h"
#include "support/metric_table.gen.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::host_batch;
using testing::kMetricTable;
using testing::MetricRow;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;
using Names = std::set<std::string>;
using Texts = std::vector<std::string>;

// A run on the tiny model. Which conditions hold in all its events follows from its objective, but
// for what it adds and lacks; the reasons of dropped groups are added by themselves.
struct Run {
  const char* name = "";
  const char* objective = "rl";
  Texts assignments = {};
  Names adds = {}, lacks = {};
  bool evaluates = false;
  std::function<void(Pipeline&, const SamplePtr&)> on_score = {};
  bool part = false;  // one step of a trainer of the host's own loop; without "estimated" it is
                      // given advantages
};

struct Emitted {
  std::string run, event;
  Names conditions, names;
};

Names conditions_of(const Run& run) {
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

Texts answer_rows(bool pairs) {
  const char* const response =
      pairs ? R"("chosen": [50, 61], "rejected": [90, 80, 70])" : R"("response": [50, 61, 72])";
  Texts rows;
  for (int i = 0; i < 12; ++i) rows.push_back(str("{\"ids\": [1, ", 10 + i, "], ", response, "}"));
  return rows;
}

OptionSet options_of(const Run& run, const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  const std::string_view objective = run.objective;
  const bool given = objective != "rl" && objective != "distill";
  if (given) {
    for (const char* key :
         {"engine.max_num_batched_tokens", "engine.max_num_seqs", "pipeline.samples_per_prompt",
          "sampling.ignore_eos", "sampling.max_new_tokens"}) {
      o.unset(key);
    }
    write_lines(dir.file("data.jsonl"), answer_rows(objective != "sft"));
  }
  o.set_text("algo.objective", run.objective);
  o.set_i64("pipeline.total_steps", 1);
  if (objective == "distill") o.set_string("model.teacher_path", fixture_model("mistral"));
  if (run.evaluates) {
    const bool scored = objective == "reward_model";
    write_lines(dir.file("eval.jsonl"), scored ? answer_rows(true) : testing::id_rows(3));
    o.set_string("eval.path", dir.file("eval.jsonl"));
    o.set_i64("eval.every_steps", 1);
    if (given && !scored) o.set_i64("sampling.max_new_tokens", 8);
  }
  for (const std::string& text : run.assignments) o.set_assignment(text);
  return o;
}

Names names_of(const MetricList& metrics) {
  Names out;
  for (const Metric& m : metrics) EXPECT_TRUE(out.insert(m.name).second) << m.name;
  return out;
}

void play(const Run& run, std::vector<Emitted>& out) {
  const TempDir dir;
  Rig rig(options_of(run, dir));
  if (run.on_score) rig.on_score = run.on_score;
  const RunLog log = rig.start_and_play();
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

// Even ordinals have no signal.
void score_by_ordinal(Pipeline& p, const SamplePtr& s) {
  p.score(s->id, s->ordinal % 2 == 0 ? 1.0 : 0.25 * s->slot);
}

void score_alike(Pipeline& p, const SamplePtr& s) { p.score(s->id, 1); }

// One group fails, one is never scored.
void score_in_part(Pipeline& p, const SamplePtr& s) {
  if (s->ordinal == 0 && s->slot == 0) p.fail(s->id, "broken");
  if (s->ordinal > 1) p.score(s->id, testing::low_id_reward(*s));
}

std::vector<Run> runs() {
  const Texts corrections = {"algo.correction.rs=token_k1", "algo.correction.rs_bounds=0.5_2",
                             "algo.correction.veto=1e-4", "algo.correction.decoupled=true"};
  return {
      {.name = "grpo with a reference in the loss, evaluations and intervals",
       .assignments = {"algo.kl.where=loss", "algo.kl.coef=0.1", "pipeline.total_steps=2",
                       "engine.stats_interval_ns=1ns"},
       .adds = {"kl_in_loss"},
       .evaluates = true},
      {.name = "ppo with a reference in the reward",
       .assignments = {"algo.advantage=gae", "algo.kl.where=reward", "algo.kl.coef=0.1"},
       .adds = {"critic", "kl_in_reward"}},
      {.name = "ppo while the critic warms up",
       .assignments = {"algo.advantage=gae", "algo.critic_warmup_steps=1",
                       "algo.correction.decoupled=true"},
       .adds = {"critic", "corrected"},
       .lacks = {"updated"}},
      {.name = "corrections", .assignments = corrections, .adds = {"corrected"}},
      {.name = "one correction",
       .assignments = {"algo.correction.opsm_delta=0.1"},
       .adds = {"corrected"}},
      {.name = "filtered groups",
       .assignments = {"pipeline.filter=mean", "pipeline.filter_max_rounds=1"},
       .on_score = score_by_ordinal},
      {.name = "no group is left",
       .assignments = {"pipeline.discard_zero_advantage=true", "algo.correction.decoupled=true"},
       .adds = {"corrected"},
       .lacks = {"updated", "samples"},
       .on_score = score_alike},
      {.name = "ppo, no group is left",
       .assignments = {"algo.advantage=gae", "pipeline.filter=mean",
                       "pipeline.filter_max_rounds=1"},
       .adds = {"critic"},
       .lacks = {"updated", "samples"},
       .on_score = score_alike},
      {.name = "rewards that fail or do not come",
       .assignments = {"pipeline.reward_timeout_ns=500ms"},
       .on_score = score_in_part},
      {.name = "no sample carries loss", .assignments = {"pipeline.overlong_filter=true"}},
      {.name = "distill on sampled tokens", .objective = "distill"},
      {.name = "distill on rows",
       .objective = "distill",
       .assignments = {"algo.distill.kl=reverse"},
       .adds = {"row_teacher"}},
      {.name = "distill on rows, no group is left",
       .objective = "distill",
       .assignments = {"algo.distill.kl=reverse", "pipeline.filter=mean",
                       "pipeline.filter_max_rounds=1"},
       .adds = {"row_teacher"},
       .lacks = {"teacher", "updated", "samples"},
       .on_score = score_alike},
      {.name = "sft with evaluations", .objective = "sft", .evaluates = true},
      {.name = "dpo", .objective = "dpo"},
      {.name = "a reward model with evaluations", .objective = "reward_model", .evaluates = true},
      {.name = "parts: grpo",
       .assignments = {"algo.correction.decoupled=true"},
       .adds = {"corrected"},
       .part = true},
      {.name = "parts: given advantages",
       .assignments = {"algo.kl.where=loss", "algo.kl.coef=0.1"},
       .adds = {"kl_in_loss"},
       .lacks = {"estimated"},
       .part = true},
      {.name = "parts: ppo",
       .assignments = {"algo.advantage=gae"},
       .adds = {"critic"},
       .part = true},
      {.name = "parts: distill", .objective = "distill", .part = true},
      {.name = "parts: sft", .objective = "sft", .part = true},
  };
}

void play_part(const Run& run, std::vector<Emitted>& out) {
  const TempDir dir;
  const OptionSet o = options_of(run, dir);
  TrainerPart trainer(LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain),
                      testing::for_part(o));
  const bool is_sft = std::string_view(run.objective) == "sft";
  const std::vector<SamplePtr> batch = host_batch(trainer, {.with_logprobs = !is_sft});
  const std::vector<double> advantages(batch.size(), 0.5);
  const MetricList metrics = run.lacks.contains("estimated")
                                 ? trainer.step_with_advantages(batch, advantages)
                                 : trainer.step(batch);
  out.push_back({run.name, "step", conditions_of(run), names_of(metrics)});
}

// All runs, once for all tests.
const std::vector<Emitted>& emitted() {
  static const std::vector<Emitted> all = [] {
    std::vector<Emitted> out;
    for (const Run& run : runs()) run.part ? play_part(run, out) : play(run, out);
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

// Short runs on the tiny model that together pass through every objective, role, filter, correction
// and kind of event: once for the metrics that they emit, once for everything that they do.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "run_rig.h"
#include "scored_model.h"

namespace rl::testing {

using Names = std::set<std::string>;
using Texts = std::vector<std::string>;

// A run on the tiny model. Which conditions hold in all its events follows from its objective, but
// for what it adds and lacks; the reasons of dropped groups are added by themselves.
struct Scenario {
  const char* name = "";
  const char* objective = "rl";
  Texts assignments = {};
  Names adds = {}, lacks = {};
  bool evaluates = false;
  std::function<void(Pipeline&, const SamplePtr&)> on_score = {};
  bool timed = false;     // the order of its events depends on a clock
  bool rewarded = false;  // a reward model scores in the host's place
  bool part = false;      // one step of a trainer of the host's own loop; without "estimated" it is
                          // given advantages
};

inline Texts response_rows(bool pairs) {
  const char* const response =
      pairs ? R"("chosen": [50, 61], "rejected": [90, 80, 70])" : R"("response": [50, 61, 72])";
  Texts rows;
  for (int i = 0; i < 12; ++i) rows.push_back(str("{\"ids\": [1, ", 10 + i, "], ", response, "}"));
  return rows;
}

inline OptionSet options_of(const Scenario& run, const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  const std::string_view objective = run.objective;
  const bool given = objective != "rl" && objective != "distill";
  if (given) {
    for (const char* key :
         {"engine.max_num_batched_tokens", "engine.max_num_seqs", "pipeline.samples_per_prompt",
          "sampling.ignore_eos", "sampling.max_new_tokens"}) {
      o.unset(key);
    }
    write_lines(dir.file("data.jsonl"), response_rows(objective != "sft"));
  }
  o.set_text("algo.objective", run.objective);
  o.set_i64("pipeline.total_steps", 1);
  if (objective == "distill") o.set_string("model.teacher_path", fixture_model("mistral"));
  if (run.evaluates) {
    const bool scored = objective == "reward_model";
    write_lines(dir.file("eval.jsonl"), scored ? response_rows(true) : id_rows(3));
    o.set_string("eval.path", dir.file("eval.jsonl"));
    o.set_i64("eval.every_steps", 1);
    if (given && !scored) o.set_i64("sampling.max_new_tokens", 8);
  }
  if (run.rewarded) o.set_string("model.reward_path", scored_model(dir));
  for (const std::string& text : run.assignments) o.set_assignment(text);
  return o;
}

// Even ordinals have no signal.
inline void score_by_ordinal(Pipeline& p, const SamplePtr& s) {
  p.score(s->id, s->ordinal % 2 == 0 ? 1.0 : 0.25 * s->slot);
}

inline void score_alike(Pipeline& p, const SamplePtr& s) { p.score(s->id, 1); }

// One group fails, one is never scored.
inline void score_in_part(Pipeline& p, const SamplePtr& s) {
  if (s->ordinal == 0 && s->slot == 0) p.fail(s->id, "broken");
  if (s->ordinal > 1) p.score(s->id, low_id_reward(*s));
}

inline std::vector<Scenario> scenarios() {
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
      {.name = "a step ahead",
       .assignments = {"pipeline.mode=one_step_off", "model.compute_copies=2",
                       "pipeline.total_steps=2"},
       .adds = {"ahead"},
       .timed = true},
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
       .on_score = score_in_part,
       .timed = true},
      {.name = "samples are cut",
       .assignments = {"trainer.seq_len=6", "trainer.oversize=cut"},
       .adds = {"cut"}},
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

}  // namespace rl::testing

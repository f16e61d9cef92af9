// Options act: every one that may change between steps holds from the next step on and no sooner,
// every other one is refused by name, what is wrong at creation is said at once, and outputs,
// evaluations, checkpoints and the memory plan follow their options.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/violations.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/option_samples.h"
#include "tokenized_model.h"

namespace rl {
namespace {

namespace files = std::filesystem;
using testing::id_rows;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

int64_t count_lines(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  int64_t count = 0;
  while (std::getline(in, line)) ++count;
  return count;
}

std::set<std::string> names_in(const std::string& dir) {
  std::set<std::string> names;
  if (!files::exists(dir)) return names;
  for (const auto& entry : files::directory_iterator(dir)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// All that a host can see of a run but times. Paths are relative to the directory of the run.
struct Seen {
  std::vector<std::string> steps;  // metrics, one text a step
  std::string rest;                // samples, evaluations, drops, files and weights
};

std::string text_of(const Sample& s) {
  std::string out = str(s.purpose == Purpose::kEval ? "eval " : "train ", s.ordinal, ".", s.slot);
  for (const int32_t id : s.ids) out += str(" ", id);
  for (const int32_t id : s.top_ids) out += str(" top ", id);
  if (s.purpose == Purpose::kEval) {
    for (const float logprob : s.logprobs) out += str(" ", logprob);
  }
  if (s.prompt_logprobs != nullptr) out += str(" prompt ", s.prompt_logprobs->size());
  return out + "\n";
}

Seen seen(const RunLog& log, const TempDir& dir) {
  Seen out;
  for (const MetricList& m : log.steps) out.steps.push_back(m.without_times().to_json());
  std::set<std::string> samples;  // the order of their ends is no promise
  for (const SamplePtr& s : log.samples) samples.insert(text_of(*s));
  for (const std::string& s : samples) out.rest += s;
  out.rest += str("groups ", log.num_groups, "\n");
  for (const auto& e : log.evals) out.rest += str("eval ", e->step, " ", e->num_scored, "\n");
  for (const auto& d : log.dropped) out.rest += str("dropped ", d->ordinal, "\n");
  for (const auto& f : log.failed_checkpoints) out.rest += str("not saved ", f->step, "\n");
  for (const std::string& name : names_in(dir.file("checkpoints"))) out.rest += name + "\n";
  return out;
}

// A change of one option after the first step has begun, and what the run is like besides.
struct Change {
  std::string assignment;
  std::vector<const char*> base = {};
};

std::vector<const char*> with(std::vector<const char*> base, const std::vector<const char*>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

const std::map<std::string, Change>& changes() {
  const std::vector<const char*> eval = {"eval.path=EVAL", "eval.every_steps=2"};
  const std::vector<const char*> passes = {"trainer.epochs=3", "optimizer.lr=1e-3"};
  const std::vector<const char*> adaptive = {"algo.kl.where=loss", "algo.kl.coef=0.1",
                                             "algo.kl.controller=adaptive",
                                             "pipeline.total_steps=3"};
  const std::vector<const char*> kl_passes =
      with(passes, {"algo.kl.where=loss", "algo.kl.coef=0.5"});
  const std::vector<const char*> mean_filter = {"pipeline.filter=mean",
                                                "pipeline.filter_max_rounds=1"};
  // A metric that falls from step to step.
  const std::vector<const char*> of_metric = {
      "checkpoint.dir=DIR",         "checkpoint.every_steps=1", "checkpoint.keep_last=1",
      "checkpoint.metric=actor/lr", "schedule.name=linear",     "schedule.total_steps=9",
      "pipeline.total_steps=3"};
  const std::vector<const char*> pairs = {"algo.objective=dpo"};
  const std::vector<const char*> sampler_weights =
      with(passes, {"algo.policy_loss=none", "algo.correction.is=token"});
  static const auto* const kChanges = new std::map<std::string, Change>{
      {"algo.adv_ddof", {"0"}},
      {"algo.adv_eps", {"1"}},
      {"algo.adv_norm_std", {"false"}},
      {"algo.clip_cov_high",
       {"1e-3",
        with(passes, {"algo.policy_loss=clip_cov", "algo.cov_ratio=1", "algo.clip_cov_low=-1"})}},
      {"algo.clip_cov_low",
       {"1",
        with(passes, {"algo.policy_loss=clip_cov", "algo.cov_ratio=1", "algo.clip_cov_low=-1"})}},
      {"algo.clip_high", {"0", passes}},
      {"algo.clip_low", {"0", passes}},
      {"algo.correction.batch_normalize", {"true", sampler_weights}},
      {"algo.correction.denominator", {"all", with(passes, {"algo.correction.opsm_delta=1e-4"})}},
      {"algo.correction.high", {"0.5", sampler_weights}},
      {"algo.correction.log_clamp", {"1e-5", sampler_weights}},
      {"algo.correction.veto", {"0.99999", passes}},
      {"algo.correction.low", {"1.5", sampler_weights}},
      {"algo.correction.opsm_delta", {"1e-4", passes}},
      {"algo.cov_ratio", {"0.5", with(passes, {"algo.policy_loss=kl_cov"})}},
      {"algo.distill.beta",
       {"0.9", {"algo.objective=distill", "model.teacher_path=TEACHER", "algo.distill.kl=mixed"}}},
      {"algo.distill.coef", {"9", {"algo.objective=distill", "model.teacher_path=TEACHER"}}},
      {"algo.dpo.beta", {"1", pairs}},
      {"algo.dpo.label_smoothing", {"0.4", pairs}},
      {"algo.dpo.nll_coef", {"1", pairs}},
      {"algo.dro_beta", {"5", with(passes, {"algo.policy_loss=dro"})}},
      {"algo.dual_clip", {"1.001", passes}},
      {"algo.entropy_coef", {"0.5"}},
      {"algo.kl.ratio", {"full", kl_passes}},
      {"algo.kl.ratio_cap", {"1e-3", with(kl_passes, {"algo.kl.ratio=gradient"})}},
      {"algo.kl.value_clamp", {"1e-6", kl_passes}},
      {"algo.kl.coef", {"0.5", {"algo.kl.where=loss", "optimizer.lr=0.05"}}},
      {"algo.gamma", {"0.5", {"algo.advantage=reinforce_pp"}}},
      {"algo.kl.horizon", {"20", adaptive}},
      {"algo.kl.target", {"1000", adaptive}},
      {"algo.kl_cov_coef", {"9", with(passes, {"algo.policy_loss=kl_cov", "algo.cov_ratio=0.5"})}},
      {"algo.lambda", {"0.1", {"algo.advantage=gae", "critic.optimizer.lr=0.1"}}},
      {"algo.loss_scale_factor",
       {"4", {"algo.loss_agg=seq_mean_token_sum_norm", "algo.loss_scale_factor=8"}}},
      {"algo.ratio_cap", {"1", passes}},
      {"algo.ratio_log_clamp", {"1e-3", passes}},
      {"algo.reward.clip_high", {"0.3", {"algo.reward.clip_high=0.5"}}},
      {"algo.reward.clip_low", {"0.25", {"algo.reward.clip_high=0.5"}}},
      {"algo.reward.normalize", {"true"}},
      {"algo.reward.overlong_buffer", {"8"}},
      {"algo.reward.overlong_penalty", {"2", {"algo.reward.overlong_buffer=4"}}},
      {"algo.reward.truncation_penalty", {"-1"}},
      {"algo.sapo_tau_neg", {"9", with(passes, {"algo.policy_loss=sapo"})}},
      {"algo.sapo_tau_pos", {"9", with(passes, {"algo.policy_loss=sapo"})}},
      {"algo.value_clip",
       {"1e-6", {"algo.advantage=gae", "critic.optimizer.lr=0.1", "trainer.epochs=3"}}},
      {"checkpoint.every_steps", {"1", {"checkpoint.dir=DIR"}}},
      {"checkpoint.keep_best", {"1", of_metric}},
      {"checkpoint.keep_last", {"1", {"checkpoint.dir=DIR", "checkpoint.every_steps=1"}}},
      {"checkpoint.metric",
       {"training/weight_version", with(of_metric, {"checkpoint.keep_best=1"})}},
      {"checkpoint.metric_goal", {"lowest", with(of_metric, {"checkpoint.keep_best=1"})}},
      {"checkpoint.on_failure",
       {"stop",
        {"checkpoint.dir=DIR", "checkpoint.every_steps=2", "checkpoint.on_failure=continue",
         "checkpoint.metric=no/such"}}},
      {"critic.optimizer.grad_clip",
       {"1e-6", {"algo.advantage=gae", "pipeline.total_steps=3"}}},  // seen in the values after it
      {"critic.optimizer.lr", {"0.1", {"algo.advantage=gae"}}},
      {"critic.optimizer.weight_decay",
       {"5", {"algo.advantage=gae", "critic.optimizer.lr=0.1", "pipeline.total_steps=3"}}},
      {"eval.every_steps", {"1", {"eval.path=EVAL"}}},
      {"eval.max_new_tokens", {"3", eval}},
      {"eval.max_prompts", {"1", eval}},
      {"eval.temperature", {"2", eval}},
      {"eval.top_p", {"0.1", with(eval, {"eval.temperature=1"})}},
      {"eval.weights", {"ema", with(eval, {"optimizer.ema=0.9", "optimizer.lr=0.05"})}},
      {"metrics.interval_steps", {"3", {"metrics.jsonl=METRICS"}}},
      {"optimizer.grad_clip", {"1e-3"}},
      {"optimizer.lr", {"1e-3"}},
      {"optimizer.weight_decay", {"1"}},
      {"pipeline.discard_zero_advantage", {"true", {"sampling.allowed_token_ids=3,5"}}},
      {"pipeline.filter_high", {"0.1", mean_filter}},
      {"pipeline.filter_low", {"0.4", mean_filter}},
      {"pipeline.filter_max_rounds", {"2", with(mean_filter, {"pipeline.filter_high=0.01"})}},
      {"pipeline.filter_spread",
       {"10", {"pipeline.filter=spread", "pipeline.filter_max_rounds=1"}}},
      {"pipeline.max_staleness",
       {"1",
        {"pipeline.mode=async", "model.compute_copies=2", "pipeline.max_staleness=0",
         "pipeline.queue_size=0", "pipeline.total_steps=4"}}},
      {"pipeline.max_turns", {"1", {"pipeline.turns=always"}}},
      {"pipeline.overlong_filter", {"true"}},
      {"pipeline.repetition_filter", {"0.1", {"sampling.allowed_token_ids=3,5"}}},
      {"pipeline.repetition_ngram",
       {"8",
        {"sampling.allowed_token_ids=3,5", "pipeline.repetition_filter=0.3",
         "pipeline.repetition_ngram=2"}}},
      {"pipeline.reply_timeout_ns", {"1ns", {"pipeline.turns=always"}}},
      {"pipeline.reward_timeout_ns", {"1ns"}},
      {"pipeline.score_events", {"group"}},
      {"pipeline.total_steps", {"3"}},
      {"sampling.allowed_token_ids", {"3,5,8,13,21"}},
      {"sampling.frequency_penalty", {"2", {"sampling.temperature=0.3"}}},
      {"sampling.ignore_eos", {"false", {"sampling.max_new_tokens=24"}}},
      {"sampling.logit_bias", {"7:100"}},
      {"sampling.logprobs", {"2"}},
      {"sampling.max_new_tokens", {"4"}},
      {"sampling.min_new_tokens",
       {"6", {"sampling.logit_bias=7:100", "sampling.stop_token_ids=7"}}},
      {"sampling.min_p", {"0.9"}},
      {"sampling.presence_penalty", {"2", {"sampling.temperature=0.3"}}},
      {"sampling.prompt_logprobs", {"true"}},
      {"sampling.repetition_penalty", {"3"}},
      {"sampling.stop", {"a,b,c,d,e,f,g,h,0,1,2,3,4,5", {"model.path=TOKENIZED"}}},
      {"sampling.stop_token_ids", {"1,5,9,20,33,47,60,80,90,100,120,140,160,180,200,220,240"}},
      {"sampling.temperature", {"0.3"}},
      {"sampling.top_k", {"3"}},
      {"sampling.top_p", {"0.1"}},
  };
  return *kChanges;
}

OptionSet base_options(const Change& change, const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  o.set_text("pipeline.total_steps", "2");
  testing::write_lines(dir.file("eval.jsonl"), id_rows(3));
  for (const std::string text : change.base) {
    if (text == "eval.path=EVAL") {
      o.set_string("eval.path", dir.file("eval.jsonl"));
    } else if (text == "checkpoint.dir=DIR") {
      o.set_string("checkpoint.dir", dir.file("checkpoints"));
    } else if (text == "metrics.jsonl=METRICS") {
      o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
    } else if (text == "model.teacher_path=TEACHER") {
      o.set_string("model.teacher_path", testing::fixture_model("qwen2"));
    } else if (text == "model.path=TOKENIZED") {
      o.set_string("model.path", testing::with_small_tokenizer(dir));
    } else {
      o.set_assignment(text);
    }
  }
  if (o.get_string("algo.objective") == "dpo") {
    o.set_text("data.path", "");
    for (const char* key :
         {"engine.max_num_batched_tokens", "engine.max_num_seqs", "pipeline.samples_per_prompt",
          "sampling.ignore_eos", "sampling.max_new_tokens"}) {
      o.unset(key);
    }
  }
  return o;
}

// Feeds two steps of pairs; the change comes between them.
void feed_pairs(Rig& rig, const OptionSet& base, const std::pair<std::string, std::string>& change,
                bool unchanged) {
  const auto feed = [&rig] {
    for (const char* ids : {"3", "4", "5", "6"}) {
      rig.pipeline().feed_line(str("{\"ids\": [1, ", ids, "], \"chosen\": [", ids,
                                   ", 9], \"rejected\": [8, 7, ", ids, "]}"));
    }
  };
  feed();
  rig.on_step = [=](Pipeline& p, const StepEvent& event) {
    if (event.step != 1) return;
    OptionSet next = base;
    if (!unchanged) next.set_text(change.first, change.second);
    p.set_options(next);
    feed();
  };
}

// Runs the base; with a key, its value changes while the samples of the first step are scored.
Seen run(const std::string& key, const Change& change, bool changed) {
  const TempDir dir;
  const OptionSet base = base_options(change, dir);
  Rig rig(base);
  bool done = !changed;
  if (changed && key == "checkpoint.on_failure") rig.ends_with = Code::kNotFound;
  if (base.get_string("algo.objective") == "dpo")
    feed_pairs(rig, base, {key, change.assignment}, done);
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (!done) {
      done = true;
      OptionSet next = base;
      next.set_text(key, change.assignment);
      p.set_options(next);
    }
    try {
      p.score(s->id, low_id_reward(*s));
    } catch (const Error& error) {
      EXPECT_EQ(error.code, Code::kLate) << error.message;
    }
  };
  const auto answer = rig.on_turn;
  rig.on_turn = [&](Pipeline& p, const TurnEvent& e) {
    try {
      answer(p, e);
    } catch (const Error& error) {
      EXPECT_EQ(error.code, Code::kLate) << error.message;
    }
  };
  const RunLog log = rig.start_and_serve();
  Seen out = seen(log, dir);
  out.rest += str("weights ", rig.model().weight_digest(), "\n");
  if (files::exists(dir.file("metrics.jsonl"))) {
    out.rest += str("lines ", count_lines(dir.file("metrics.jsonl")), "\n");
  }
  return out;
}

TEST(OptionEffects, EveryOptionThatChangesBetweenStepsHoldsFromTheNextStepOn) {
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (info.when != OptionWhen::kBetweenSteps) continue;
    SCOPED_TRACE(info.key);
    const auto found = changes().find(info.key);
    if (found == changes().end()) {
      ADD_FAILURE() << "the test has no change of this option";
      continue;
    }
    const Seen before = run(info.key, found->second, false);
    const Seen after = run(info.key, found->second, true);
    ASSERT_GE(before.steps.size(), 2u);
    ASSERT_GE(after.steps.size(), 2u);
    EXPECT_EQ(before.steps[0], after.steps[0]) << "it acted at once";
    EXPECT_FALSE(before.steps == after.steps && before.rest == after.rest) << "it did not act";
  }
}

TEST(OptionEffects, TheLogLevelChangesAtOnce) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_text("runtime.log_level", "warn");
  Rig rig(o);
  EXPECT_EQ(rig.runtime().logger().level(), LogLevel::kWarn);
  for (size_t i = 0; i < option_count(); ++i) {
    if (option_at(i).when != OptionWhen::kAnyTime) continue;
    EXPECT_STREQ(option_at(i).key, "runtime.log_level");
  }
  o.set_text("runtime.log_level", "debug");
  rig.pipeline().set_options(o);
  EXPECT_EQ(rig.runtime().logger().level(), LogLevel::kDebug);
  o.set_text("runtime.log_level", "off");
  const Pipeline other(rig.shared_model(), o);
  EXPECT_EQ(rig.runtime().logger().level(), LogLevel::kOff);
}

std::set<std::string> keys_with(const Error& error, Code code) {
  std::set<std::string> keys;
  for (const Error& part : error.parts) {
    if (part.code == code) keys.insert(part.key);
  }
  if (error.parts.empty() && error.code == code) keys.insert(error.key);
  return keys;
}

Error refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was refused";
  return Error(Code::kOk, "");
}

TEST(OptionEffects, EveryOptionFixedAtCreationIsRefusedByName) {
  const TempDir dir;
  const OptionSet base = tiny_options(dir);
  Rig rig(base);
  OptionSet all = base;
  std::set<std::string> fixed;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (info.when != OptionWhen::kCreate) continue;
    OptionSet changed = base;
    for (const OptionValue& value : testing::valid_values(info)) {
      if (changed.diff(base).empty()) changed.set_value(info.key, value);
    }
    if (changed.diff(base).empty()) continue;  // has one value only
    all.set_value(info.key, changed.get_value(info.key));
    fixed.insert(info.key);
    const Error error = refusal([&] { rig.pipeline().set_options(changed); });
    EXPECT_EQ(keys_with(error, Code::kNotChangeable), std::set<std::string>{info.key});
    EXPECT_TRUE(contains(error.message, info.key));
  }
  EXPECT_GT(fixed.size(), 30u);
  const Error error = refusal([&] { rig.pipeline().set_options(all); });
  EXPECT_EQ(keys_with(error, Code::kNotChangeable), fixed);
}

TEST(OptionEffects, CreatingReportsEverythingAtOnce) {
  const TempDir dir;
  const OptionSet good = tiny_options(dir);
  OptionSet threads = good;
  threads.set_i64("runtime.threads", 1024);
  threads.set_f64("algo.kl.coef", 0.1);
  threads.set_text("schedule.name", "linear");
  const Error of_runtime = refusal([&] { Runtime runtime(threads); });
  EXPECT_EQ(keys_with(of_runtime, Code::kConflict),
            (std::set<std::string>{"algo.kl.coef", "schedule.name"}));
  EXPECT_EQ(keys_with(of_runtime, Code::kOutOfRange), (std::set<std::string>{"runtime.threads"}));

  Rig rig(good);
  OptionSet bad = good;
  for (const char* text :
       {"algo.kl.coef=0.1", "runtime.seed=8", "runtime.memory_margin_bytes=1",
        "engine.block_size=32", "sampling.stop_token_ids=256", "sampling.temperature=1e-7",
        "runtime.experiment=a/b", "trainer.max_tokens_per_device=20"}) {
    bad.set_assignment(text);
  }
  const std::set<std::string> everywhere = {"algo.kl.coef", "runtime.experiment", "runtime.seed",
                                            "runtime.memory_margin_bytes"};
  const auto with = [&](std::set<std::string> more) {
    more.insert(everywhere.begin(), everywhere.end());
    return more;
  };
  const Error of_pipeline = refusal([&] { Pipeline(rig.shared_model(), bad); });
  EXPECT_EQ(keys_with(of_pipeline, Code::kConflict),
            with({"engine.block_size", "trainer.max_tokens_per_device"}));
  EXPECT_EQ(keys_with(of_pipeline, Code::kOutOfRange),
            (std::set<std::string>{"sampling.stop_token_ids", "sampling.temperature",
                                   "runtime.experiment"}));
  for (const Error& part : of_pipeline.parts) {
    EXPECT_TRUE(contains(of_pipeline.message, part.message));
    EXPECT_TRUE(contains(part.message, part.key));
    EXPECT_TRUE(contains(part.message, part.other_key));
  }
  const Error of_engine = refusal([&] { EngineSession(rig.shared_model(), bad); });
  EXPECT_EQ(keys_with(of_engine, Code::kConflict),
            with({"data.path", "engine.block_size", "pipeline.total_steps"}));
  const Error of_trainer = refusal([&] { TrainerSession(rig.shared_model(), bad); });
  EXPECT_EQ(keys_with(of_trainer, Code::kConflict),
            with({"data.path", "engine.block_size", "pipeline.total_steps",
                  "trainer.max_tokens_per_device"}));
  const auto runtime = std::make_shared<Runtime>(good);
  const Error of_model = refusal([&] { LoadedModel::open(runtime, bad, PlanUse::kPipeline); });
  EXPECT_EQ(keys_with(of_model, Code::kConflict), with({"trainer.max_tokens_per_device"}));
}

TEST(OptionEffects, RelativeOutputsGoToTheDirectoryOfTheExperiment) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("runtime.output_dir", dir.file("out/runs"));
  o.set_text("runtime.experiment", "first");
  o.set_text("metrics.jsonl", "metrics.jsonl");
  o.set_text("checkpoint.dir", "checkpoints");
  o.set_text("checkpoint.every_steps", "1");
  o.set_text("buffer.record_dir", "batches");
  o.set_text("pipeline.record_path", "schedule");
  o.set_text("profiler.timeline.enable", "true");
  o.set_string("profiler.timeline.dir", dir.file("trace"));  // absolute: as it is
  {
    Rig rig(o);
    rig.start_and_serve();
  }
  const std::string root = dir.file("out/runs/first");
  EXPECT_EQ(count_lines(root + "/metrics.jsonl"), 3);
  EXPECT_EQ(names_in(root + "/checkpoints").count("step_000003"), 1u);
  EXPECT_EQ(names_in(root + "/batches").size(), 3u);
  EXPECT_TRUE(files::exists(root + "/schedule"));
  EXPECT_TRUE(files::exists(dir.file("trace/trace.json")));
  o.set_text("checkpoint.resume", "auto");
  o.set_text("pipeline.total_steps", "4");
  Rig again(o);
  EXPECT_EQ(again.pipeline().resumed_from(), root + "/checkpoints/step_000003");
}

TEST(OptionEffects, OutputPathsFollowDirectoryAndExperiment) {
  OptionSet o;
  const auto path = [&] { return output_path(o, Settings(o).metrics.jsonl); };
  EXPECT_EQ(path(), "");
  o.set_text("metrics.jsonl", "m");
  EXPECT_EQ(path(), "m");
  o.set_text("runtime.experiment", "e");
  EXPECT_EQ(path(), "e/m");
  o.set_text("runtime.output_dir", "/o");
  EXPECT_EQ(path(), "/o/e/m");
  o.set_text("metrics.jsonl", "/m");
  EXPECT_EQ(path(), "/m");
}

TEST(OptionEffects, SeveralEvaluationResponsesToAPromptDifferAndAreAllScored) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_text("eval.every_steps", "3");
  o.set_text("eval.samples_per_prompt", "5");
  o.set_text("eval.temperature", "1");
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 15);
  std::map<uint64_t, std::set<std::vector<int32_t>>> responses;
  for (const SamplePtr& s : log.samples) {
    if (s->purpose == Purpose::kEval) responses[s->ordinal].insert(s->ids);
  }
  ASSERT_EQ(responses.size(), 3u);
  for (const auto& [ordinal, ids] : responses) EXPECT_EQ(ids.size(), 5u) << ordinal;
}

TEST(OptionEffects, TheMarginIsLeftFreeByThePlan) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const uint64_t least = plan_memory(o, real_fs(), PlanUse::kPipeline).total_bytes;
  const uint64_t margin = 3 << 20;
  OptionSet whole = o;
  whole.set_u64("runtime.memory_budget_bytes", least + (64 << 20));
  o.set_u64("runtime.memory_budget_bytes", least + (64 << 20) + margin);
  o.set_u64("runtime.memory_margin_bytes", margin);
  const MemoryPlan a = plan_memory(whole, real_fs(), PlanUse::kPipeline);
  const MemoryPlan b = plan_memory(o, real_fs(), PlanUse::kPipeline);
  EXPECT_EQ(render_plan(a), render_plan(b));
  o.set_u64("runtime.memory_margin_bytes", least + (63 << 20));
  const Error e = expect_error(Code::kResourceExhausted,
                               [&] { plan_memory(o, real_fs(), PlanUse::kPipeline); });
  EXPECT_TRUE(contains(e.message, "runtime.memory_margin_bytes"));
}

}  // namespace
}  // namespace rl

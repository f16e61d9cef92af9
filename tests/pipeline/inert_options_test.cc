// An option that cannot act in what is made is refused by name: those of a pipeline by the parts of
// a host's own loop, those of an engine where none is made, those that make advantages beside given
// ones.
#include <algorithm>
#include <functional>

#include "core/violations.h"
#include "host_batch.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/option_samples.h"

namespace rl {
namespace {

using testing::for_session;
using testing::tiny_options;

std::vector<Error> refusals(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.parts.empty() ? std::vector<Error>{error} : error.parts;
  }
  return {};
}

bool names(const std::vector<Error>& errors, const std::string& key, const std::string& text) {
  return std::ranges::any_of(errors, [&](const Error& e) {
    return (e.key == key || e.other_key == key) && contains(e.message, key) &&
           contains(e.message, text);
  });
}

std::shared_ptr<LoadedModel> open(const OptionSet& o, PlanUse use = PlanUse::kTrain) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, use);
}

TEST(InertOptions, PartsRefuseWhatActsInAPipelineOnly) {
  const TempDir dir;
  const OptionSet base = for_session(tiny_options(dir));
  const auto model = open(base);
  int count = 0;
  OptionSet all = base;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (!info.pipeline_only) continue;
    SCOPED_TRACE(info.key);
    OptionSet changed = base;
    for (const OptionValue& value : testing::valid_values(info)) {
      if (changed.is_default(info.key)) changed.set_value(info.key, value);
    }
    if (changed.is_default(info.key)) continue;  // has one value only
    all.set_value(info.key, changed.get_value(info.key));
    ++count;
    EXPECT_TRUE(names(refusals([&] { EngineSession(model, changed); }), info.key,
                      "only has an effect in a pipeline, and this is an engine"));
    EXPECT_TRUE(names(refusals([&] { TrainerSession(model, changed); }), info.key,
                      "only has an effect in a pipeline, and this is a trainer"));
  }
  EXPECT_GT(count, 30);
  const std::vector<Error> errors = refusals([&] { TrainerSession(model, all); });
  const auto reported = std::ranges::count_if(errors, [](const Error& e) {
    return contains(e.message, "only has an effect in a pipeline");
  });
  EXPECT_EQ(reported, count) << "all at once";
}

// One set of options serves both parts of a loop, each of which reads its own.
TEST(InertOptions, PartsTakeTheOptionsOfEachOther) {
  const TempDir dir;
  OptionSet o = for_session(tiny_options(dir));
  for (const char* text :
       {"optimizer.lr=1e-4", "engine.max_num_seqs=3", "sampling.temperature=0.5",
        "trainer.epochs=2", "pipeline.prompts_per_step=2", "algo.clip_low=0.1"}) {
    o.set_assignment(text);
  }
  const auto model = open(o);
  const EngineSession engine(model, o);
  const TrainerSession trainer(model, o);
}

TEST(InertOptions, ARunThatGeneratesNothingRefusesTheOptionsOfItsEngine) {
  const TempDir dir;
  testing::write_lines(dir.file("rows.jsonl"), {R"({"ids": [1, 2], "response": [3, 4]})"});
  OptionSet base;
  for (const char* text :
       {"runtime.threads=1", "model.dtype=fp32", "algo.objective=sft", "engine.max_model_len=32",
        "engine.block_size=16", "engine.kv_dtype=fp32"}) {
    base.set_assignment(text);
  }
  base.set_string("model.path", testing::fixture_model("llama"));
  base.set_string("data.path", dir.file("rows.jsonl"));
  const auto model = open(base, PlanUse::kPipeline);
  Pipeline pipeline(model, base);
  for (const std::string assignment :
       {"engine.num_engines=2", "engine.max_num_seqs=3", "engine.prefix_caching=false",
        "engine.kv_watermark=0.5", "engine.stats_interval_ns=1s",
        "engine.max_num_batched_tokens=99", "engine.chunked_prefill=false",
        "engine.prefill_chunk=8", "sampling.top_k=3"}) {
    SCOPED_TRACE(assignment);
    const std::string key = assignment.substr(0, assignment.find('='));
    OptionSet o = base;
    o.set_assignment(assignment);
    EXPECT_TRUE(names(refusals([&] { Pipeline(model, o); }), key, "generates nothing"));
    testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(2));
    o.set_string("eval.path", dir.file("eval.jsonl"));
    o.set_text("sampling.max_new_tokens", "8");
    const auto with_eval = refusals([&] { Pipeline(model, o); });
    EXPECT_FALSE(names(with_eval, key, "generates nothing"));
    EXPECT_EQ(names(with_eval, key, "generates only for evaluations"), key == "sampling.top_k");
  }
}

TEST(InertOptions, APipelineInterruptsNothing) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto model = open(o, PlanUse::kPipeline);
  o.set_text("pipeline.partial_rollout_max_aborts", "2");
  const Error e = expect_error(Code::kConflict, [&] { Pipeline(model, o); });
  EXPECT_EQ(e.key, "pipeline.partial_rollout_max_aborts");
  EXPECT_EQ(e.other_key, "pipeline.partial_rollout");
  EXPECT_TRUE(contains(e.message, "is 2, but a pipeline without pipeline.partial_rollout"));
}

TEST(InertOptions, GivenAdvantagesRefuseWhatMakesThemOutOfRewards) {
  const std::vector<std::vector<std::string>> cases = {
      {"algo.whiten=eps"},
      {"algo.advantage=rloo"},
      {"algo.adv_norm_std=false"},
      {"algo.adv_singleton=zero"},
      {"algo.reward.normalize=true"},
      {"algo.reward.overlong_buffer=2"},
      {"algo.kl.where=reward", "algo.kl.coef=0.1"},
      {"algo.gamma=0.5", "algo.advantage=reinforce_pp"},
      {"algo.gdpo_weights=1,1", "algo.advantage=gdpo"}};
  const std::vector<double> one(8, 1.0);
  for (const std::vector<std::string>& assignments : cases) {
    SCOPED_TRACE(assignments.front());
    const TempDir dir;
    OptionSet o = for_session(tiny_options(dir));
    for (const std::string& text : assignments) o.set_assignment(text);
    TrainerSession trainer(open(o), o);
    const auto batch = testing::host_batch(trainer);
    const std::vector<Error> errors = refusals([&] { trainer.step_with_advantages(batch, one); });
    const std::string key = assignments.front().substr(0, assignments.front().find('='));
    EXPECT_TRUE(names(errors, key, "advantages are given"));
    for (const Error& e : errors) EXPECT_EQ(e.key, "step.advantages");
  }
}

TEST(InertOptions, GivenAdvantagesGoWithTheirSamples) {
  std::vector<MetricList> metrics;
  for (const bool reversed : {false, true}) {
    const TempDir dir;
    const OptionSet o = for_session(tiny_options(dir));
    TrainerSession trainer(open(o), o);
    auto batch = testing::host_batch(trainer);
    std::vector<double> advantages = {1, -2, 3, -4, 5, -6, 7, -8};
    if (reversed) {
      std::ranges::reverse(batch);
      std::ranges::reverse(advantages);
    }
    metrics.push_back(trainer.step_with_advantages(batch, advantages));
  }
  EXPECT_EQ(metrics[0].without_times().to_json(), metrics[1].without_times().to_json());
  EXPECT_EQ(metrics[0].get("critic/score/mean"), 7.0 / 8);  // of the samples' own rewards
}

// Samples that a filter leaves without loss are left without it beside given advantages too.
TEST(InertOptions, FiltersOfResponsesActWithGivenAdvantages) {
  const std::vector<double> one(8, 1.0);
  for (const bool filters : {false, true}) {
    const TempDir dir;
    OptionSet o = for_session(tiny_options(dir));
    if (filters) {
      o.set_text("pipeline.overlong_filter", "true");
      o.set_text("pipeline.repetition_filter", "0.1");
      o.set_text("pipeline.repetition_ngram", "1");
    }
    TrainerSession trainer(open(o), o);
    auto batch = testing::host_batch(trainer);
    batch[1]->finish = FinishReason::kLength;
    batch[3]->ids[3] = batch[3]->ids[4];
    batch[3]->logprobs = trainer.logprobs(batch[3]->ids, 2, 1);
    const MetricList m = trainer.step_with_advantages(batch, one);
    EXPECT_EQ(m.get("training/loss_tokens"), filters ? 14.0 : 20.0);
    EXPECT_EQ(m.get("critic/advantages/mean"), 1.0);
  }
}

}  // namespace
}  // namespace rl

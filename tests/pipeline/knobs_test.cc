// Knobs: what a refusal names, turned in the order given, makes the plan fit; what they say of
// bytes and time is so.
#include "pipeline/plan/knobs.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "smollm2_plan.h"

namespace rl {
namespace {

using testing::smollm2;
using testing::smollm2_options;
using testing::two_layers;

using Texts = std::vector<std::string>;

std::optional<MemoryError> refusal(const OptionSet& o, const ModelConfig& config, PlanUse use) {
  try {
    plan_memory(o, config, use);
  } catch (const MemoryError& e) {
    return e;
  }
  return std::nullopt;
}

OptionSet turned(OptionSet o, const std::vector<Knob>& knobs) {
  for (const Knob& k : knobs) o.set_text(k.key, k.proposed);
  return o;
}

uint64_t least_bytes(const OptionSet& o, const ModelConfig& config, PlanUse use) {
  return Planner(o, config, use).min_total();
}

struct Scenario {
  Texts texts;
  PlanUse use;
};

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {{}, PlanUse::kGenerate},
      {{"engine.num_engines=4", "engine.max_num_seqs=256"}, PlanUse::kGenerate},
      {{"engine.preemption=swap", "engine.swap_space_bytes=64MiB"}, PlanUse::kGenerate},
      {{}, PlanUse::kTrain},
      {{"trainer.max_tokens_per_device=4096"}, PlanUse::kTrain},
      {{"trainer.logprob_chunk_tokens=0", "trainer.max_tokens_per_device=2048"}, PlanUse::kTrain},
      {{"algo.advantage=gae", "critic.max_tokens_per_device=2048"}, PlanUse::kTrain},
      {{}, PlanUse::kPipeline},
      {{"engine.max_model_len=1024", "engine.max_num_batched_tokens=4096"}, PlanUse::kPipeline},
      {{"trainer.max_tokens_per_device=1024", "engine.max_num_seqs=512"}, PlanUse::kPipeline},
      {{"engine.memory_fraction=0.05"}, PlanUse::kPipeline},
      {{}, PlanUse::kParts},
      {{"trainer.max_tokens_per_device=2048", "engine.num_engines=3"}, PlanUse::kParts}};
  return all;
}

std::string name_of(const Scenario& s) {
  std::string name = str(static_cast<int>(s.use));
  for (const std::string& text : s.texts) name += " " + text;
  return name;
}

// For budgets from what remains with every knob turned up to what is needed without any.
TEST(Knobs, TurnedInTheOrderGivenTheyMakeItFit) {
  int fitted = 0, refused = 0;
  for (const Scenario& s : scenarios()) {
    SCOPED_TRACE(name_of(s));
    for (const ModelConfig& config : {two_layers(), smollm2()}) {
      OptionSet o = smollm2_options(s.texts);
      o.set_u64("runtime.memory_budget_bytes", 1);
      const auto all = refusal(o, config, s.use);
      ASSERT_TRUE(all);
      const uint64_t most = least_bytes(o, config, s.use),
                     least = least_bytes(turned(o, all->knobs), config, s.use);
      for (int i = 0; i <= 3; ++i) {
        const uint64_t budget = least + (most - least) * static_cast<uint64_t>(i) / 4;
        o.set_u64("runtime.memory_budget_bytes", budget);
        const auto error = refusal(o, config, s.use);
        if (!error) continue;
        ++refused;
        if (error->knobs.empty()) continue;
        const bool fits = error->message.find("; to make it fit: ") != std::string::npos;
        EXPECT_EQ(fits, !refusal(turned(o, error->knobs), config, s.use)) << budget;
        fitted += fits;
      }
    }
  }
  EXPECT_GT(refused, 90);
  EXPECT_GT(fitted, refused * 3 / 4);
}

TEST(Knobs, EachSavesWhatItSaysAfterThoseBeforeIt) {
  for (const Scenario& s : scenarios()) {
    SCOPED_TRACE(name_of(s));
    OptionSet o = smollm2_options(s.texts);
    o.set_u64("runtime.memory_budget_bytes", uint64_t{64} << 30);
    const MemoryPlan plan = plan_memory(o, smollm2(), s.use);
    ASSERT_FALSE(plan.knobs().empty());
    uint64_t before = least_bytes(o, smollm2(), s.use);
    for (const Knob& k : plan.knobs()) {
      EXPECT_EQ(k.value, o.get_text(k.key));
      EXPECT_NE(k.value, k.proposed);
      o.set_text(k.key, k.proposed);
      const uint64_t then = least_bytes(o, smollm2(), s.use);
      EXPECT_EQ(k.saved_bytes, before - std::min(before, then)) << k.key;
      before = std::min(before, then);
    }
  }
}

TEST(Knobs, ThoseThatChangeTheRunComeLastAndOnlyIfNeeded) {
  OptionSet o =
      smollm2_options({"engine.max_model_len=2048", "engine.max_num_batched_tokens=4096"});
  const auto knobs = [&](uint64_t budget) {
    o.set_u64("runtime.memory_budget_bytes", budget);
    return refusal(o, smollm2(), PlanUse::kGenerate)->knobs;
  };
  const uint64_t most = least_bytes(o, smollm2(), PlanUse::kGenerate);
  for (const Knob& k : knobs(most - 1)) EXPECT_EQ(k.effect, KnobEffect::kSpeed);
  const std::vector<Knob> all = knobs(1);
  const auto run = std::ranges::find(all, KnobEffect::kRun, &Knob::effect);
  ASSERT_NE(run, all.end());
  for (auto k = run; k != all.end(); ++k) EXPECT_EQ(k->effect, KnobEffect::kRun) << k->key;
  // One thread of two, or few sequences at a time, change no bit, but take so long that rounding
  // comes before them.
  const auto rounding = std::ranges::find(all, KnobEffect::kRounding, &Knob::effect);
  ASSERT_NE(rounding, all.end());
  for (const char* slow : {"runtime.threads", "engine.max_num_seqs"})
    EXPECT_LT(rounding, std::ranges::find(all, std::string(slow), &Knob::key)) << slow;
}

TEST(Knobs, TheTableHasEachKeyOnceInOrderOfEffect) {
  std::set<std::string> keys;
  KnobEffect last = KnobEffect::kSpeed;
  for (const KnobRow& row : knob_table()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_GE(row.effect, last) << row.key;
    last = row.effect;
    EXPECT_NO_THROW(OptionSet().get_text(row.key)) << row.key;
  }
}

// Smaller forwards and fewer sequences of the engine read the weights more often.
TEST(Knobs, TimeIsWhatTheEstimateSays) {
  const OptionSet o = smollm2_options();
  const auto seconds = [&](const OptionSet& options) {
    const Planner p(options, smollm2(), PlanUse::kPipeline);
    return step_seconds(p, {p.max_tokens(), p.max_blocks()}, MachineRates::nominal()).total();
  };
  OptionSet now = o;
  for (const Knob& k : plan_memory(o, smollm2(), PlanUse::kPipeline).knobs()) {
    const double before = seconds(now);
    now.set_text(k.key, k.proposed);
    EXPECT_DOUBLE_EQ(k.time_ratio, seconds(now) / before) << k.key;
    if (k.key == "engine.max_num_seqs" || k.key == "runtime.threads") {
      EXPECT_GT(k.time_ratio, 1) << k.key;
    }
  }
}

TEST(PlanPhases, SumUpWhatIsInUse) {
  const auto phases = [](const MemoryPlan& plan) {
    std::map<std::string, uint64_t> bytes;
    for (const PlanEntry& e : plan_phases(plan)) bytes[e.name] = e.bytes;
    return bytes;
  };
  const MemoryPlan shared = plan_memory(smollm2_options(), smollm2(), PlanUse::kPipeline);
  std::map<std::string, uint64_t> bytes = phases(shared);
  ASSERT_EQ(bytes.size(), 6u);
  const uint64_t step = shared.outside.back().bytes;
  const uint64_t always = shared.total_bytes - shared.bytes_of("phase workspace") - step;
  EXPECT_EQ(bytes["start-up"], always);
  EXPECT_EQ(bytes["publish"], always);
  EXPECT_EQ(bytes["checkpoint"], always);
  EXPECT_EQ(bytes["rollout"], always + shared.kv_bytes + shared.engine_workspace_bytes);
  EXPECT_EQ(bytes["train"], always + shared.train_workspace_bytes + step);
  EXPECT_GT(bytes["log-prob"], always);
  EXPECT_LT(bytes["log-prob"], bytes["train"]);
  // Nothing is shared: all of it is held in each phase.
  const MemoryPlan parts = plan_memory(smollm2_options(), smollm2(), PlanUse::kParts);
  bytes = phases(parts);
  EXPECT_EQ(bytes["start-up"], bytes["rollout"]);
  EXPECT_EQ(bytes["train"], parts.total_bytes);
  EXPECT_EQ(phases(plan_memory(smollm2_options(), smollm2(), PlanUse::kModel)).size(), 1u);
  EXPECT_EQ(phases(plan_memory(smollm2_options(), smollm2(), PlanUse::kForward)).size(), 2u);
}

TEST(PlanRoles, EveryModelsArenasNameIt) {
  const auto roles = [](const Texts& texts) {
    std::set<std::string> found;
    for (const PlanEntry& e :
         plan_memory(smollm2_options(texts), smollm2(), PlanUse::kTrain).arenas)
      found.insert(e.role);
    return found;
  };
  EXPECT_EQ(roles({}), (std::set<std::string>{"", "policy"}));
  EXPECT_EQ(roles({"algo.advantage=gae", "algo.kl.where=loss"}),
            (std::set<std::string>{"", "policy", "critic", "reference"}));
}

}  // namespace
}  // namespace rl

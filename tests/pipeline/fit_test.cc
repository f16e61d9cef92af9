// The fit: what it proposes fits, and no other setting of the knob table that fits is faster.
#include "pipeline/plan/fit.h"

#include <gtest/gtest.h>

#include <optional>

#include "pipeline/config/runtime_options.h"
#include "smollm2_plan.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::smollm2_options;
using testing::two_layers;

struct Case {
  std::vector<std::string> texts;
  PlanUse use;
};

PlanRequest request_of(const OptionSet& o, const PlanModels& models, PlanUse use) {
  return {o, &models, use, 0, &cpu_device()};
}

double seconds_of(const PlanRequest& request, const MachineRates& rates) {
  const MemoryPlan plan = lay_out(request);
  return step_seconds(request.planner(), {plan.max_tokens, plan.engine.num_blocks}, rates).total();
}

// A few rows of the table, for which all combinations can be planned.
const std::vector<KnobRow>& few_rows() {
  static const std::vector<KnobRow> rows = [] {
    std::vector<KnobRow> found;
    for (const KnobRow& row : knob_table()) {
      for (const char* key : {"engine.max_num_seqs", "trainer.logprob_chunk_tokens",
                              "trainer.max_tokens_per_device", "model.dtype"}) {
        if (std::string_view(row.key) == key) found.push_back(row);
      }
    }
    return found;
  }();
  return rows;
}

struct Tried {
  std::optional<double> best;  // seconds
  int fitting = 0;
};
// Every combination of the choices of the rows from `row` on.
void try_all(const PlanRequest& base, const PlanRequest& now, size_t row, Tried& tried) {
  if (row < few_rows().size()) {
    for (const KnobTurn& turn : fit_choices(few_rows()[row], base)) {
      OptionSet changed = now.settings.set;
      for (const auto& [key, value] : turn) changed.set_text(key, value);
      try_all(base, now.with(changed), row + 1, tried);
    }
    return;
  }
  if (deficit_of(now.planner(), usable_budget(now.settings)).sum() != 0) return;
  throw_violations(now);
  ++tried.fitting;
  const double seconds = seconds_of(now, MachineRates::nominal());
  if (!tried.best || seconds < *tried.best) tried.best = seconds;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{"engine.max_num_seqs=16", "trainer.max_tokens_per_device=1024", "engine.memory_fraction=1"},
       PlanUse::kPipeline},
      {{"engine.max_num_seqs=32", "engine.memory_fraction=1"}, PlanUse::kParts}};
  return all;
}

TEST(Fit, IsTheFastestOfAllSettingsThatFit) {
  int settings = 0, refused = 0;
  const FitRules rules{MachineRates::nominal(), KnobEffect::kRounding, few_rows()};
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.texts.back());
    const PlanModels models(two_layers());
    OptionSet o = smollm2_options(c.texts);
    const uint64_t least = Planner(o, models, c.use).min_total();
    const uint64_t most = 2 * lay_out(request_of(o, models, c.use)).total_bytes;
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t budget = least * 95 / 100 + (most - least) * i * i / 49;
      o.set_u64("runtime.memory_budget_bytes", budget);
      const PlanRequest request = request_of(o, models, c.use);
      Tried tried;
      try_all(request, request, 0, tried);
      settings += tried.fitting;
      if (!tried.best) {
        ++refused;
        EXPECT_THROW(fit_plan(request, rules), MemoryError);
        continue;
      }
      const PlanFit fit = fit_plan(request, rules);
      EXPECT_LE(fit.plan.total_bytes, budget);
      EXPECT_DOUBLE_EQ(fit.seconds.total(), *tried.best) << budget;
      EXPECT_EQ(plan_memory(fit.plan.options, models, c.use).total_bytes, fit.plan.total_bytes);
    }
  }
  EXPECT_GT(settings, 200);
  EXPECT_LT(refused, 8);
}

TEST(Fit, TurnsNothingThatIsNotAllowed) {
  const PlanModels models(two_layers());
  OptionSet o = smollm2_options({"model.dtype=fp32", "engine.max_num_seqs=256"});
  const Planner p(o, models, PlanUse::kPipeline);
  o.set_u64("runtime.memory_budget_bytes", p.min_total());
  const PlanRequest request = request_of(o, models, PlanUse::kPipeline);
  const PlanFit speed =
      fit_plan(request, {MachineRates::nominal(), KnobEffect::kSpeed, few_rows()});
  for (const KnobRow& row : knob_table()) {
    if (row.effect == KnobEffect::kSpeed) continue;
    EXPECT_EQ(speed.plan.options.get_text(row.key), o.get_text(row.key)) << row.key;
  }
  const PlanFit rounding =
      fit_plan(request, {MachineRates::nominal(), KnobEffect::kRounding, few_rows()});
  EXPECT_LT(rounding.seconds.total(), speed.seconds.total());
  o.set_u64("runtime.memory_budget_bytes", p.min_total() / 4);
  EXPECT_THROW(fit_plan(request_of(o, models, PlanUse::kPipeline), {}), MemoryError);
}

// A machine of slow products does not care how often weights are read; one of slow memory does.
TEST(Fit, FollowsTheMachine) {
  const PlanModels models(two_layers());
  const OptionSet o = smollm2_options({"trainer.max_tokens_per_device=128"});
  const PlanRequest request = request_of(o, models, PlanUse::kTrain);
  MachineRates slow_memory = MachineRates::nominal();
  slow_memory.read_bytes_per_s /= 100;
  const PlanFit fit = fit_plan(request, {slow_memory, KnobEffect::kRounding, few_rows()});
  EXPECT_GT(fit.plan.max_tokens, 128);
  const PlanFit nominal =
      fit_plan(request, {MachineRates::nominal(), KnobEffect::kRounding, few_rows()});
  EXPECT_GT(fit.seconds.total(), nominal.seconds.total());
}

// The search relies on it: what an engine's row changes, the trainer does not see.
TEST(Fit, PartsOfTheTableAreIndependent) {
  const PlanModels models(two_layers());
  for (const PlanUse use : {PlanUse::kPipeline, PlanUse::kParts}) {
    const PlanRequest request = request_of(
        smollm2_options({"engine.num_engines=2", "engine.max_num_seqs=128"}), models, use);
    const Planner now = request.planner();
    const auto seconds = [](const Planner& p) {
      return step_seconds(p, {p.max_tokens(), p.max_blocks()}, MachineRates::nominal());
    };
    for (const KnobRow& row : knob_table()) {
      if (row.part == KnobPart::kBoth) continue;
      for (const KnobTurn& turn : fit_choices(row, request)) {
        OptionSet changed = request.settings.set;
        for (const auto& [key, value] : turn) changed.set_text(key, value);
        const Planner then = request.with(changed).planner();
        const StepSeconds a = seconds(now), b = seconds(then);
        if (row.part == KnobPart::kTrainer) {
          EXPECT_EQ(a.rollout, b.rollout) << row.key;
        } else {
          EXPECT_EQ(a.logprob, b.logprob) << row.key;
          EXPECT_EQ(a.train, b.train) << row.key;
          EXPECT_EQ(a.update + a.publish, b.update + b.publish) << row.key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rl

// The search. Without a limit of memory the time of a step is the sum of the engine's and the
// trainer's, and no plan within a budget is faster than that. So combinations are planned in the
// order of this sum, and the first sum that is no smaller than a time already found ends the
// search. Settings of the trainer whose own bytes exceed the budget are in no combination.
#include "pipeline/plan/fit.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "pipeline/config/runtime_options.h"

namespace rl {
namespace {

using Turned = std::vector<const KnobTurn*>;  // of some rows

constexpr double kNever = std::numeric_limits<double>::infinity();

// Nothing if an option refuses a value; combinations are checked by is_valid(), which takes longer
// than a plan.
std::optional<PlanRequest> turned(const PlanRequest& from,
                                  std::initializer_list<const Turned*> all) {
  try {
    OptionSet options = from.settings.set;
    int threads = from.threads;
    for (const Turned* choice : all) {
      for (const KnobTurn* turn : *choice) {
        for (const auto& [key, value] : *turn) {
          options.set_text(key, value);
          if (key == "runtime.threads") threads = 0;
        }
      }
    }
    PlanRequest to = from.with(options);
    to.threads = threads;
    return to;
  } catch (const Error&) {
    return std::nullopt;
  }
}

StepSeconds seconds_of(const PlanRequest& request, const MemoryPlan& plan,
                       const MachineRates& rates) {
  return step_seconds(request.planner(), {plan.max_tokens, plan.engine.num_blocks}, rates);
}

bool is_valid(const PlanRequest& request) {
  try {
    throw_violations(request);
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct Combination {
  uint32_t both, engine, trainer;  // indices of choices
  double least;                    // seconds of a step without a limit of memory
};

class Search {
 public:
  Search(const PlanRequest& request, const FitRules& rules)
      : request_(request), rates_(rules.rates) {
    for (const KnobRow& row : rules.table) {
      if (row.effect <= rules.most) turns_.push_back({row.part, fit_choices(row, request)});
    }
    both_ = choices_of(KnobPart::kBoth);
    engine_ = choices_of(KnobPart::kEngine);
    trainer_ = choices_of(KnobPart::kTrainer);
  }

  // Nothing if none fits.
  std::optional<PlanRequest> best() const {
    std::optional<PlanRequest> found;
    double seconds = kNever;
    for (const Combination& c : combinations()) {
      if (c.least >= seconds) break;
      const auto changed =
          turned(request_, {&both_[c.both], &engine_[c.engine], &trainer_[c.trainer]});
      if (!changed) continue;
      const double time = time_in_budget(*changed);
      if (time >= seconds || !is_valid(*changed)) continue;
      seconds = time;
      found = changed;
    }
    return found;
  }

 private:
  struct RowTurns {
    KnobPart part;
    std::vector<KnobTurn> turns;
  };

  // Every combination of the rows of a part.
  std::vector<Turned> choices_of(KnobPart part) const {
    std::vector<Turned> all = {{}};
    for (const RowTurns& row : turns_) {
      if (row.part != part) continue;
      std::vector<Turned> longer;
      for (const Turned& choice : all) {
        for (const KnobTurn& turn : row.turns) {
          longer.push_back(choice);
          longer.back().push_back(&turn);
        }
      }
      all = std::move(longer);
    }
    return all;
  }

  // kNever for a plan that does not fit, or that sizes make impossible.
  double time_in_budget(const PlanRequest& request) const {
    try {
      const uint64_t budget = usable_budget(request.settings);
      if (deficit_of(request.planner(), budget).sum() != 0) return kNever;
      return seconds_of(request, lay_out(request), rates_).total();
    } catch (const Error&) {
      return kNever;
    }
  }

  // Seconds without a limit of memory; kNever for what options refuse.
  double rollout_seconds(const Turned& both, const Turned& engine) const {
    try {
      return unlimited(turned(request_, {&both, &engine}).value().planner()).rollout;
    } catch (const std::exception&) {
      return kNever;
    }
  }
  // The same of all other phases; kNever also if no engine leaves enough memory for the trainer.
  double other_seconds(const Turned& both, const Turned& trainer) const {
    try {
      const Planner p = turned(request_, {&both, &trainer}).value().planner();
      const uint64_t budget = usable_budget(p.settings());
      if (budget != 0 && p.always_bytes() + p.train_bytes(p.min_tokens()) > budget) return kNever;
      const StepSeconds s = unlimited(p);
      return s.logprob + s.train + s.update + s.publish;
    } catch (const std::exception&) {
      return kNever;
    }
  }
  StepSeconds unlimited(const Planner& p) const {
    return step_seconds(p, {p.max_tokens(), p.has_engine() ? p.max_blocks() : 0}, rates_);
  }

  // Those that options allow and whose trainer can fit, the fastest first.
  std::vector<Combination> combinations() const {
    std::vector<Combination> all;
    for (uint32_t b = 0; b < both_.size(); ++b) {
      std::vector<double> rollout, rest;
      for (const Turned& e : engine_) rollout.push_back(rollout_seconds(both_[b], e));
      for (const Turned& t : trainer_) rest.push_back(other_seconds(both_[b], t));
      for (uint32_t e = 0; e < engine_.size(); ++e) {
        for (uint32_t t = 0; t < trainer_.size(); ++t) {
          const double least = rollout[e] + rest[t];
          if (least < kNever) all.push_back({b, e, t, least});
        }
      }
    }
    std::ranges::stable_sort(all, {}, &Combination::least);
    return all;
  }

  const PlanRequest& request_;
  const MachineRates rates_;
  std::vector<RowTurns> turns_;
  std::vector<Turned> both_, engine_, trainer_;
};

}  // namespace

std::vector<KnobTurn> fit_choices(const KnobRow& row, const PlanRequest& request) {
  const OptionSet& now = request.settings.set;
  std::vector<KnobTurn> choices = {{}};
  const auto add = [&](KnobTurn turn) {
    if (now.get_text(row.key) == turn.front().second) return;
    const Turned alone = {&turn};
    const auto changed = turned(request, {&alone});
    if (changed && is_valid(*changed) && std::ranges::find(choices, turn) == choices.end()) {
      choices.push_back(std::move(turn));
    }
  };
  const OptionSet defaults;
  add({{row.key, defaults.get_text(row.key)}});
  for (KnobTurn& turn : row.turns(request.planner())) add(std::move(turn));
  return choices;
}

PlanFit fit_plan(const PlanRequest& request, const FitRules& rules) {
  throw_violations(request);
  PlanRequest best = request;  // if none fits, it is refused
  if (const auto found = Search(request, rules).best()) best = *found;
  PlanFit fit{plan_memory(best.settings, *best.models, best.use, best.threads, *best.device), {}};
  fit.seconds = seconds_of(best, fit.plan, rules.rates);
  return fit;
}

PlanFit fit_plan(const Settings& settings, FileSystem& fs, PlanUse use, const FitRules& rules) {
  const PlanModels models = plan_models(settings, fs, use);
  return fit_plan(PlanRequest{settings, &models, use, 0, &device_of(settings)}, rules);
}

}  // namespace rl

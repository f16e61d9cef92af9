// The search. Without a limit of memory the time of a step is the sum of the engine's and the
// trainer's, and no plan within a budget is faster than that. So combinations are planned in the
// order of this sum, and the first sum that is no smaller than a time already found ends the
// search. What the smallest plan of a combination takes is the sum of what its parts take, so that
// one which does not fit is not planned.
#include "pipeline/plan/fit.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

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

bool is_valid(const PlanRequest& request) {
  try {
    throw_violations(request);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What choices of the engine's rows, or of the trainer's, decide beside those of both.
struct EnginePart {
  double seconds = kNever;
  uint64_t rollout = 0, samples = 0;  // bytes
  std::optional<EngineSettings> settings;
};
struct TrainerPart {
  double seconds = kNever;
  uint64_t held = 0, train = 0;  // bytes: throughout, but for samples; and of the smallest training
  bool apart = false;            // the engine has a workspace of its own
};
// Of a choice of the trainer's rows, with the engine of the combination that is planned.
struct Planners {
  Planner planner, sizes;
};

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
  std::optional<PlanRequest> best() {
    std::optional<PlanRequest> found;
    double seconds = kNever;
    for (const Combination& c : combinations()) {
      if (c.least >= seconds) break;
      const double time = time_in_budget(c);
      if (time >= seconds) continue;
      const auto changed =
          turned(request_, {&both_[c.both], &engine_[c.engine], &trainer_[c.trainer]});
      if (!changed || !is_valid(*changed)) continue;
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
  double time_in_budget(const Combination& c) {
    try {
      Planners& now = planners(c);
      const EngineSettings& engine = *engines_[c.both][c.engine].settings;
      now.planner.set_engine(engine);
      if (deficit_of(now.planner, usable_budget(request_.settings)).sum() != 0) return kNever;
      now.sizes.set_engine(engine);
      return step_seconds(now.planner, chosen_sizes(now.planner, now.sizes), rates_).total();
    } catch (const Error&) {
      return kNever;
    }
  }
  // A trainer's memory is the same beside all engines, and takes longest to plan.
  Planners& planners(const Combination& c) {
    const auto [at, is_new] = planners_.try_emplace({c.both, c.trainer});
    if (is_new) {
      const PlanRequest request = turned(request_, {&both_[c.both], &trainer_[c.trainer]}).value();
      at->second = std::make_unique<Planners>(Planners{request.planner(), request.size_planner()});
    }
    if (at->second == nullptr) throw Error(Code::kOutOfRange, "no trainer has such sizes");
    return *at->second;
  }

  // Seconds are without a limit of memory; kNever for what options refuse, and for engines that
  // engine.memory_fraction does not allow.
  EnginePart engine_part(const Turned& both, const Turned& engine) const {
    try {
      const Planner p = turned(request_, {&both, &engine}).value().planner();
      const uint64_t budget = usable_budget(p.settings());
      if (budget != 0 && deficit_of(p, budget).share != 0) return {};
      return {unlimited(p).rollout, p.rollout_bytes(p.min_blocks()), p.sample_bytes(),
              p.settings().engine};
    } catch (const std::exception&) {
      return {};
    }
  }
  TrainerPart trainer_part(const Turned& both, const Turned& trainer) const {
    try {
      const Planner p = turned(request_, {&both, &trainer}).value().planner();
      const StepSeconds s = unlimited(p);
      const uint64_t held =
          p.always_bytes() + (p.has_own_memory() ? 0 : p.baseline_bytes() - p.sample_bytes());
      return {s.logprob + s.train + s.update + s.publish, held, p.train_bytes(p.min_tokens()),
              p.has_workspaces_apart()};
    } catch (const std::exception&) {
      return {};
    }
  }
  StepSeconds unlimited(const Planner& p) const {
    return step_seconds(p, {p.max_tokens(), p.has_engine() ? p.max_blocks() : 0}, rates_);
  }

  bool can_fit(const EnginePart& e, const TrainerPart& t) const {
    const uint64_t budget = usable_budget(request_.settings);
    const uint64_t phases = t.apart ? e.rollout + t.train : std::max(e.rollout, t.train);
    const uint64_t samples = request_.device->has_own_memory() ? 0 : e.samples;
    return budget == 0 || t.held + samples + phases <= budget;
  }

  // Those that options allow and whose smallest plan fits, the fastest first.
  std::vector<Combination> combinations() {
    std::vector<Combination> all;
    for (uint32_t b = 0; b < both_.size(); ++b) {
      std::vector<EnginePart>& engines = engines_.emplace_back();
      std::vector<TrainerPart> trainers;
      for (const Turned& e : engine_) engines.push_back(engine_part(both_[b], e));
      for (const Turned& t : trainer_) trainers.push_back(trainer_part(both_[b], t));
      for (uint32_t e = 0; e < engine_.size(); ++e) {
        for (uint32_t t = 0; t < trainer_.size(); ++t) {
          const double least = engines[e].seconds + trainers[t].seconds;
          if (least < kNever && can_fit(engines[e], trainers[t])) all.push_back({b, e, t, least});
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
  std::vector<std::vector<EnginePart>> engines_;  // by choice of both, then of the engine
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Planners>> planners_;
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
  const StepSizes sizes{fit.plan.max_tokens, fit.plan.engine.num_blocks};
  fit.seconds = step_seconds(best.planner(), sizes, rules.rates);
  return fit;
}

PlanFit fit_plan(const Settings& settings, FileSystem& fs, PlanUse use, const FitRules& rules) {
  const Device& device = device_of(settings);
  PlanModels models = plan_models(settings, fs, use);
  uint64_t most = 0;
  for (const ModelConfig& stage : models.stages) {
    PlanModels own = models;
    own.policy = stage;
    const uint64_t bytes = Planner(settings, own, use, 0, device).min_total();
    if (bytes > most) models.policy = stage;
    most = std::max(most, bytes);
  }
  models.of_largest = false;
  return fit_plan(PlanRequest{settings, &models, use, 0, &device}, rules);
}

}  // namespace rl

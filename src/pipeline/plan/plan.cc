// Chooses micro-batch and KV pool within the budget, and reports an error if not even the smallest
// plan fits.
#include "pipeline/plan/plan.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/violations.h"
#include "formats/open/open_weight_source.h"
#include "formats/vocabulary_cut.h"
#include "options/option_text.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/batch_check.h"
#include "pipeline/plan/knobs.h"
#include "pipeline/plan/plan_request.h"
#include "pipeline/plan/planner.h"

namespace rl {
namespace {

constexpr uint64_t kFreeKvBytes = uint64_t{1} << 30;  // of KV if no budget is set

uint64_t share_of(const Settings& settings, uint64_t budget) {
  return static_cast<uint64_t>(settings.engine.memory_fraction * static_cast<double>(budget));
}

// Refuses with the knobs that make it fit.
[[noreturn]] void refuse_with_knobs(const PlanRequest& request, Error error) {
  const KnobList list = find_knobs(request, usable_budget(request.settings));
  const std::string turn = knobs_text(list.knobs);
  if (list.left.sum() == 0 && !turn.empty()) {
    error.message += "; to make it fit: " + turn;
  } else if (!turn.empty()) {
    error.message += str("; all knobs together still need ", list.min_total, " bytes: ", turn);
  }
  throw MemoryError(std::move(error), list.knobs);
}

[[noreturn]] void refuse(const PlanRequest& request, uint64_t needed) {
  const Settings& settings = request.settings;
  const Planner p = request.planner();
  const uint64_t train = p.train_bytes(p.min_tokens()), rollout = p.rollout_bytes(p.min_blocks());
  const char* phase = std::max(train, rollout) == 0 ? "start-up"
                      : train >= rollout            ? "train"
                                                    : "rollout";
  std::string text =
      str("phase ", phase, " needs ", needed, " bytes (", p.always_bytes(), " held throughout, ",
          p.phase_bytes(p.min_tokens(), p.min_blocks()), " of workspace, ", p.budgeted_baseline(),
          " outside arenas) but ", budget_text(settings));
  const double share = settings.engine.memory_fraction;
  const auto shared = static_cast<uint64_t>(std::ceil(static_cast<double>(p.min_shared()) / share));
  const uint64_t least = std::max(needed, p.has_engine() ? shared : 0);
  refuse_with_knobs(
      request, Error(Code::kResourceExhausted, text)
                   .with_key("runtime.memory_budget_bytes")
                   .with_expected(str("at least ", least + settings.runtime.memory_margin_bytes)));
}

// If fewer engines would fit, the error names their number.
void check_engines(const PlanRequest& request, uint64_t budget) {
  const Planner all = request.planner();
  int64_t fitting = all.has_engine() ? all.num_engines() : 0;
  OptionSet fewer = request.settings.set;
  while (fitting > 0 && request.with(fewer).planner().min_total() > budget) {
    if (--fitting > 0) fewer.set_i64("engine.num_engines", fitting);
  }
  if (fitting == 0 || fitting == all.num_engines()) return;
  refuse_with_knobs(
      request,
      Error(Code::kResourceExhausted,
            str("engine.num_engines is ", all.num_engines(), ", each with at least ",
                all.rollout_bytes(all.min_blocks()) / static_cast<uint64_t>(all.num_engines()),
                " bytes of KV and workspace, but ", budget_text(request.settings), ": ", fitting,
                fitting == 1 ? " engine fits" : " engines fit"))
          .with_key("engine.num_engines")
          .with_other_key("runtime.memory_budget_bytes")
          .with_expected(str("at most ", fitting)));
}

// More micro-batches would not help: the smallest one does not fit.
void check_host_budget(const Planner& p) {
  const uint64_t budget = p.settings().runtime.host_memory_budget_bytes;
  const uint64_t needed = p.host_bytes(p.min_tokens());
  if (budget == 0 || needed <= budget) return;
  const uint64_t activations = p.host_workspace(p.min_tokens());
  const std::string what = activations == needed
                               ? "activations in host memory need "
                               : "copies, swapped blocks, activations and what is "
                                 "outside arenas in host memory need ";
  throw Error(Code::kResourceExhausted,
              str(what, needed, " bytes, but runtime.host_memory_budget_bytes is ", budget))
      .with_key("runtime.host_memory_budget_bytes")
      .with_other_key(activations != 0 ? "trainer.activation_offload" : "")
      .with_expected(str("at least ", needed));
}

// The budget must hold the run, and engine.memory_fraction of it the weights and one longest
// sequence.
void check_budget(const PlanRequest& request, uint64_t budget) {
  const Settings& settings = request.settings;
  const Planner p = request.planner();
  if (budget == 0) return;
  if (p.min_total() > budget) {
    check_engines(request, budget);
    refuse(request, p.min_total());
  }
  const uint64_t most = share_of(settings, budget), needed = p.min_shared();
  if (!p.has_engine() || needed <= most) return;
  const double least = static_cast<double>(needed) / static_cast<double>(budget);
  refuse_with_knobs(
      request,
      Error(Code::kResourceExhausted,
            str("engine.memory_fraction ", format_option(settings.engine.memory_fraction),
                " leaves ", most, " bytes for weights and KV, but weights take ", p.weight_bytes(),
                " and the KV blocks of one sequence of the longest length take ",
                p.min_shared() - p.weight_bytes(), "; ", budget_text(settings)))
          .with_key("engine.memory_fraction")
          .with_expected(str("at least ", std::ceil(least * 1e4) / 1e4)));
}

// The largest multiple of 64 rows that fits in addition to `beside` bytes; sizes grow with the
// rows.
int64_t choose_tokens(const Planner& p, uint64_t budget, uint64_t beside) {
  const int64_t least = p.min_tokens();
  const uint64_t host_room = p.settings().runtime.host_memory_budget_bytes;
  if (budget == 0 && host_room == 0) return p.max_tokens();
  const uint64_t taken = p.always_bytes() + p.budgeted_baseline() + beside;
  const uint64_t room = budget == 0 ? UINT64_MAX : budget > taken ? budget - taken : 0;
  const auto fits = [&](int64_t tokens) {
    return p.train_bytes(tokens) <= room && (host_room == 0 || p.host_bytes(tokens) <= host_room);
  };
  int64_t low = 0, high = (p.max_tokens() - least) / kTokenStep;  // steps above the least
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (fits(least + middle * kTokenStep))
      low = middle;
    else
      high = middle - 1;
  }
  return least + low * kTokenStep;
}

// beside: bytes that the engines do not share. Without a budget they may use at least `shared`,
// the bytes that training needs anyway.
int64_t choose_blocks(const Settings& settings, const Planner& p, uint64_t budget, uint64_t shared,
                      uint64_t beside) {
  const auto engines = static_cast<uint64_t>(p.num_engines());
  const uint64_t block = engines * p.kv_bytes(1);
  uint64_t room = std::max(kFreeKvBytes, shared);
  if (budget != 0) {
    const uint64_t taken =
        p.always_bytes() + p.budgeted_baseline() + beside + engines * p.engine_workspace();
    room = budget - std::min(budget, taken);
    room = std::min(room, share_of(settings, budget) - p.weight_bytes());
  }
  const auto fitting = static_cast<int64_t>(std::min<uint64_t>(room / block, kMaxBlocks));
  return std::max(p.min_blocks(), std::min(p.max_blocks(), fitting));
}

void describe_phase(const Planner& p, MemoryPlan& plan, PlanUse use) {
  const uint64_t rollout = plan.kv_bytes + plan.engine_workspace_bytes,
                 train = plan.train_workspace_bytes;
  const DeviceId home = p.home();
  const auto arena = [&](const char* name, const char* phase, uint64_t bytes) {
    if (bytes != 0) plan.arenas.push_back({name, phase, bytes, {}, home});
  };
  const auto part = [&](std::string name, const char* phase, uint64_t bytes,
                        const char* role = "") {
    plan.parts.push_back({std::move(name), phase, bytes, role, home});
  };
  if (use == PlanUse::kPipeline && !p.has_workspaces_apart()) {
    arena(kPhaseWorkspace, "shared", std::max(rollout, train));
  } else {
    arena(kEngineWorkspace, "always", rollout);
    arena(p.has_forwards() ? "forward workspace" : kTrainingWorkspace, "always", train);
  }
  if (const uint64_t host = p.host_workspace(plan.max_tokens); host != 0) {
    plan.arenas.push_back({kHostWorkspace, "always", host});
  }
  if (p.has_engine()) {
    part("KV pool", "rollout", plan.kv_bytes);
    const uint64_t swap = static_cast<uint64_t>(plan.num_engines) * p.swap_bytes();
    const bool apart = p.engine().swap_apart;
    part("engine", "rollout", plan.engine_workspace_bytes - (apart ? 0 : swap));
    if (swap != 0 && !apart) part("swap space", "rollout", swap);
    for (int64_t i = 0; apart && swap != 0 && i < plan.num_engines; ++i)
      plan.arenas.push_back({"swap space", "always", p.swap_bytes()});
  }
  if (!p.has_trainer()) return;
  const auto regions = [&](const char* phase, const char* role, const TrainerSizes& sizes) {
    for (const auto& region : sizes.workspace_regions) {
      if (region.bytes != 0) part(region.name, phase, region.bytes, role);
    }
  };
  regions("train", "policy", p.train_sizes(plan.max_tokens));
  if (const uint64_t lent = p.lent_gradient_bytes("policy"); lent != 0) {
    part("gradients", "train", lent, "policy");
  }
  part("forwards", "log-prob", p.logprob_bytes(plan.max_tokens));
  if (const uint64_t weights = p.offloaded_reference_bytes(); weights != 0) {
    part("weights", "log-prob", weights, "reference");
  }
  if (p.has_reward_model()) {
    part("reward model", "reward", p.reward_workspace(plan.max_tokens), "reward");
  }
  if (p.has_teacher()) {
    const uint64_t kept = p.teacher_kept_bytes(plan.max_tokens);
    part(kept != 0 ? "forwards" : "log-probs", "teacher", p.teacher_bytes(plan.max_tokens),
         "teacher");
    if (kept != 0) part("rows of the teacher", "train", kept, "teacher");
  }
  if (!p.has_critic()) return;
  regions("critic", "critic", p.critic_sizes(plan.max_tokens));
  if (const uint64_t lent = p.lent_gradient_bytes("critic"); lent != 0) {
    part("gradients", "critic", lent, "critic");
  }
}

}  // namespace

EngineSetMemory MemoryPlan::engine_memory(std::byte* begin) const {
  const auto engines = static_cast<uint64_t>(num_engines);
  return {num_engines, begin, kv_bytes / engines, begin + kv_bytes,
          engine_workspace_bytes / engines};
}

std::byte* MemoryPlan::lent_gradients(const std::string& role, std::byte* workspace) const {
  const uint64_t offset =
      role == "critic" ? train_offsets.critic_gradients : train_offsets.policy_gradients;
  return offset != 0 ? workspace + offset : nullptr;
}

std::byte* MemoryPlan::reference_weights(std::byte* workspace) const {
  return train_offsets.reference_weights != 0 ? workspace + train_offsets.reference_weights
                                              : nullptr;
}

uint64_t MemoryPlan::bytes_of(const std::string& arena) const {
  for (const PlanEntry& e : arenas) {
    if (e.name == arena) return e.bytes;
  }
  return 0;
}

DeviceId MemoryPlan::home() const {
  const auto apart = std::ranges::find(arenas, MemorySpace::kDevice, &PlanEntry::space);
  return apart != arenas.end() ? apart->device : DeviceId();
}

uint64_t MemoryPlan::device_bytes() const {
  return has_own_memory() ? arena_bytes_in(MemorySpace::kDevice)
                          : arena_bytes - host_workspace_bytes();
}

uint64_t MemoryPlan::arena_bytes_of_role(const std::string& role) const {
  uint64_t sum = 0;
  for (const PlanEntry& e : arenas) sum += e.role == role ? e.bytes : 0;
  return sum;
}

uint64_t MemoryPlan::arena_bytes_in(MemorySpace space) const {
  uint64_t sum = 0;
  for (const PlanEntry& e : arenas) sum += e.space() == space ? e.bytes : 0;
  return sum;
}

namespace {

PlanModels divided_policy(const Settings& settings, const ModelConfig& policy, int stage) {
  const ModelConfig whole = with_most_tokens(with_split(policy, tensor_split_from(settings, 0)));
  const StageCut cut = stage_cut_from(settings);
  PlanModels models(whole);
  models.policy = with_stage(whole, cut, std::max(stage, 0));
  if (!cut.divides()) return models;
  for (int64_t s = 0; s < cut.stages; ++s) models.stages.push_back(with_stage(whole, cut, s));
  models.of_largest = stage == kLargestStage;
  return models;
}

PlanModels with_policy(PlanModels models, const ModelConfig& stage) {
  models.policy = stage;
  models.of_largest = false;
  return models;
}

}  // namespace

PlanModels plan_models(const Settings& settings, const ModelConfig& policy, FileSystem& fs,
                       PlanUse use, int stage) {
  PlanModels models = divided_policy(settings, policy, stage);
  // In a host's own loop the host scores.
  if (use == PlanUse::kPipeline && has_reward_model(settings)) {
    const std::string& path = settings.model.reward_path;
    models.reward = open_weight_source(fs, path, ModelHead::kScalar)->config();
  }
  if (settings.algo.objective != Objective::kDistill) return models;
  const std::string& path = settings.model.teacher_path;
  if (!path.empty()) models.teacher = open_weight_source(fs, path)->config();
  return models;
}

namespace {

void set_lent_gradients(const Planner& p, MemoryPlan& plan) {
  const uint64_t policy = p.lent_gradient_bytes("policy");
  if (policy == 0) return;
  WorkspaceOffsets& at = plan.train_offsets;
  at.policy_gradients =
      CheckedU64(p.pass_bytes(plan.max_tokens)).align_up(ArenaPlan::kAlignment).get();
  if (p.has_critic()) at.critic_gradients = at.policy_gradients + policy;
}

// Chooses the engines' blocks and the rows of a micro-batch, at most as many as given. If engines
// and training do not share bytes, the blocks come first: all that engine.memory_fraction allows
// next to the smallest training.
void choose_sizes(const Planner& p, const Planner& sizes, MemoryPlan& plan,
                  const StepSizes& most = {INT64_MAX, INT64_MAX}) {
  const bool apart = p.has_workspaces_apart();
  const uint64_t budget = usable_budget(p.settings());
  const auto engines = static_cast<uint64_t>(p.num_engines());
  const auto size_engines = [&](const Planner& by, uint64_t shared, uint64_t beside) {
    plan.engine = p.engine();
    plan.engine.num_blocks =
        std::min(most.kv_blocks, choose_blocks(p.settings(), by, budget, shared, beside));
    plan.num_engines = p.num_engines();
    plan.kv_bytes = engines * p.kv_bytes(plan.engine.num_blocks);
    plan.engine_workspace_bytes = engines * p.engine_workspace();
  };
  if (apart) size_engines(sizes, 0, sizes.train_bytes(p.min_tokens()));
  if (p.has_trainer() || p.has_forwards()) {
    const uint64_t beside = apart ? sizes.rollout_bytes(plan.engine.num_blocks) : 0;
    plan.max_tokens = std::min(most.max_tokens, choose_tokens(sizes, budget, beside));
    plan.step_samples = p.step_samples();
    plan.train_workspace_bytes = p.train_bytes(plan.max_tokens);
    set_lent_gradients(p, plan);
    if (p.offloaded_reference_bytes() != 0) {
      plan.train_offsets.reference_weights = p.reference_offset(plan.max_tokens);
    }
    if (p.teacher_kept_bytes(plan.max_tokens) != 0) {
      plan.train_offsets.teacher_kept = p.teacher_kept_offset(plan.max_tokens);
    }
  }
  if (p.has_engine() && !apart) size_engines(p, plan.train_workspace_bytes, 0);
}

}  // namespace

void throw_violations(const PlanRequest& a) {
  Violations violations;
  violations.add(a.settings.set.validate_all());
  violations.add(plan_violations(a.settings, a.models->whole, a.use, *a.device));
  if (trains(a.settings, a.use) && a.models->teacher && distills_rows(a.settings))
    check_context(a.settings, *a.models->teacher, 1, "model.teacher_path", violations);
  violations.throw_any();
}

PlanDeficit deficit_of(const Planner& p, uint64_t budget) {
  const auto lack = [](uint64_t needed, uint64_t most) {
    return needed > most ? needed - most : uint64_t{0};
  };
  const uint64_t host_budget = p.settings().runtime.host_memory_budget_bytes;
  const uint64_t host = host_budget == 0 ? 0 : lack(p.host_bytes(p.min_tokens()), host_budget);
  if (budget == 0) return {0, 0, host};
  const uint64_t share = p.has_engine() ? lack(p.min_shared(), share_of(p.settings(), budget)) : 0;
  return {lack(p.min_total(), budget), share, host};
}

StepSizes chosen_sizes(const Planner& planner, const Planner& sizes) {
  MemoryPlan plan;
  choose_sizes(planner, sizes, plan);
  return {plan.max_tokens, plan.engine.num_blocks};
}

namespace {

// What all stages have room for: a micro-batch and the blocks of an engine are the same on all.
StepSizes sizes_for_all_stages(const PlanRequest& request) {
  StepSizes least{INT64_MAX, INT64_MAX};
  for (const ModelConfig& stage : request.models->stages) {
    const PlanModels models = with_policy(*request.models, stage);
    PlanRequest other = request;
    other.models = &models;
    const StepSizes sizes = chosen_sizes(other.planner(), other.size_planner());
    least.max_tokens = std::min(least.max_tokens, sizes.max_tokens);
    least.kv_blocks = std::min(least.kv_blocks, sizes.kv_blocks);
  }
  return least;
}

}  // namespace

MemoryPlan lay_out(const PlanRequest& request) {
  const Planner p = request.planner();
  const Settings& settings = request.settings;
  MemoryPlan plan;
  plan.options = settings.set;
  plan.least_bytes = p.min_total();
  plan.compute = p.compute();
  plan.threads = p.threads();
  plan.max_model_len = p.max_model_len();
  plan.arenas = p.always();
  plan.outside = p.outside();
  plan.baseline_bytes = p.baseline_bytes();
  choose_sizes(p, request.size_planner(), plan, sizes_for_all_stages(request));
  describe_phase(p, plan, request.use);
  for (const PlanEntry& e : plan.arenas) plan.arena_bytes += e.bytes;
  plan.total_bytes = plan.device_bytes() + plan.budgeted_baseline();
  return plan;
}

namespace {

MemoryPlan plan_largest(const Settings& settings, const PlanModels& models, PlanUse use,
                        int threads, const Device& device) {
  std::optional<MemoryPlan> largest;
  for (const ModelConfig& stage : models.stages) {
    MemoryPlan plan = plan_memory(settings, with_policy(models, stage), use, threads, device);
    if (!largest || plan.total_bytes > largest->total_bytes) largest = std::move(plan);
  }
  return *std::move(largest);
}

}  // namespace

MemoryPlan plan_memory(const Settings& settings, const PlanModels& models, PlanUse use, int threads,
                       const Device& device) {
  if (models.of_largest) return plan_largest(settings, models, use, threads, device);
  const PlanRequest request{settings, &models, use, threads, &device};
  throw_violations(request);
  const uint64_t budget = usable_budget(settings);
  check_host_budget(request.planner());
  check_budget(request, budget);
  MemoryPlan plan = lay_out(request);
  if (budget != 0 && plan.total_bytes > budget) refuse(request, plan.total_bytes);
  plan.knobs = [settings, models, use, threads, &device] {
    return find_knobs({settings, &models, use, threads, &device}, 0).knobs;
  };
  return plan;
}

PlanModels plan_models(const Settings& settings, FileSystem& fs, PlanUse use) {
  const std::string& path = settings.model.path;
  if (path.empty()) {
    throw Error(Code::kFailedPrecondition, "model.path is empty: no model to plan for")
        .with_key("model.path");
  }
  const auto source = open_weight_source(fs, path, trained_head(settings));
  return plan_models(settings, source->config(), fs, use);
}

MemoryPlan plan_memory(const Settings& settings, FileSystem& fs, PlanUse use, int threads) {
  return plan_memory(settings, plan_models(settings, fs, use), use, threads, device_of(settings));
}

// The first is a budget half-way to the smallest plan.
std::vector<Knob> knobs_of_short_memory(const MemoryPlan& plan) try {
  std::vector<Knob> knobs;
  if (plan.total_bytes > plan.least_bytes) {
    const Settings settings(plan.options);
    const uint64_t half = (plan.total_bytes - plan.least_bytes) / 2;
    const RuntimeSettings& runtime = settings.runtime;
    knobs.push_back({"runtime.memory_budget_bytes", std::to_string(runtime.memory_budget_bytes),
                     std::to_string(plan.least_bytes + half + runtime.memory_margin_bytes), half, 1,
                     KnobEffect::kRounding});
  }
  std::ranges::copy(plan.knobs(), std::back_inserter(knobs));
  return knobs;
} catch (const std::bad_alloc&) {
  return {};  // memory is short for them, too
}

std::string render_plan(const MemoryPlan& plan) {
  const auto line = [&](const PlanEntry& e, const char* indent) {
    std::string name = indent + e.name;
    name.resize(std::max<size_t>(name.size() + 1, 36), ' ');
    const bool apart = plan.has_own_memory() && e.space() == MemorySpace::kHost;
    return name + str(e.bytes, "  ", e.phase, apart ? "  in host memory" : "", "\n");
  };
  std::string out;
  for (const PlanEntry& e : plan.arenas) out += line(e, "");
  for (const PlanEntry& e : plan.parts) out += line(e, "  ");
  out += line({"outside arenas (estimate)", "always", plan.baseline_bytes}, "");
  for (const PlanEntry& e : plan.outside) out += line(e, "  ");
  out += line({"total", "", plan.total_bytes, {}, plan.home()}, "");
  for (const PlanEntry& e : plan_phases(plan))
    out += line({"in use", e.phase, e.bytes, {}, e.device}, "");
  return out;
}

}  // namespace rl

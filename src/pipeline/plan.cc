// Choosing micro-batch and KV pool inside the budget, and the error when even the least does not
// fit.
#include "pipeline/plan.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/violations.h"
#include "model/weight_source.h"
#include "pipeline/algo_options.h"
#include "pipeline/batch_check.h"
#include "pipeline/planner.h"
#include "pipeline/role_models.h"
#include "pipeline/run_options.h"
#include "pipeline/runtime.h"

namespace rl {
namespace {

// The micro-batch decides bits of a run, so it is chosen as if this many threads had their scratch;
// a run with more may need a larger budget, but never takes another micro-batch.
constexpr int kPlanThreads = 4;
constexpr int64_t kTokenStep = 64;
constexpr int64_t kMostBlocks = INT32_MAX;
constexpr uint64_t kFreeKvBytes = uint64_t{1} << 30;  // of KV when no budget is set

Error conflict(const char* key, const char* other, std::string message) {
  return Error(Code::kConflict, std::move(message)).with_key(key).with_other_key(other);
}

// A longest answer beside the model's own limit; a limit of the options is a rule of the registry.
void check_answer(const OptionSet& options, const char* key, int64_t longest, Violations& v) {
  const int64_t tokens = options.get_i64(key);
  if (tokens < longest || options.get_i64("engine.max_model_len") != 0) return;
  v.add(conflict(
            key, "engine.max_model_len",
            str(key, " is ", tokens, " and leaves no room for a prompt: the longest sequence has ",
                longest, " tokens, the model's own limit, as engine.max_model_len is 0"))
            .with_expected(str("at most ", longest - 1)));
}

// What the registry cannot see: the model's own limit, and the size of a block.
void check_engine(const OptionSet& options, const ModelConfig& config, int64_t longest,
                  Violations& v) {
  const int64_t batch = options.get_i64("engine.max_num_batched_tokens");
  if (!options.get_bool("engine.chunked_prefill") && longest > batch &&
      options.get_i64("engine.max_model_len") == 0) {
    v.add(conflict("engine.chunked_prefill", "engine.max_num_batched_tokens",
                   str("engine.chunked_prefill is false, so that a whole sequence must fit a "
                       "forward: engine.max_num_batched_tokens is ",
                       batch, " but the longest sequence has ", longest,
                       " tokens, the model's own limit, as engine.max_model_len is 0"))
              .with_expected(str("engine.max_num_batched_tokens of at least ", longest)));
  }
  const uint64_t space = options.get_u64("engine.swap_space_bytes");
  if (space == 0) return;
  const KvShape kv = kv_shape(config, compute_dtype_of(options), kv_format_of(options));
  const int64_t blocks = swap_blocks_of(options, kv);
  if (blocks >= 1 && blocks <= kMostBlocks) return;
  v.add(Error(Code::kOutOfRange, str("engine.swap_space_bytes is ", space, ", which holds ", blocks,
                                     " KV blocks of ", kv.block_bytes(), " bytes"))
            .with_key("engine.swap_space_bytes")
            .with_expected(str("1..", kMostBlocks, " blocks")));
}

void throw_violations(const OptionSet& options, const PlanModels& models, PlanUse use) {
  Violations violations;
  violations.add(options.validate_all());
  violations.add(plan_violations(options, models.policy, use));
  violations.throw_any();
}

// Settings that save memory, those that cost least first. A value that the option does not take, or
// that saves nothing, is left out.
std::vector<std::pair<const char*, std::string>> knob_candidates(const OptionSet& o,
                                                                 const Planner& p) {
  const auto half = [&](const char* key) { return std::to_string(o.get_i64(key) / 2); };
  return {{"trainer.max_tokens_per_device", "0"},
          {"trainer.logprob_chunk_tokens", "64"},
          {"critic.max_tokens_per_device", std::to_string(p.min_tokens())},
          {"model.dtype", "bf16"},
          {"model.compute_copies", "1"},
          {"engine.num_engines", "1"},
          {"engine.max_model_len", std::to_string(p.max_model_len() / 2)},
          {"engine.max_num_seqs", std::to_string(o.get_i64("pipeline.samples_per_prompt"))},
          {"engine.max_num_batched_tokens", half("engine.max_num_batched_tokens")},
          {"engine.swap_space_bytes", std::to_string(o.get_u64("engine.swap_space_bytes") / 2)},
          {"runtime.threads", "1"},
          {"algo.kl.where", "none"}};
}

std::vector<PlanKnob> find_knobs(const OptionSet& options, const PlanModels& models, PlanUse use) {
  const Planner now(options, models, use);
  std::vector<PlanKnob> knobs;
  for (const auto& [key, value] : knob_candidates(options, now)) {
    try {
      OptionSet turned = options;
      turned.set_text(key, value);
      throw_violations(turned, models, use);
      const Planner then(turned, models, use);
      if (then.min_total() >= now.min_total()) continue;
      knobs.push_back({key, value, now.min_total() - then.min_total()});
    } catch (const Error&) {
      continue;  // not a setting for this run
    }
  }
  return knobs;
}

[[noreturn]] void refuse(const OptionSet& options, const PlanModels& models, PlanUse use,
                         uint64_t needed) {
  const Planner p(options, models, use);
  const uint64_t train = p.train_bytes(p.min_tokens()), rollout = p.rollout_bytes(p.min_blocks());
  const char* phase = std::max(train, rollout) == 0 ? "start-up"
                      : train >= rollout            ? "train"
                                                    : "rollout";
  std::string text = str("phase ", phase, " needs ", needed, " bytes (", p.always_bytes(),
                         " held all the time, ", std::max(train, rollout), " of workspace, ",
                         p.baseline_bytes(), " outside arenas) but ", budget_text(options));
  std::string turn;
  for (const PlanKnob& k : find_knobs(options, models, use)) {
    turn += str(turn.empty() ? "" : ", ", k.key, " = ", k.value, " saves ", k.saved_bytes);
  }
  if (!turn.empty()) text += "; to fit: " + turn;
  const double share = options.get_f64("engine.memory_fraction");
  const auto shared = static_cast<uint64_t>(std::ceil(static_cast<double>(p.min_shared()) / share));
  const uint64_t least = std::max(needed, p.has_engine() ? shared : 0);
  throw Error(Code::kResourceExhausted, text)
      .with_key("runtime.memory_budget_bytes")
      .with_expected(str("at least ", least + options.get_u64("runtime.memory_margin_bytes")));
}

uint64_t share_of(const OptionSet& options, uint64_t budget) {
  return static_cast<uint64_t>(options.get_f64("engine.memory_fraction") *
                               static_cast<double>(budget));
}

// Fewer engines would fit: their number is what is wrong.
void check_engines(const OptionSet& options, const PlanModels& models, PlanUse use,
                   uint64_t budget) {
  const Planner all(options, models, use);
  int64_t fitting = all.has_engine() ? all.num_engines() : 0;
  OptionSet fewer = options;
  while (fitting > 0 && Planner(fewer, models, use).min_total() > budget) {
    if (--fitting > 0) fewer.set_i64("engine.num_engines", fitting);
  }
  if (fitting == 0 || fitting == all.num_engines()) return;
  throw Error(Code::kResourceExhausted,
              str("engine.num_engines is ", all.num_engines(), ", each with at least ",
                  all.rollout_bytes(all.min_blocks()) / static_cast<uint64_t>(all.num_engines()),
                  " bytes of KV and workspace, but ", budget_text(options), ": ", fitting,
                  fitting == 1 ? " engine fits" : " engines fit"))
      .with_key("engine.num_engines")
      .with_other_key("runtime.memory_budget_bytes")
      .with_expected(str("at most ", fitting));
}

// The budget holds the run, and engine.memory_fraction of it weights and one longest sequence.
void check_budget(const OptionSet& options, const PlanModels& models, PlanUse use,
                  uint64_t budget) {
  const Planner p(options, models, use);
  if (budget == 0) return;
  if (p.min_total() > budget) {
    check_engines(options, models, use, budget);
    refuse(options, models, use, p.min_total());
  }
  const uint64_t most = share_of(options, budget), needed = p.min_shared();
  if (!p.has_engine() || needed <= most) return;
  const double least = static_cast<double>(needed) / static_cast<double>(budget);
  throw Error(Code::kResourceExhausted,
              str("engine.memory_fraction ", options.get_text("engine.memory_fraction"), " leaves ",
                  most, " bytes for weights and KV, but weights take ", p.weight_bytes(),
                  " and the blocks of one longest sequence ", p.min_shared() - p.weight_bytes(), "; ",
                  budget_text(options)))
      .with_key("engine.memory_fraction")
      .with_expected(str("at least ", std::ceil(least * 1e4) / 1e4));
}

// The largest multiple of 64 rows that fits; sizes grow with the rows.
int64_t choose_tokens(const OptionSet& options, const PlanModels& models, PlanUse use,
                      uint64_t budget) {
  const Planner p(options, models, use, kPlanThreads);
  const int64_t least = p.min_tokens();
  if (budget == 0) return p.max_tokens();
  const uint64_t taken = p.always_bytes() + p.baseline_bytes();
  const uint64_t room = budget > taken ? budget - taken : 0;
  int64_t low = 0, high = (p.max_tokens() - least) / kTokenStep;  // steps above the least
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (p.train_bytes(least + middle * kTokenStep) <= room)
      low = middle;
    else
      high = middle - 1;
  }
  return least + low * kTokenStep;
}

int64_t choose_blocks(const OptionSet& options, const Planner& p, uint64_t budget,
                      uint64_t train_bytes) {
  const auto engines = static_cast<uint64_t>(p.num_engines());
  const uint64_t block = engines * p.kv_bytes(1);
  uint64_t room = std::max(kFreeKvBytes, train_bytes);
  if (budget != 0) {
    room = budget - p.always_bytes() - p.baseline_bytes();
    room -= std::min(room, engines * p.engine_workspace());
    room = std::min(room, share_of(options, budget) - p.weight_bytes());
  }
  const auto fitting = static_cast<int64_t>(std::min<uint64_t>(room / block, kMostBlocks));
  return std::max(p.min_blocks(), std::min(p.max_blocks(), fitting));
}

void describe_phase(const Planner& p, MemoryPlan& plan, PlanUse use) {
  const uint64_t phase =
      std::max(plan.train_workspace_bytes, plan.kv_bytes + plan.engine_workspace_bytes);
  const char* name = use == PlanUse::kPipeline   ? "phase workspace"
                     : use == PlanUse::kGenerate ? "engine workspace"
                                                 : "training workspace";
  if (phase != 0)
    plan.arenas.push_back({name, use == PlanUse::kPipeline ? "shared" : "always", phase});
  if (p.has_engine()) {
    plan.parts.push_back({"KV pool", "rollout", plan.kv_bytes});
    const uint64_t swap = static_cast<uint64_t>(plan.num_engines) * p.swap_bytes();
    plan.parts.push_back({"engine", "rollout", plan.engine_workspace_bytes - swap});
    if (swap != 0) plan.parts.push_back({"swap space", "rollout", swap});
  }
  if (!p.has_trainer()) return;
  for (const auto& piece : p.train_sizes(plan.max_tokens).workspace_pieces) {
    plan.parts.push_back({piece.name, "train", piece.bytes});
  }
  if (p.has_reward_model()) {
    plan.parts.push_back({"reward model", "reward", p.reward_workspace(plan.max_tokens)});
  }
  if (p.has_teacher()) {
    const uint64_t kept = p.teacher_kept_bytes(plan.max_tokens);
    plan.parts.push_back(
        {kept != 0 ? "forwards" : "log-probs", "teacher", p.teacher_bytes(plan.max_tokens)});
    if (kept != 0) plan.parts.push_back({"rows of the teacher", "train", kept});
  }
  if (!p.has_critic()) return;
  for (const auto& piece : p.critic_sizes(plan.max_tokens).workspace_pieces) {
    if (piece.bytes != 0) plan.parts.push_back({piece.name, "critic", piece.bytes});
  }
}

}  // namespace

EngineSetMemory MemoryPlan::engine_memory(std::byte* begin) const {
  const auto engines = static_cast<uint64_t>(num_engines);
  return {num_engines, begin, kv_bytes / engines, begin + kv_bytes,
          engine_workspace_bytes / engines};
}

uint64_t MemoryPlan::bytes_of(const std::string& arena) const {
  for (const PlanEntry& e : arenas) {
    if (e.name == arena) return e.bytes;
  }
  return 0;
}

std::vector<Error> plan_violations(const OptionSet& options, const ModelConfig& config,
                                   PlanUse use) {
  const bool engine = draws_samples(options, use);
  const bool trainer = use == PlanUse::kTrain || use == PlanUse::kPipeline;
  Violations v;
  if (use == PlanUse::kGenerate && config.scalar_head) {
    v.add(Error(Code::kConflict,
                "algo.objective = reward_model opens the model with a scalar head, which draws nothing")
              .with_key("algo.objective")
              .with_expected("another objective"));
  }
  if (use == PlanUse::kPipeline && options.get_string("engine.scheduling_policy") != "fcfs") {
    v.add(conflict("engine.scheduling_policy", "pipeline.mode",
                   "engine.scheduling_policy = priority orders nothing in a pipeline: its requests "
                   "are fresh prompts of one priority")
              .with_expected("fcfs"));
  }
  if (use == PlanUse::kPipeline && options.get_i64("sampling.seed") >= 0) {
    v.add(conflict("sampling.seed", "runtime.seed",
                   str("sampling.seed is ", options.get_i64("sampling.seed"),
                       ", but every prompt of a pipeline would get the same draws: it draws by "
                       "runtime.seed"))
              .with_expected("-1"));
  }
  if (use == PlanUse::kPipeline && options.get_i64("model.compute_copies") > 1) {
    v.add(conflict("model.compute_copies", "pipeline.mode",
                   str("model.compute_copies is ", options.get_i64("model.compute_copies"),
                       " but a run with pipeline.mode sync trains while nothing is drawn"))
              .with_expected("1"));
  }
  v.collect([&] {
    const int64_t longest = effective_model_len(options, config.max_position);
    if (engine) check_engine(options, config, longest, v);
    if (engine) check_answer(options, "sampling.max_new_tokens", longest, v);
    if (engine && trainer) check_answer(options, "eval.max_new_tokens", longest, v);
    if (trainer) check_batches(options, longest, use == PlanUse::kPipeline, v);
  });
  return v.errors();
}

PlanModels plan_models(const OptionSet& options, const ModelConfig& policy, FileSystem& fs,
                       PlanUse use) {
  PlanModels models(policy);
  // A host of its own loop scores.
  const bool rewarded = use == PlanUse::kPipeline && has_reward_model(options);
  if (rewarded) models.reward = reward_config(options, fs);
  if (objective_of(options) != Objective::kDistill) return models;
  const std::string& path = options.get_string("model.teacher_path");
  if (!path.empty()) models.teacher = open_weight_source(fs, path)->config();
  return models;
}

MemoryPlan plan_memory(const OptionSet& options, const PlanModels& models, PlanUse use) {
  throw_violations(options, models, use);
  const Planner p(options, models, use);
  MemoryPlan plan;
  plan.budget_bytes = options.get_u64("runtime.memory_budget_bytes");
  const uint64_t budget = usable_budget(options);
  check_budget(options, models, use, budget);
  plan.compute = p.compute();
  plan.threads = p.threads();
  plan.max_model_len = p.max_model_len();
  plan.arenas = p.always();
  plan.baseline_bytes = p.baseline_bytes();
  if (p.has_trainer()) {
    plan.max_tokens = choose_tokens(options, models, use, budget);
    plan.step_samples = p.step_samples();
    plan.train_workspace_bytes = p.train_bytes(plan.max_tokens);
    if (p.teacher_kept_bytes(plan.max_tokens) != 0) {
      plan.teacher_kept_offset = p.teacher_kept_offset(plan.max_tokens);
    }
  }
  if (p.has_engine()) {
    plan.engine = p.engine();
    plan.engine.num_blocks = choose_blocks(options, p, budget, plan.train_workspace_bytes);
    plan.num_engines = p.num_engines();
    const auto engines = static_cast<uint64_t>(plan.num_engines);
    plan.kv_bytes = engines * p.kv_bytes(plan.engine.num_blocks);
    plan.engine_workspace_bytes = engines * p.engine_workspace();
  }
  describe_phase(p, plan, use);
  for (const PlanEntry& e : plan.arenas) plan.arena_bytes += e.bytes;
  plan.total_bytes = plan.arena_bytes + plan.baseline_bytes;
  if (budget != 0 && plan.total_bytes > budget) refuse(options, models, use, plan.total_bytes);
  plan.knobs = find_knobs(options, models, use);
  return plan;
}

MemoryPlan plan_memory(const OptionSet& options, FileSystem& fs, PlanUse use) {
  const std::string& path = options.get_string("model.path");
  if (path.empty()) {
    throw Error(Code::kFailedPrecondition, "model.path is empty: no model to plan for")
        .with_key("model.path");
  }
  const auto source = open_weight_source(fs, path, trained_head(options));
  return plan_memory(options, plan_models(options, source->config(), fs, use), use);
}

std::string render_plan(const MemoryPlan& plan) {
  const auto line = [](const PlanEntry& e, const char* indent) {
    std::string name = indent + e.name;
    name.resize(std::max<size_t>(name.size() + 1, 36), ' ');
    return name + str(e.bytes, "  ", e.phase, "\n");
  };
  std::string out;
  for (const PlanEntry& e : plan.arenas) out += line(e, "");
  for (const PlanEntry& e : plan.parts) out += line(e, "  ");
  out += line({"outside arenas (estimate)", "always", plan.baseline_bytes}, "");
  out += line({"total", "", plan.total_bytes}, "");
  return out;
}

}  // namespace rl

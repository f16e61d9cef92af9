// The memory plan: every arena of a run in bytes, from options and model shape alone, before
// anything is allocated. Invariant: the ledger of a run's runtime holds exactly the arenas of its
// plan.
//
// In a pipeline that never generates while it trains, rollout (KV pool and engine) and training
// (activations, backward, head) share one arena, "phase workspace". The chosen micro-batch size
// affects the bits of a run. It follows from options that are part of a run's identity and, where a
// budget binds, from the scratch of threads beyond the first four.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/device_id.h"
#include "core/dtype.h"
#include "formats/model_config.h"
#include "pipeline/config/settings.gen.h"
#include "pipeline/plan/knob.h"
#include "rollout/engine_set.h"
#include "train/trainer.h"

namespace rl {

// What the memory is for. Numbers are part of the ABI.
enum class PlanUse : int32_t {
  kModel = 1,     // a loaded model: text only, no log-probs
  kGenerate = 2,  // plus an engine
  kTrain = 3,     // plus a trainer of its own
  kPipeline = 4,  // engine and trainer that share the phase workspace
  kParts = 5,     // engine and trainer, each with its own workspace
  kForward = 6,   // forwards without gradients
};

// Headers of the models that a plan depends on.
struct PlanModels {
  PlanModels(const ModelConfig& policy) : policy(policy), whole(policy) {}
  ModelConfig policy, whole;                // whole: of all stages
  std::optional<ModelConfig> teacher = {};  // with algo.objective = distill
  std::optional<ModelConfig> reward = {};   // with model.reward_path, in a pipeline
  std::vector<ModelConfig> stages = {};     // of a divided policy, which is one of them
  bool of_largest = false;                  // the plan is that of the stage which needs most
};
constexpr int kLargestStage = -1;
// Reads the headers of the teacher and the reward model that options name. stage: of a policy that
// parallel.pipeline divides.
PlanModels plan_models(const Settings& settings, const ModelConfig& policy, FileSystem& fs,
                       PlanUse use, int stage = kLargestStage);
// And that of model.path; kFailedPrecondition if it is empty.
PlanModels plan_models(const Settings& settings, FileSystem& fs, PlanUse use);

struct PlanEntry {
  std::string name;   // of the arena, or of a part of it
  std::string phase;  // when the bytes are in use: "always", "shared", "rollout", "train",
                      // "log-prob", "critic", "reward" or "teacher"
  uint64_t bytes = 0;
  // "policy", "reference", "critic", "reward", "teacher", "rollout"; empty: shared
  std::string role = {};
  DeviceId device = {};  // that has these bytes as memory of its own; else they are the host's

  MemorySpace space() const {
    return device == DeviceId() ? MemorySpace::kHost : MemorySpace::kDevice;
  }
};

// Arenas that engines and training compute in: one for both, or one each.
inline constexpr const char* kPhaseWorkspace = "phase workspace";
inline constexpr const char* kEngineWorkspace = "engine workspace";
inline constexpr const char* kTrainingWorkspace = "training workspace";
// The arena in host memory: activations that leave the device.
inline constexpr const char* kHostWorkspace = "host workspace";
// That of trainer.weights_backup, in host memory as well.
inline constexpr const char* kWeightsBackup = "weights backup";
// That of checkpoint.async, in host memory as well.
inline constexpr const char* kCheckpointCopy = "checkpoint copy";

// Of weights that engines have beside those of training.
inline constexpr const char* kRolloutRole = "rollout";

// Into the training workspace; 0: nothing lies there.
struct WorkspaceOffsets {
  uint64_t teacher_kept = 0;  // what a teacher of whole rows keeps
  // With trainer.free_grad_buffers_on_publish a pipeline's gradients are behind all else, so that
  // rollout has their memory.
  uint64_t policy_gradients = 0, critic_gradients = 0;
  // With reference.offload: the reference's weights while it computes, behind the buffers of
  // forwards.
  uint64_t reference_weights = 0;
};

struct MemoryPlan {
  OptionSet options;                         // that it was made for
  std::vector<PlanEntry> arenas;             // as the ledger will list them
  std::vector<PlanEntry> parts;              // of the workspaces, by phase
  std::vector<PlanEntry> outside;            // outside arenas: what baseline_bytes is made of
  uint64_t arena_bytes = 0;                  // sum of arenas
  uint64_t baseline_bytes = 0;               // estimate of what is held outside arenas
  uint64_t total_bytes = 0;                  // what runtime.memory_budget_bytes bounds
  uint64_t least_bytes = 0;                  // total of the smallest plan: the least usable budget
  std::function<std::vector<Knob>()> knobs;  // finds what would save memory, in order

  Dtype compute = Dtype::kF32;
  int threads = 0;
  int64_t max_model_len = 0;
  // Rows of a training micro-batch, or of one that a trainer would have beside these forwards; 0
  // without either.
  int64_t max_tokens = 0;
  // Samples trained on per step; 0 if the host brings them, or without a trainer.
  int64_t step_samples = 0;
  EngineOptions engine;  // options of each engine, with num_blocks chosen; all 0 without one
  int64_t num_engines = 0;
  uint64_t kv_bytes = 0;  // of all engines together, as is engine_workspace_bytes
  uint64_t engine_workspace_bytes = 0;
  uint64_t train_workspace_bytes = 0;  // of forwards without a trainer, too

  WorkspaceOffsets train_offsets;
  // Null if the role's gradients have arenas of their own. workspace: of training.
  std::byte* lent_gradients(const std::string& role, std::byte* workspace) const;
  // Null if the reference has memory of its own, or if there is none.
  std::byte* reference_weights(std::byte* workspace) const;

  // The device that computes, if it has memory of its own: then a budget bounds what lies there,
  // and baseline_bytes is the host's. Else DeviceId().
  DeviceId home() const;
  bool has_own_memory() const { return home() != DeviceId(); }

  // Arenas in the memory that runtime.memory_budget_bytes is for.
  uint64_t device_bytes() const;
  // Baseline in that memory.
  uint64_t budgeted_baseline() const { return has_own_memory() ? 0 : baseline_bytes; }
  uint64_t host_workspace_bytes() const { return bytes_of(kHostWorkspace); }
  uint64_t bytes_of(const std::string& arena) const;  // 0 when the plan has no such arena
  uint64_t arena_bytes_of_role(const std::string& role) const;
  uint64_t arena_bytes_in(MemorySpace space) const;
  // Splits kv_bytes + engine_workspace_bytes at `begin` among the engines.
  EngineSetMemory engine_memory(std::byte* begin) const;
};

// Sizes that are inconsistent for this use and model; each error names both options.
std::vector<Error> plan_violations(const Settings& settings, const ModelConfig& config, PlanUse use,
                                   const Device& device = cpu_device());

// Bytes in use in each phase that the run has: "start-up", "rollout", "log-prob", "train",
// "publish" and "checkpoint". Arenas that live throughout count in all of them, the shared one with
// what the phase uses of it.
std::vector<PlanEntry> plan_phases(const MemoryPlan& plan);

// A pure function. All violations, including the registry's, are reported as one error. A budget
// too small for the smallest plan is Error(kResourceExhausted) naming the phase that needs most,
// bytes needed, budget, and the knobs to turn with the bytes each saves. threads 0: taken from the
// options. device: the one of the runtime.
MemoryPlan plan_memory(const Settings& settings, const PlanModels& models, PlanUse use,
                       int threads = 0, const Device& device = cpu_device());
// The same from the header of model.path; no weights are read.
MemoryPlan plan_memory(const Settings& settings, FileSystem& fs, PlanUse use, int threads = 0);

// The plan's knobs after a smaller budget, if the plan is not the smallest.
std::vector<Knob> knobs_of_short_memory(const MemoryPlan& plan);

// Runs f, which reserves what a plan foresees. If memory is short for it, the error has
// these knobs.
template <typename F>
void with_knobs(const MemoryPlan& plan, F&& f) {
  try {
    f();
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& e) {
    if (e.code != Code::kOutOfMemory && e.code != Code::kResourceExhausted) throw;
    throw MemoryError(e, knobs_of_short_memory(plan));
  }
}

// A text table for people, one arena per line.
std::string render_plan(const MemoryPlan& plan);

}  // namespace rl

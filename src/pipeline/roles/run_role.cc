#include "pipeline/roles/run_role.h"

#include <utility>

#include "buffer/directory_store.h"
#include "core/checked.h"
#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"

namespace rl {
namespace {

constexpr const char* kPath = "buffer.store_path";

// Errors of a store that the host gives a pipeline which has none.
void check_given(const Settings& settings, int rank) {
  const auto refuse = [](const std::string& why) {
    return Error(Code::kConflict, why).with_other_key("store");
  };
  if (settings.pipeline.role == PipelineRole::kBoth) {
    throw refuse("pipeline.role = both trains on what it generates, but the host has a store")
        .with_key("pipeline.role")
        .with_expected("rollout or train");
  }
  if (const std::string& dir = settings.buffer.store_path; !dir.empty()) {
    throw refuse(str(kPath, " is ", dir, ", but the host has a store of its own")).with_key(kPath);
  }
  if (rank == 0) return;
  throw refuse(str("rank 0 has the store for all, but the host gives one to rank ", rank))
      .with_key("pipeline.role")
      .with_location(str("rank ", rank));
}

// The store of a run in two processes, of the first rank; null of a run in one.
std::shared_ptr<ExperienceStore> store_of(LoadedModel& model, const Settings& settings,
                                          std::shared_ptr<ExperienceStore> given) {
  const std::string& dir = settings.buffer.store_path;
  const int rank = model.runtime().ranks().rank();
  if (given != nullptr) check_given(settings, rank);
  if (given != nullptr || settings.pipeline.role == PipelineRole::kBoth || rank != 0) return given;
  if (dir.empty()) {
    throw Error(Code::kConflict, str("pipeline.role = ", role_name(settings.pipeline.role),
                                     " needs a store, but ", kPath, " is empty"))
        .with_key(kPath)
        .with_other_key("pipeline.role")
        .with_expected("a directory, or a store of the host");
  }
  const auto files = [runtime = model.shared_runtime()] {
    return std::shared_ptr<FileSystem>(runtime, &runtime->fs());
  };
  return std::make_shared<DirectoryStore>(files, dir, settings.buffer.num_storage_units);
}

// As many as may wait for the trainer.
int64_t most_stored_groups(const Settings& settings) {
  const PipelineSettings& o = settings.pipeline;
  return (CheckedI64(o.prompts_per_step) * CheckedI64(o.max_staleness + 2)).get();
}

std::unique_ptr<StoreClaims> make_claims(std::shared_ptr<ExperienceStore> store,
                                         const Settings& settings, Logger& logger) {
  if (store == nullptr) return nullptr;
  const StoreClaims::Rules rules{attempts_per_prompt(settings), most_stored_groups(settings),
                                 settings.buffer.store_lease_ns};
  return std::make_unique<StoreClaims>(std::move(store), rules, logger);
}

std::unique_ptr<GroupDeliveries> make_deliveries(std::shared_ptr<ExperienceStore> store,
                                                 const Settings& settings, const Clock& clock) {
  if (store == nullptr) return nullptr;
  return std::make_unique<GroupDeliveries>(std::move(store), settings.runtime.instance, clock);
}

}  // namespace

SharedInputs loop_ranks(Runtime& runtime, const Settings& settings) {
  if (settings.pipeline.role == PipelineRole::kTrain) {
    return SharedInputs(runtime.data_ranks().of_run());
  }
  if (engines_are_whole(settings)) return {};
  return SharedInputs(runtime.tensor_ranks(), runtime.stage_ranks());
}

RunRole make_run_role(LoadedModel& model, const Settings& settings,
                      std::shared_ptr<ExperienceStore> given) {
  Runtime& runtime = model.runtime();
  const bool both = settings.pipeline.role == PipelineRole::kBoth;
  const FirstRank first = both ? FirstRank() : FirstRank(loop_ranks(runtime, settings));
  RunRole role{first, nullptr, nullptr, nullptr};
  std::shared_ptr<ExperienceStore> store = store_of(model, settings, std::move(given));
  if (settings.pipeline.role == PipelineRole::kTrain) {
    role.claims = std::make_unique<SharedClaims>(
        make_claims(std::move(store), settings, runtime.logger()), first);
  } else if (settings.pipeline.role == PipelineRole::kRollout) {
    role.deliveries = std::make_unique<SharedDeliveries>(
        make_deliveries(std::move(store), settings, runtime.clock()), first);
    const std::string& dir = settings.pipeline.weights_dir;
    if (!dir.empty()) role.weights = std::make_unique<FollowedWeights>(model, dir, first);
  }
  return role;
}

}  // namespace rl

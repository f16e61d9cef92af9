#include "pipeline/roles/run_role.h"

#include <utility>

#include "buffer/directory_store.h"
#include "core/checked.h"
#include "core/error.h"
#include "pipeline/config/run_options.h"

namespace rl {
namespace {

constexpr const char* kPath = "buffer.store_path";

// The store of a run in two processes, or null of a run in one.
std::shared_ptr<ExperienceStore> store_of(LoadedModel& model, const Settings& settings,
                                          std::shared_ptr<ExperienceStore> given) {
  const std::string& dir = settings.buffer.store_path;
  const bool alone = settings.pipeline.role == PipelineRole::kBoth;
  if (given != nullptr && alone) {
    throw Error(Code::kConflict,
                "pipeline.role = both trains on what it generates, but the host "
                "has a store")
        .with_key("pipeline.role")
        .with_other_key("store")
        .with_expected("rollout or train");
  }
  if (given != nullptr && !dir.empty()) {
    throw Error(Code::kConflict, str(kPath, " is ", dir, ", but the host has a store of its own"))
        .with_key(kPath)
        .with_other_key("store");
  }
  if (given != nullptr || alone) return given;
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

}  // namespace

RunRole make_run_role(LoadedModel& model, const Settings& settings,
                      std::shared_ptr<ExperienceStore> given) {
  RunRole role;
  Runtime& runtime = model.runtime();
  std::shared_ptr<ExperienceStore> store = store_of(model, settings, std::move(given));
  if (settings.pipeline.role == PipelineRole::kTrain) {
    const StoreClaims::Rules rules{attempts_per_prompt(settings), most_stored_groups(settings),
                                   settings.buffer.store_lease_ns};
    role.claims = std::make_unique<StoreClaims>(std::move(store), rules, runtime.logger());
  } else if (settings.pipeline.role == PipelineRole::kRollout) {
    role.deliveries = std::make_unique<GroupDeliveries>(std::move(store), settings.runtime.instance,
                                                        runtime.clock());
    const std::string& dir = settings.pipeline.weights_dir;
    if (!dir.empty()) role.weights = std::make_unique<FollowedWeights>(model, dir);
  }
  return role;
}

}  // namespace rl

// The frozen model of the KL term.
#pragma once
#include <memory>

#include "core/options.h"
#include "pipeline/loaded_model.h"

namespace rl {

// Null without a KL term. Reads model.reference_path, or the policy's own file: the policy as it
// was when the run began, also after a resume. The caller holds the compute lease.
std::unique_ptr<Model> load_reference(const LoadedModel& policy, const OptionSet& options);

}  // namespace rl

// The models of a run other than the policy: the frozen reference of a KL term or of preferences,
// the critic, the reward model, and the teacher. Invariant: reference and critic have the policy's
// shape, so that the plan follows from its header; reward model and teacher share its vocabulary.
// All except the critic are frozen: they hold no fp32 masters.
#pragma once
#include <memory>

#include "pipeline/config/settings.gen.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

// Null if nothing needs it. Reads model.reference_path, or the policy's own file: the policy at
// the beginning of the run, also after a resume. The caller holds the compute lease. filled_later:
// its memory is reserved, but it has no weights before Model::copy_masters() or fill_reference().
// borrowed: ModelOptions::borrowed, with reference.offload.
std::unique_ptr<Model> load_reference(const LoadedModel& policy, const Settings& settings,
                                      bool filled_later = false, std::byte* borrowed = nullptr);
void fill_reference(const LoadedModel& policy, const Settings& settings, Model& reference);
// Whether it has the policy's weights as they are now: those of the policy's file, unchanged.
bool reference_is_policy(const LoadedModel& policy, const Settings& settings);

// model.critic_path, or the policy's own file, with a scalar head. The caller holds the compute
// lease.
std::unique_ptr<Model> load_critic(const LoadedModel& policy, const Settings& settings);

// model.reward_path, whose own head must be scalar: Error(kUnsupported) for a language model,
// Error(kIncompatible) for another vocabulary or too few positions. The caller holds the compute
// lease.
std::unique_ptr<Model> load_reward_model(const LoadedModel& policy, const Settings& settings);

// model.teacher_path: Error(kIncompatible) for another vocabulary or too few positions. The caller
// holds the compute lease.
std::unique_ptr<Model> load_teacher(const LoadedModel& policy, const Settings& settings);

}  // namespace rl

// The critic trains after the policy (PolicyUpdate::finish); neither reads the other.
#include "pipeline/update/critic_role.h"

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/role_models.h"

namespace rl {

std::unique_ptr<CriticRole> CriticRole::make(const LoadedModel& policy, const Settings& settings,
                                             const MemoryPlan& plan, const Memory& memory) {
  if (!has_critic(settings)) return nullptr;
  return std::unique_ptr<CriticRole>(new CriticRole(policy, settings, plan, memory));
}

CriticRole::CriticRole(const LoadedModel& policy, const Settings& settings, const MemoryPlan& plan,
                       const Memory& memory)
    : max_tokens_(plan.max_tokens),
      max_sequence_(plan.max_model_len),
      step_samples_(plan.step_samples),
      warmup_steps_(static_cast<uint64_t>(settings.algo.critic_warmup_steps)),
      model_(load_critic(policy, settings)),
      critic_(*model_, critic_options_from(settings, max_tokens_, max_sequence_, step_samples_),
              memory.workspace,
              {&policy.runtime().tracer(), TraceLane::kTrain, &policy.runtime().clock(),
               &policy.runtime().compute_queue(), memory.host, memory.gradients,
               policy.runtime().data_ranks(), policy.runtime().context_ranks()}) {}

void CriticRole::save(const CriticRole* role, const LoadedModel& policy, const std::string& dir,
                      Dtype dtype, bool replace_existing) {
  if (role != nullptr) return policy.save_other(*role->model_, dir, dtype, replace_existing);
  throw Error(Code::kFailedPrecondition, "there is no critic: algo.advantage is not gae")
      .with_key("algo.advantage");
}

void CriticRole::set_options(const Settings& settings) {
  critic_.set_options(critic_options_from(settings, max_tokens_, max_sequence_, step_samples_));
}

CriticMetrics CriticRole::step(PreparedBatch& batch) {
  CriticMetrics measured = critic_.step(batch.critic);
  for_each_metric(measured,
                  [&](const char* name, double value) { batch.metrics.set(name, value); });
  return measured;
}

}  // namespace rl

// Payload types of handles that have no class of their own below this layer.
#pragma once
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/event_queue.h"
#include "core/tensor.h"
#include "options/options.h"
#include "pipeline/loop/events.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/plan/plan.h"
#include "pipeline/session/buffer_session.h"
#include "pipeline/session/conversation.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/session/profiler_session.h"
#include "pipeline/session/runtime.h"
#include "pipeline/update/trainer_session.h"

namespace rl::abi {

struct ErrorRecord {
  Error error;
  std::string summary;
  std::vector<Knob> knobs;  // of a MemoryError
};

class PlanBox {
 public:
  explicit PlanBox(MemoryPlan given) : plan(std::move(given)), phases(plan_phases(plan)) {}
  const std::vector<Knob>& knobs() const {
    std::call_once(asked_, [&] { knobs_ = plan.knobs(); });
    return knobs_;
  }

  const MemoryPlan plan;
  const std::vector<PlanEntry> phases;

 private:
  mutable std::once_flag asked_;
  mutable std::vector<Knob> knobs_;  // found when first asked for
};

// An option set with serialised access.
class OptionsBox {
 public:
  explicit OptionsBox(OptionSet set) : set_(std::move(set)) {}
  OptionSet copy() const {
    const std::lock_guard lock(mutex_);
    return set_;
  }
  template <typename F>
  auto with(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(set_);
  }

 private:
  mutable std::mutex mutex_;
  OptionSet set_;
};

// An engine with the settings it was made with; a bare request uses their sampling.*.
struct EngineBox final : EngineSession {
  EngineBox(std::shared_ptr<LoadedModel> model, const Settings& given)
      : EngineSession(std::move(model), given), settings(given) {}
  const Settings settings;
};

// A conversation with the settings of its engine; a turn uses their sampling.*.
struct ConversationBox {
  std::shared_ptr<Conversation> conversation;
  const Settings settings;
};

// Samples, which never change, and their rewards, which a host may set while others read them.
class BatchBox {
 public:
  BatchBox() = default;
  explicit BatchBox(std::vector<SamplePtr> given) : samples(std::move(given)) {}

  std::vector<SamplePtr> samples;  // set before the handle is issued

  // The current rewards, one per sample.
  std::vector<SampleRewards> rewards() const {
    const std::lock_guard lock(mutex_);
    return filled();
  }
  // Runs f(rewards of sample i) under the lock.
  template <typename F>
  void with_rewards(size_t i, F&& f) const {
    const std::lock_guard lock(mutex_);
    f(std::as_const(filled()[i]));
  }
  // Replaces the rewards of the samples from `first` on.
  void set_rewards(size_t first, std::vector<SampleRewards> rewards) {
    const std::lock_guard lock(mutex_);
    std::ranges::move(rewards, filled().begin() + static_cast<ptrdiff_t>(first));
  }

 private:
  // Built on first use: taking samples out of the library then allocates nothing after they are
  // taken.
  std::vector<SampleRewards>& filled() const {
    if (rewards_.size() == samples.size()) return rewards_;
    std::vector<SampleRewards> made;
    for (const SamplePtr& s : samples) made.push_back(rewards_of(*s));
    rewards_ = std::move(made);
    return rewards_;
  }

  mutable std::mutex mutex_;
  mutable std::vector<SampleRewards> rewards_;
};

}  // namespace rl::abi

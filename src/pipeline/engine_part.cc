// The engine counts as a user of the model from the first request until it is idle and emptied.
#include "pipeline/engine_part.h"

#include "core/error.h"

namespace rl {

EnginePart::EnginePart(std::shared_ptr<LoadedModel> model, const OptionSet& options)
    : model_(std::move(model)), options_(options) {
  Runtime& runtime = model_->runtime();
  check_for_use(*model_, options, PlanUse::kGenerate);
  const MemoryPlan plan = plan_memory(options, model_->config(), PlanUse::kGenerate);
  const uint64_t bytes = plan.kv_bytes + plan.engine_workspace_bytes;
  require_room(runtime, "the engine", bytes, plan.baseline_bytes);
  arena_ = Arena("engine workspace", bytes);
  const KvPool kv{model_->model().kv_shape(), arena_.data(), plan.engine.num_blocks};
  engine_ = std::make_unique<Engine>(
      model_->model(), plan.engine, kv, arena_.data() + plan.kv_bytes,
      model_->has_tokenizer() ? &model_->tokenizer() : nullptr, &runtime.tracer());
}

EnginePart::~EnginePart() {
  if (in_use_) model_->end_use();
}

// The engine is a user exactly while it has unfinished requests.
void EnginePart::note_use() {
  if (in_use_ && engine_->idle()) {
    model_->end_use();
    in_use_ = false;
  }
}

uint64_t EnginePart::submit(Request request) {
  const std::lock_guard lock(mutex_);
  request.bare = true;
  request.seed = model_->runtime().seed();
  request.ordinal = next_request_;
  request.first_sample_id = next_sample_id_;
  if (!in_use_) {
    model_->begin_use();
    in_use_ = true;
  }
  try {
    engine_->submit(request);
  } catch (...) {
    note_use();
    throw;
  }
  ++next_request_;
  next_sample_id_ += static_cast<uint64_t>(request.num_samples);
  return request.first_sample_id;
}

bool EnginePart::step_locked() {
  const ComputeLease lease(model_->runtime(), "an engine step");
  const bool more = engine_->step();
  note_use();
  return more;
}

bool EnginePart::step() {
  const std::lock_guard lock(mutex_);
  return step_locked();
}

void EnginePart::run() {
  for (;;) {
    const std::lock_guard lock(mutex_);
    if (engine_->idle()) return;
    step_locked();
  }
}

std::vector<SamplePtr> EnginePart::take_finished() {
  const std::lock_guard lock(mutex_);
  return engine_->take_finished();
}

void EnginePart::abort_all() {
  const std::lock_guard lock(mutex_);
  engine_->abort_all();
  note_use();
}

bool EnginePart::idle() const {
  const std::lock_guard lock(mutex_);
  return engine_->idle();
}

EngineStats EnginePart::stats() const {
  const std::lock_guard lock(mutex_);
  return engine_->stats();
}

}  // namespace rl

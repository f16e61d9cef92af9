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
  require_awake();
  const ComputeLease lease(model_->runtime(), "an engine step");
  model_->restore_packed();
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
    require_awake();
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

void EnginePart::require_awake() const {
  if (sleeps_ == 0) return;
  throw Error(Code::kFailedPrecondition,
              str("the engine sleeps at level ", sleeps_, "; wake it before it computes"));
}

void EnginePart::sleep(int level) {
  if (level < 1 || level > 2) {
    throw Error(Code::kOutOfRange, str("level is ", level, "; an engine sleeps at level 1 or 2"))
        .with_key("level")
        .with_expected("1 or 2");
  }
  const std::lock_guard lock(mutex_);
  if (level <= sleeps_) return;
  const ComputeLease lease(model_->runtime(), "an engine that goes to sleep");
  if (level == 2) model_->drop_packed(in_use_);
  if (sleeps_ == 0) {
    engine_->forget_kv();
    arena_.decommit();
  }
  sleeps_ = level;
}

void EnginePart::wake() {
  const std::lock_guard lock(mutex_);
  if (sleeps_ == 0) return;
  const ComputeLease lease(model_->runtime(), "an engine that wakes");
  if (sleeps_ == 2) model_->restore_packed();
  arena_.commit();
  sleeps_ = 0;
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

// The engine counts as a user of the model while it has something to compute, even when paused.
#include "pipeline/session/engine_session.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "data/sample_document.h"

namespace rl {

EngineSession::EngineSession(std::shared_ptr<LoadedModel> model, const Settings& settings)
    : model_(std::move(model)), keeps_intervals_(settings.engine.stats_interval_ns != 0) {
  Runtime& runtime = model_->runtime();
  const MemoryPlan plan = model_->plan_session(settings, PlanUse::kGenerate);
  const uint64_t bytes = plan.kv_bytes + plan.engine_workspace_bytes;
  require_room(runtime, "the engine", bytes, plan.baseline_bytes);
  arena_ = Arena("engine workspace", bytes, Touch::kNow, &runtime.ledger());
  max_model_len_ = plan.max_model_len;
  engine_ = std::make_unique<EngineSet>(
      model_->model(), plan.engine, plan.engine_memory(arena_.data()),
      model_->has_tokenizer() ? &model_->tokenizer() : nullptr, &runtime.tracer());
}

EngineSession::~EngineSession() = default;

// The engine is a user exactly while it has something to compute.
void EngineSession::note_use() {
  const bool uses = !engine_->nothing_runnable();
  if (uses == use_.has_value()) return;
  if (uses) {
    use_.emplace(*model_);
  } else {
    use_.reset();
  }
}

namespace {

// The ids that a request takes; the engine has yet to check their number.
uint64_t num_ids(const Request& request) {
  return static_cast<uint64_t>(
      std::clamp<int64_t>(request.num_samples, 0, static_cast<int64_t>(kMaxGroupSamples)));
}

}  // namespace

// No sample that is unfinished here has an id of the request.
void EngineSession::require_free_ids(const Request& request, const char* key) const {
  for (uint64_t i = 0; i < num_ids(request); ++i) {
    const uint64_t id = request.first_sample_id + i;
    if (!engine_->find(id)) continue;
    throw Error(Code::kFailedPrecondition,
                str("sample ", id, " is still unfinished in this engine, so no other can have its ",
                    "id and it cannot be resumed"))
        .with_key(key);
  }
}

// A turn that has ended keeps its id until its conversation takes it.
void EngineSession::require_no_turn(const Request& request, const Naming& naming) const {
  if (!request.resume && !naming.sample_id) return;
  const uint64_t first = request.resume ? request.resume->id : *naming.sample_id;
  const auto turn = turns_.lower_bound(first);
  if (turn == turns_.end() || turn->first - first >= num_ids(request)) return;
  throw Error(Code::kFailedPrecondition,
              str("sample ", turn->first, " is a turn of a conversation of this engine"))
      .with_key(request.resume ? "request.resume" : "request.sample_id");
}

// Whatever the naming leaves open: the next number of a request, the next ids of the runtime.
void EngineSession::identify(Request& request, const Naming& naming) {
  SampleIds& ids = model_->runtime().sample_ids();
  request.bare = true;
  request.seed = model_->runtime().seed();
  request.ordinal =
      request.resume ? request.resume->ordinal : naming.ordinal.value_or(next_request_);
  if (!request.resume && !naming.sample_id) {
    request.first_sample_id = ids.take(num_ids(request));
    return;
  }
  request.first_sample_id = request.resume ? request.resume->id : *naming.sample_id;
  require_free_ids(request, request.resume ? "request.resume" : "request.sample_id");
  ids.note(request.first_sample_id, num_ids(request));
}

uint64_t EngineSession::submit(Request request, const Naming& naming) {
  const std::lock_guard lock(mutex_);
  require_no_turn(request, naming);
  return submit_locked(std::move(request), naming);
}

uint64_t EngineSession::submit_locked(Request request, const Naming& naming) {
  if (closed_) throw Error(Code::kFailedPrecondition, "the engine was destroyed");
  identify(request, naming);
  try {
    if (!use_ && !draining_) use_.emplace(*model_);
    engine_->submit(request);
  } catch (...) {
    if (!request.resume && !naming.sample_id) {
      model_->runtime().sample_ids().give_back(request.first_sample_id, num_ids(request));
    }
    note_use();
    throw;
  }
  if (!request.resume && !naming.ordinal) ++next_request_;
  return request.first_sample_id;
}

std::optional<EngineStep> EngineSession::outcome_now() const {
  require_awake();
  if (paused_) return EngineStep::kPaused;
  return std::nullopt;
}

EngineStep EngineSession::step_in_turn(int64_t longest_wait_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto now = outcome_now()) return *now;
  }
  std::optional<ComputeLease> lease;
  try {
    lease.emplace(model_->runtime(), "an engine step", model_->compute_sharing(), nullptr,
                  ComputeWait{longest_wait_ns, &waits_end_});
  } catch (const Error& e) {
    if (e.code == Code::kTimeout) return EngineStep::kTimedOut;
    if (e.code != Code::kCancelled) throw;
    const std::lock_guard lock(mutex_);
    return closed_ ? EngineStep::kIdle : EngineStep::kPaused;
  }
  const std::lock_guard lock(mutex_);
  if (const auto now = outcome_now()) return *now;  // it may have been paused meanwhile
  model_->prepare_compute(LoadedModel::Weights::kPublished);
  const bool more = engine_->step();
  note_use();
  return more ? EngineStep::kComputed : EngineStep::kIdle;
}

EngineStep EngineSession::step() {
  const std::lock_guard turn(computing_);
  return step_in_turn();
}

EngineStep EngineSession::run() {
  for (;;) {
    const std::lock_guard turn(computing_);
    {
      const std::lock_guard lock(mutex_);
      require_awake();
      if (engine_->nothing_runnable()) return EngineStep::kIdle;
    }
    if (step_in_turn() == EngineStep::kPaused) return EngineStep::kPaused;
  }
}

EngineStep EngineSession::drain(int64_t timeout_ns) {
  const int64_t start_ns = real_clock().now_ns();
  const auto left_ns = [&] {
    if (timeout_ns < 0) return ComputeWait::kNoLimit;
    return std::max(timeout_ns - (real_clock().now_ns() - start_ns), int64_t{0});
  };
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      draining_ = true;
      engine_->set_admitting(false);
      note_use();
      if (engine_->nothing_runnable()) return EngineStep::kIdle;
    }
    if (left_ns() == 0) return EngineStep::kTimedOut;
    const std::lock_guard turn(computing_);
    const EngineStep step = step_in_turn(left_ns());
    if (step == EngineStep::kPaused || step == EngineStep::kTimedOut) return step;
  }
}

void EngineSession::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
  end_waits();
}

void EngineSession::end_waits() {
  waits_end_ = true;
  model_->runtime().compute_queue().note_given_up();
}

void EngineSession::unpause() {
  const std::lock_guard lock(mutex_);
  engine_->set_admitting(true);
  try {
    note_use();
  } catch (...) {
    engine_->set_admitting(!draining_);
    throw;
  }
  paused_ = draining_ = false;
  waits_end_ = closed_;
}

std::vector<SamplePtr> EngineSession::take_finished() {
  const std::lock_guard lock(mutex_);
  collect();
  return std::exchange(finished_, {});
}

// Turns go to their waiters, all other samples to take_finished(). Nothing is lost if memory runs
// out.
void EngineSession::collect() {
  for (const Error& e : engine_->take_errors()) {
    model_->runtime().logger().log_error(LogLevel::kWarn, "engine", e);
  }
  engine_->take_finished(collected_);
  const size_t needed = finished_.size() + collected_.size();
  if (needed > finished_.capacity()) finished_.reserve(std::max(needed, 2 * finished_.capacity()));
  for (SamplePtr& s : collected_) {
    const auto turn = turns_.find(s->id);
    (turn != turns_.end() ? turn->second : finished_.emplace_back()) = std::move(s);
  }
  collected_.clear();
}

EngineSession::Identity EngineSession::new_identity(const Naming& naming) {
  const std::lock_guard lock(mutex_);
  SampleIds& ids = model_->runtime().sample_ids();
  const uint64_t id = naming.sample_id ? *naming.sample_id : ids.take(1);
  ids.note(id, 1);
  return {naming.ordinal ? *naming.ordinal : next_request_++, id};
}

uint64_t EngineSession::new_sample_id() { return model_->runtime().sample_ids().take(1); }

void EngineSession::submit_turn(Request turn) {
  const std::lock_guard lock(mutex_);
  collect();
  const uint64_t id = turn.resume->id;
  const auto [waits, is_new] = turns_.emplace(id, nullptr);
  if (!is_new) {
    throw Error(Code::kFailedPrecondition,
                str("another conversation of this engine has the id ", id, ", and a turn with it"))
        .with_key("conversation");
  }
  try {
    submit_locked(std::move(turn));
  } catch (...) {
    turns_.erase(waits);
    throw;
  }
}

SamplePtr EngineSession::take_turn(uint64_t sample_id) {
  const std::lock_guard lock(mutex_);
  collect();
  const auto turn = turns_.find(sample_id);
  if (turn == turns_.end() || turn->second == nullptr) return nullptr;
  return std::move(turns_.extract(turn).mapped());
}

void EngineSession::drop_turn(uint64_t sample_id) {
  const std::lock_guard lock(mutex_);
  if (const auto number = engine_->find(sample_id)) engine_->abort(*number);
  note_use();
  collect();
  turns_.erase(sample_id);
}

void EngineSession::abort_all() {
  const std::lock_guard lock(mutex_);
  engine_->abort_all();
  note_use();
}

void EngineSession::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  end_waits();
  engine_->abort_all();
  note_use();
}

void EngineSession::abort_request(uint64_t sample_id) {
  const std::lock_guard lock(mutex_);
  const std::optional<uint64_t> number = engine_->find(sample_id);
  if (!number) {
    throw Error(Code::kNotFound, str("no unfinished sample of this engine has id ", sample_id))
        .with_key("sample_id");
  }
  engine_->abort(*number);
  note_use();
}

int64_t EngineSession::abort_unspared() {
  const std::lock_guard lock(mutex_);
  const int64_t spared = engine_->abort_unspared();
  note_use();
  return spared;
}

void EngineSession::require_awake() const {
  if (sleeps_ == 0) return;
  throw Error(Code::kFailedPrecondition,
              str("the engine is asleep at level ", sleeps_, "; wake it first"));
}

int EngineSession::sleep_level() const {
  const std::lock_guard lock(mutex_);
  return sleeps_;
}

void EngineSession::sleep(int level) {
  if (level < 1 || level > 2) {
    throw Error(Code::kOutOfRange, str("level is ", level, ", expected 1 or 2"))
        .with_key("level")
        .with_expected("1 or 2");
  }
  const std::lock_guard turn(computing_);  // which whatever changes sleeps_ holds
  if (level <= sleep_level()) return;
  const ComputeLease lease(model_->runtime(), "putting an engine to sleep");
  const std::lock_guard lock(mutex_);
  if (level == 2) model_->drop_packed(use_.has_value());
  if (sleeps_ == 0) {
    engine_->forget_kv();
    arena_.decommit();
  }
  sleeps_ = level;
}

void EngineSession::wake() {
  const std::lock_guard turn(computing_);
  if (sleep_level() == 0) return;
  const ComputeLease lease(model_->runtime(), "waking an engine");
  const std::lock_guard lock(mutex_);
  if (sleeps_ == 2) model_->prepare_compute(LoadedModel::Weights::kPublished);
  arena_.commit();
  sleeps_ = 0;
}

bool EngineSession::idle() const {
  const std::lock_guard lock(mutex_);
  return engine_->idle();
}

EngineStats EngineSession::stats() const {
  const std::lock_guard lock(mutex_);
  return engine_->stats();
}

EngineStats EngineSession::stats(int64_t engine) const {
  const std::lock_guard lock(mutex_);
  return engine_->stats(engine);
}

std::optional<EngineStats> EngineSession::last_interval(int64_t engine) const {
  if (!keeps_intervals_) {
    throw Error(Code::kFailedPrecondition,
                "engine.stats_interval_ns is 0: the engine records no intervals")
        .with_key("engine.stats_interval_ns");
  }
  const std::lock_guard lock(mutex_);
  return engine_->last_interval(engine);
}

}  // namespace rl

// The engine counts as a user of the model while it has something to compute, even when paused.
#include "pipeline/session/engine_session.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "data/sample_document.h"

namespace rl {

EngineSession::EngineSession(std::shared_ptr<LoadedModel> model, const Settings& settings)
    : model_(std::move(model)),
      keeps_intervals_(settings.engine.stats_interval_ns != 0),
      events_(*model_, settings.engine.stream_tokens) {
  Runtime& runtime = model_->runtime();
  const MemoryPlan plan = model_->plan_session(settings, PlanUse::kGenerate);
  const uint64_t bytes = plan.kv_bytes + plan.engine_workspace_bytes;
  with_knobs(plan, [&] {
    require_room(runtime, "the engine", bytes, plan.baseline_bytes);
    arena_ = Arena("engine workspace", bytes, Touch::kNow, runtime.compute().memory());
  });
  max_model_len_ = plan.max_model_len;
  engine_ = std::make_unique<EngineSet>(
      model_->model().rollout(), plan.engine, plan.engine_memory(arena_.data()),
      model_->has_tokenizer() ? &model_->tokenizer() : nullptr, &runtime.tracer());
  if (settings.engine.thread) {
    thread_ = std::make_unique<EngineThread>([this] { return serve(); }, runtime.cpus());
  }
}

// A thread that waits to compute waits no longer.
EngineSession::~EngineSession() { end_waits(); }

// The engine is a user exactly while it has something to compute.
void EngineSession::note_use() {
  const bool uses = !engine_->nothing_runnable();
  if (uses == (use_ != nullptr)) return;
  use_ = uses ? std::make_unique<LoadedModel::UseLease>(*model_, 0) : nullptr;
}

EngineSession::Use EngineSession::use_for_submit() {
  {
    const std::lock_guard lock(mutex_);
    if (needs_no_use()) return nullptr;
  }
  return std::make_unique<LoadedModel::UseLease>(*model_);
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
                    "sample_id and it cannot be resumed"))
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

// Again if the engine had a lease when it was asked, and has come to the end of its requests since.
uint64_t EngineSession::submit(Request request, const Naming& naming) {
  for (;;) {
    Use use = use_for_submit();
    const std::lock_guard lock(mutex_);
    if (use == nullptr && !needs_no_use()) continue;
    require_no_turn(request, naming);
    return submit_locked(std::move(request), naming, std::move(use));
  }
}

uint64_t EngineSession::submit_locked(Request request, const Naming& naming, Use use) {
  if (closed_) throw Error(Code::kFailedPrecondition, "the engine was destroyed");
  identify(request, naming);
  try {
    if (use_ == nullptr && !draining_) use_ = std::move(use);
    EngineEvents::Streams streams = events_.streams_of(request);
    engine_->submit(request);
    events_.submitted(std::move(streams));
  } catch (...) {
    if (!request.resume && !naming.sample_id) {
      model_->runtime().sample_ids().give_back(request.first_sample_id, num_ids(request));
    }
    note_use();
    throw;
  }
  if (!request.resume && !naming.ordinal) ++next_request_;
  if (thread_ != nullptr) thread_->notify();
  return request.first_sample_id;
}

void EngineSession::set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
  const std::lock_guard lock(mutex_);
  collect();
  events_.set_queue(std::move(queue), source);
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
  events_.reserve(collected_.size());
  for (SamplePtr& s : collected_) {
    const auto turn = turns_.find(s->id);
    events_.finished(s, turn == turns_.end());  // a conversation goes on from its sample
    (turn != turns_.end() ? turn->second : finished_.emplace_back()) = std::move(s);
  }
  collected_.clear();
  events_.send_finished();
}

void EngineSession::tell() {
  if (!events_.on()) return;
  events_.stepped(*engine_);
  collect();
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
  for (;;) {
    Use use = use_for_submit();
    const std::lock_guard lock(mutex_);
    if (use == nullptr && !needs_no_use()) continue;
    return submit_turn_locked(std::move(turn), std::move(use));
  }
}

void EngineSession::submit_turn_locked(Request turn, Use use) {
  collect();
  const uint64_t id = turn.resume->id;
  const auto [waits, is_new] = turns_.emplace(id, nullptr);
  if (!is_new) {
    throw Error(Code::kFailedPrecondition, str("another conversation of this engine has sample_id ",
                                               id, ", and a turn with it"))
        .with_key("conversation");
  }
  try {
    submit_locked(std::move(turn), {}, std::move(use));
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

void EngineSession::end_requests(FunctionRef<void()> end) {
  const std::lock_guard lock(mutex_);
  end();
  note_use();
  tell();
}

void EngineSession::abort_all() {
  end_requests([this] { engine_->abort_all(); });
}

void EngineSession::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    end_waits();
    engine_->abort_all();
    note_use();
  }
  if (thread_ != nullptr) thread_->end();
  // A step that has its lease and waits for the state finds nothing to do, but others cannot
  // compute before it has found that out.
  const std::lock_guard turn(computing_);
}

void EngineSession::abort_request(uint64_t sample_id) {
  end_requests([&] {
    const std::optional<uint64_t> number = engine_->find(sample_id);
    if (!number) {
      throw Error(Code::kNotFound,
                  str("no unfinished sample of this engine has sample_id ", sample_id))
          .with_key("sample_id");
    }
    engine_->abort(*number);
  });
}

int64_t EngineSession::abort_unspared() {
  int64_t spared = 0;
  end_requests([&] { spared = engine_->abort_unspared(); });
  return spared;
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

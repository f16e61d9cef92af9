// The owner's calls between two steps; none computes anything.
#include "core/error.h"
#include "rollout/engine_impl.h"

namespace rl {

Engine::Engine(const Model& model, const EngineOptions& options, const KvPool& kv,
               std::byte* workspace, const Tokenizer* tokenizer, const Tracer* tracer)
    : impl_(std::make_unique<Impl>(model, options, kv, workspace, tokenizer, tracer)) {}
Engine::~Engine() = default;

uint64_t Engine::submit(const Request& request) { return impl_->submit(request); }
bool Engine::step() { return impl_->step(); }

bool Engine::abort(uint64_t number) {
  const auto found = impl_->scheduler.requests().find(number);
  if (found == impl_->scheduler.requests().end()) return false;
  impl_->abort(*found->second, impl_->clock.now_ns());
  impl_->scheduler.drop_finished();
  impl_->settle();
  return true;
}

void Engine::abort_all() {
  const int64_t now_ns = impl_->clock.now_ns();
  for (const auto& [number, active] : impl_->scheduler.requests()) impl_->abort(*active, now_ns);
  impl_->scheduler.drop_finished();
  impl_->settle();
}

void Engine::forget_kv() { impl_->scheduler.forget_computed(); }

int64_t Engine::abort_unspared() {
  int64_t spared = 0, now_ns = impl_->clock.now_ns();
  for (const auto& [number, active] : impl_->scheduler.requests()) {
    const bool goes_on = active->was_aborted(impl_->options.max_aborts);
    if (goes_on) spared += active->unfinished;
    if (!goes_on) impl_->abort(*active, now_ns);
  }
  impl_->scheduler.drop_finished();
  impl_->settle();
  return spared;
}

std::optional<uint64_t> Engine::find(uint64_t sample_id) const {
  for (const auto& [number, active] : impl_->scheduler.requests()) {
    const uint64_t index = sample_id - active->request.first_sample_id;
    const auto& all = active->sequences;
    if (index < all.size() && all[index].state != SequenceState::kFinished) return number;
  }
  return std::nullopt;
}

void Engine::set_admitting(bool on) { impl_->scheduler.set_admitting(on); }
bool Engine::nothing_runnable() const { return impl_->scheduler.nothing_runnable(); }
bool Engine::idle() const { return impl_->scheduler.idle(); }

void Engine::visit_running(FunctionRef<void(const Sample&)> visit) const {
  for (const Sequence* s : impl_->scheduler.running()) {
    if (s->sample != nullptr) visit(*s->sample);
  }
}

int64_t Engine::num_unfinished() const {
  return impl_->scheduler.num_running() + impl_->scheduler.num_waiting();
}

void Engine::free_lanes(FunctionRef<bool(uint64_t)> may_be) {
  impl_->scheduler.lanes().free_if(may_be);
}
int64_t Engine::lanes_taken() const { return impl_->scheduler.lanes().num_taken(); }
int64_t Engine::lanes_held() const { return impl_->scheduler.lanes().num_held(); }
int64_t Engine::num_begun() const { return impl_->scheduler.num_begun(); }

namespace {

bool is_across(const Sample& sample, int64_t versions) {
  uint64_t last = kUnknownVersion;
  for (const uint64_t version : sample.versions) {
    if (version == last || version == kUnknownVersion) continue;
    last = version;
    if (--versions < 0) return true;
  }
  return false;
}

}  // namespace

int64_t Engine::num_across(int64_t versions) const {
  int64_t count = 0;
  for (const auto& [number, active] : impl_->scheduler.requests()) {
    for (const Sequence& s : active->sequences) {
      const bool under_way = s.state != SequenceState::kFinished && s.sample != nullptr;
      count += under_way && is_across(*s.sample, versions);
    }
  }
  return count;
}

int64_t Engine::cached_prefix(const Request& request) const {
  if (impl_->release != impl_->model.published().release()) return 0;
  return impl_->blocks.cached_tokens(request.resume ? request.resume->ids : request.prompt);
}

// The engine's own vector keeps its capacity for the next steps.
void Engine::take_finished(std::vector<SamplePtr>& into) {
  into.insert(into.end(), impl_->finished.begin(), impl_->finished.end());
  impl_->finished.clear();
}

std::vector<SamplePtr> Engine::take_finished() {
  std::vector<SamplePtr> taken;
  take_finished(taken);
  return taken;
}

std::vector<Error> Engine::take_errors() {
  std::vector<Error> errors;
  for (const auto& n : impl_->nonfinite) {
    errors.push_back(
        Error(Code::kNonFinite, str("the logits for position ", n.position, " of ordinal ",
                                    n.ordinal, " slot ", n.slot, " are not finite"))
            .with_location(str("position ", n.position)));
  }
  impl_->nonfinite.clear();
  return errors;
}

EngineStats Engine::stats() const {
  EngineStats stats = impl_->meter.total();
  stats.running = impl_->scheduler.num_running();
  stats.waiting = impl_->scheduler.num_waiting();
  stats.started = impl_->scheduler.num_begun();
  stats.blocks_in_use = impl_->blocks.pool().num_used();
  stats.blocks_total = impl_->blocks.pool().num_blocks();
  return stats;
}

void Engine::restart_peak() { impl_->meter.restart_peak(impl_->blocks.pool().num_used()); }
std::optional<EngineStats> Engine::take_interval() { return impl_->meter.take_interval(); }
std::optional<EngineStats> Engine::last_interval() const { return impl_->meter.last_interval(); }

}  // namespace rl

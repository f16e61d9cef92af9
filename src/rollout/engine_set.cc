// A step gathers no results, so it allocates no more than a step of one engine.
#include "rollout/engine_set.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "rollout/router.h"

namespace rl {
namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T> more) {
  std::move(more.begin(), more.end(), std::back_inserter(to));
}

}  // namespace

EngineSet::EngineSet(const Model& model, const EngineOptions& options,
                     const EngineSetMemory& memory, const Tokenizer* tokenizer,
                     const Tracer* tracer)
    : slack_(affinity_slack(options.max_num_seqs)) {
  RL_CHECK(memory.num_engines > 0 && memory.kv_bytes % 64 == 0 && memory.workspace_bytes % 64 == 0);
  for (int64_t i = 0; i < memory.num_engines; ++i) {
    const auto index = static_cast<uint64_t>(i);
    EngineOptions own = options;
    own.number = i;
    own.trace_lane = engine_lane(options.trace_lane, i);
    const KvPool kv{model.kv_shape(), memory.kv + index * memory.kv_bytes, options.num_blocks};
    engines_.push_back(std::make_unique<Engine>(
        model, own, kv, memory.workspace + index * memory.workspace_bytes, tokenizer, tracer));
  }
}

size_t EngineSet::engine_for(const Request& request) const {
  if (engines_.size() == 1) return 0;
  std::vector<EngineLoad> loads;
  for (const auto& engine : engines_) {
    loads.push_back({engine->num_unfinished(), engine->cached_prefix(request)});
  }
  return route(loads, slack_);
}

uint64_t EngineSet::submit(const Request& request) {
  const size_t engine = engine_for(request);
  return engines_[engine]->submit(request) * engines_.size() + engine;
}

bool EngineSet::step() {
  for (size_t tried = 0; tried < engines_.size(); ++tried) {
    Engine& engine = *engines_[next_engine_];
    next_engine_ = (next_engine_ + 1) % engines_.size();
    if (engine.step()) return true;
  }
  return false;
}

void EngineSet::take_finished(std::vector<SamplePtr>& into) {
  const auto first = static_cast<std::ptrdiff_t>(into.size());
  for (const auto& engine : engines_) engine->take_finished(into);
  if (engines_.size() == 1) return;
  const auto earlier = [](const SamplePtr& a, const SamplePtr& b) {
    return a->finished_ns < b->finished_ns;
  };
  std::stable_sort(into.begin() + first, into.end(), earlier);
}

std::vector<SamplePtr> EngineSet::take_finished() {
  std::vector<SamplePtr> finished;
  take_finished(finished);
  return finished;
}

std::vector<Error> EngineSet::take_errors() {
  std::vector<Error> errors;
  for (const auto& engine : engines_) append(errors, engine->take_errors());
  return errors;
}

bool EngineSet::abort(uint64_t number) {
  return engines_[number % engines_.size()]->abort(number / engines_.size());
}

void EngineSet::abort_all() {
  for (const auto& engine : engines_) engine->abort_all();
}

void EngineSet::forget_kv() {
  for (const auto& engine : engines_) engine->forget_kv();
}

int64_t EngineSet::abort_unspared() {
  int64_t spared = 0;
  for (const auto& engine : engines_) spared += engine->abort_unspared();
  return spared;
}

std::optional<uint64_t> EngineSet::find(uint64_t sample_id) const {
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (const auto number = engines_[i]->find(sample_id)) return *number * engines_.size() + i;
  }
  return std::nullopt;
}

void EngineSet::set_admitting(bool admitting) {
  for (const auto& engine : engines_) engine->set_admitting(admitting);
}

bool EngineSet::nothing_runnable() const {
  for (const auto& engine : engines_) {
    if (!engine->nothing_runnable()) return false;
  }
  return true;
}

int64_t EngineSet::num_begun() const {
  int64_t count = 0;
  for (const auto& engine : engines_) count += engine->num_begun();
  return count;
}

int64_t EngineSet::num_across(int64_t versions) const {
  int64_t count = 0;
  for (const auto& engine : engines_) count += engine->num_across(versions);
  return count;
}

void EngineSet::free_lanes(FunctionRef<bool(uint64_t sample_id)> may_be) {
  for (const auto& engine : engines_) engine->free_lanes(may_be);
}

int64_t EngineSet::lanes_taken() const {
  int64_t count = 0;
  for (const auto& engine : engines_) count += engine->lanes_taken();
  return count;
}

int64_t EngineSet::lanes_held() const {
  int64_t count = 0;
  for (const auto& engine : engines_) count += engine->lanes_held();
  return count;
}

bool EngineSet::idle() const {
  for (const auto& engine : engines_) {
    if (!engine->idle()) return false;
  }
  return true;
}

void EngineSet::visit_running(FunctionRef<void(const Sample&)> visit) const {
  for (const auto& engine : engines_) engine->visit_running(visit);
}

EngineStats EngineSet::stats() const {
  EngineStats total;
  for (const auto& engine : engines_) total += engine->stats();
  return total;
}

void EngineSet::restart_peak() {
  for (const auto& engine : engines_) engine->restart_peak();
}

std::optional<std::pair<int64_t, EngineStats>> EngineSet::take_interval() {
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (auto interval = engines_[i]->take_interval()) {
      return std::pair(static_cast<int64_t>(i), *interval);
    }
  }
  return std::nullopt;
}

}  // namespace rl

// Several engines over one model, used like one: each has its own KV pool, workspace and prefix
// cache, and all read the same weights. They step in turn on the calling thread, one forward per
// call.
// Invariants:
// 1. A sample does not depend on the number of engines (contracts N1, N5).
// 2. The samples of a request are in one engine; rollout/router.h decides which.
// One owner, one thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rollout/engine.h"

namespace rl {

// The trace lane of an engine's work; `first` is the lane of engine 0.
inline uint32_t engine_lane(uint32_t first, int64_t engine) {
  constexpr uint32_t kApart = 16;  // the lanes in between belong to other subsystems
  return first + kApart * static_cast<uint32_t>(engine);
}

// Where the engines' memory is: pool and workspace of engine i start at i times the bytes of one,
// which are multiples of 64.
struct EngineSetMemory {
  int64_t num_engines = 1;
  std::byte* kv = nullptr;
  uint64_t kv_bytes = 0;  // of one engine
  std::byte* workspace = nullptr;
  uint64_t workspace_bytes = 0;  // of one engine
};

class EngineSet {
 public:
  // options apply to each engine, with num_blocks set. For the rest see Engine.
  EngineSet(const Model& model, const EngineOptions& options, const EngineSetMemory& memory,
            const Tokenizer* tokenizer, const Tracer* tracer);

  // The calls of Engine. Request numbers are unique across engines.
  uint64_t submit(const Request& request);
  bool step();
  std::vector<SamplePtr> take_finished();
  // Appends them; if it throws, each sample is either in `into` or still in its engine.
  void take_finished(std::vector<SamplePtr>& into);
  std::vector<Error> take_errors();
  bool abort(uint64_t number);
  void abort_all();
  void forget_kv();
  int64_t abort_unspared();
  std::optional<uint64_t> find(uint64_t sample_id) const;
  void set_admitting(bool admitting);
  bool nothing_runnable() const;
  bool idle() const;
  int64_t num_begun() const;
  int64_t num_across(int64_t versions) const;
  void free_lanes(FunctionRef<bool(uint64_t sample_id)> may_be);
  int64_t lanes_taken() const;  // of all engines
  int64_t lanes_held() const;
  void visit_running(FunctionRef<void(const Sample&)> visit) const;

  int64_t num_engines() const { return static_cast<int64_t>(engines_.size()); }
  EngineStats stats() const;  // summed over engines
  EngineStats stats(int64_t engine) const { return at(engine).stats(); }
  void restart_peak();
  // The engine whose interval ended, and its counts.
  std::optional<std::pair<int64_t, EngineStats>> take_interval();
  std::optional<EngineStats> last_interval(int64_t engine) const {
    return at(engine).last_interval();
  }

 private:
  const Engine& at(int64_t engine) const { return *engines_.at(static_cast<size_t>(engine)); }
  size_t engine_for(const Request& request) const;

  const int64_t slack_;
  std::vector<std::unique_ptr<Engine>> engines_;
  size_t next_engine_ = 0;  // the engine that may step next
};

}  // namespace rl

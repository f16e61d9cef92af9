// The events that only pipelines send to their hosts (event_kinds.h).
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/session/event_kinds.h"

namespace rl {

struct ScoreEvent final : Event, EventSample {
  explicit ScoreEvent(EventSample of)
      : Event(static_cast<int32_t>(EventKind::kScore)), EventSample(std::move(of)) {}
};

struct TurnEvent final : Event, EventSample {
  explicit TurnEvent(EventSample of)
      : Event(static_cast<int32_t>(EventKind::kTurn)), EventSample(std::move(of)) {}
  int64_t turn = 0;       // number of the turn in its sample, from 1
  std::string turn_text;  // what the model generated in it, like EventSample::text
};

struct GroupEvent final : Event {
  GroupEvent() : Event(static_cast<int32_t>(EventKind::kGroup)) {}
  std::vector<EventSample> samples;  // by slot
};

struct CheckpointFailedEvent final : Event {
  CheckpointFailedEvent(uint64_t after, std::string why)
      : Event(static_cast<int32_t>(EventKind::kCheckpointFailed)),
        step(after),
        message(std::move(why)) {}
  const uint64_t step;  // whose state was not saved
  const std::string message;
};

struct EvalEvent final : Event {
  EvalEvent() : Event(static_cast<int32_t>(EventKind::kEval)) {}
  uint64_t step = 0;
  uint64_t version = 0;
  double mean_reward = 0;  // over num_scored; 0 when none was scored
  int64_t num_scored = 0;
  int64_t num_failed = 0;  // failed or late
  MetricList metrics;
};

struct EngineStatsEvent final : Event {
  EngineStatsEvent() : Event(static_cast<int32_t>(EventKind::kEngineStats)) {}
  uint64_t step = 0;     // steps done
  uint64_t version = 0;  // of the weights
  int64_t engine = 0;    // number of the engine
  MetricList metrics;
};

}  // namespace rl

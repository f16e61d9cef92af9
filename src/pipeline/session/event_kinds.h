// The kinds of events, and what events of pipelines and engines have in common. An event is owned
// by whoever popped it and never changes; it may outlive the object that made it.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "core/event_queue.h"
#include "data/sample.h"

namespace rl {

// Numbers are part of the ABI.
enum class EventKind : int32_t {
  kScore = 1,       // a sample waits for its reward
  kTurn = 2,        // a sample waits for a reply to the model's turn
  kStep = 3,        // a step ended
  kEval = 4,        // an evaluation ended
  kCheckpoint = 5,  // a checkpoint is on disk
  kGroupDropped = 6,
  kEngineStats = 7,   // engine.stats_interval_ns has passed
  kGroup = 8,         // the samples of a group wait for their rewards
  kFinished = 9,      // an engine has finished a sample
  kTokens = 10,       // an engine has sampled tokens
  kEngineFailed = 11  // a step on an engine's own thread failed
};

struct EventSample {
  SamplePtr sample;         // ids, tag, ordinal, slot, purpose, finish reason, log-probs
  std::string prompt_text;  // empty without a tokenizer
  std::string text;         // of the response, without special tokens; empty without a tokenizer
};

// Events of an engine that a host has given a queue.
struct EngineEvent : Event {
  EngineEvent(EventKind kind, uint64_t source)
      : Event(static_cast<int32_t>(kind)), source(source) {}
  const uint64_t source;  // the number that the host gave the engine
};

struct FinishedEvent final : EngineEvent, EventSample {
  FinishedEvent(uint64_t source, SamplePtr of)
      : EngineEvent(EventKind::kFinished, source), EventSample{std::move(of), {}, {}} {}
};

// The sample has the tokens since the last event of its kind alone, and no prompt.
struct TokensEvent final : EngineEvent, EventSample {
  TokensEvent(uint64_t source, EventSample of)
      : EngineEvent(EventKind::kTokens, source), EventSample(std::move(of)) {}
};

struct EngineFailedEvent final : EngineEvent {
  EngineFailedEvent(uint64_t source, std::string why)
      : EngineEvent(EventKind::kEngineFailed, source), message(std::move(why)) {}
  const std::string message;
};

}  // namespace rl

// The kinds of events, and the events of engines, buffers and trainers; those that only pipelines
// send are in pipeline/loop/events.h. An event is owned by whoever popped it and does not change
// from then on; it may outlive the object that made it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/event_queue.h"
#include "data/sample.h"
#include "profile/metrics.h"

namespace rl {

// Numbers are part of the ABI.
enum class EventKind : int32_t {
  kScore = 1,       // a sample waits for its reward
  kTurn = 2,        // a sample waits for a reply to the model's turn
  kStep = 3,        // a step ended
  kEval = 4,        // an evaluation ended
  kCheckpoint = 5,  // a checkpoint is on disk
  kGroupDropped = 6,
  kEngineStats = 7,    // engine.stats_interval_ns has passed
  kGroup = 8,          // the samples of a group wait for their rewards
  kFinished = 9,       // an engine has finished a sample
  kTokens = 10,        // an engine has sampled tokens
  kEngineFailed = 11,  // a step on an engine's own thread failed
  kGroups = 12,        // complete groups wait in a buffer
  kPublished = 13,     // a trainer has published weights
  kCheckpointFailed = 14
};

struct EventSample {
  SamplePtr sample;         // ids, tag, ordinal, slot, purpose, finish reason, log-probs
  std::string prompt_text;  // empty without a tokenizer
  std::string text;         // of the response, without special tokens; empty without a tokenizer
};

// Events of an engine that a host has given a queue.
struct EngineEvent : Event {
  EngineEvent(EventKind kind, uint64_t source) : Event(static_cast<int32_t>(kind), source) {}
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

// Of a sender that leaves events out while too many are unread (event_sender.h).
struct LimitedEvent : Event {
  LimitedEvent(EventKind kind, uint64_t source) : Event(static_cast<int32_t>(kind), source) {}
  void leave_queue() noexcept override {
    if (unread != nullptr) --*unread;
  }

  std::shared_ptr<std::atomic<int64_t>> unread;  // the sender's count; null: without a limit
  uint64_t num_left_out = 0;                     // events of the sender, since the one before
};

struct StepEvent final : LimitedEvent {
  explicit StepEvent(uint64_t source = 0) : LimitedEvent(EventKind::kStep, source) {}
  uint64_t step = 0;     // steps done, including this one
  uint64_t version = 0;  // of the weights
  MetricList metrics;
};

struct CheckpointEvent final : LimitedEvent {
  explicit CheckpointEvent(uint64_t source = 0) : LimitedEvent(EventKind::kCheckpoint, source) {}
  uint64_t step = 0;
  std::string path;
};

struct GroupDroppedEvent final : LimitedEvent {
  explicit GroupDroppedEvent(uint64_t source = 0)
      : LimitedEvent(EventKind::kGroupDropped, source) {}
  Purpose purpose = Purpose::kTrain;  // evaluations count their ordinals separately
  uint64_t ordinal = 0;
  int64_t data_row = -1;
  DropReason reason = DropReason::kNone;
  std::string message;
};

struct PublishedEvent final : LimitedEvent {
  explicit PublishedEvent(uint64_t source = 0) : LimitedEvent(EventKind::kPublished, source) {}
  uint64_t step = 0;     // steps of the trainer
  uint64_t version = 0;  // of the weights
};

// Complete groups wait in a buffer. Of a buffer at most one is unread.
struct GroupsEvent final : Event {
  // What the buffer and its unread event share. Invariant: whoever finds `unread` true has stored
  // `whole` before the event reads it.
  struct State {
    std::atomic<bool> unread = false;
    std::atomic<int64_t> whole = 0;  // complete groups now
  };
  GroupsEvent(uint64_t source, std::shared_ptr<State> of)
      : Event(static_cast<int32_t>(EventKind::kGroups), source), state(std::move(of)) {}
  void leave_queue() noexcept override {
    state->unread = false;
    count = state->whole;
  }

  const std::shared_ptr<State> state;
  int64_t count = 0;  // complete groups as the event left its queue
};

}  // namespace rl

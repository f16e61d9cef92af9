// What an engine tells the host through an event queue: each sample that has finished and, if
// engine.stream_tokens is set, its tokens as they are sampled. Used under the engine's lock.
// Invariant: the tokens of a sample's events are, one event after the other, those that its
// request sampled, and its kFinished comes after them.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/session/event_kinds.h"
#include "pipeline/session/loaded_model.h"
#include "rollout/engine_set.h"
#include "text/detokenizer.h"

namespace rl {

class EngineEvents {
 public:
  // stream_tokens: tokens of an event, or 0 for no such events.
  EngineEvents(const LoadedModel& model, int64_t stream_tokens)
      : model_(model), stream_tokens_(stream_tokens) {}

  // Events go there from now on, with this number; null: nowhere. Samples submitted before tell no
  // tokens.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source);
  bool on() const { return queue_ != nullptr; }

  // The tokens of a sample that no event has told yet.
  struct Stream {
    int64_t sent;  // ids that need no event any more
    std::optional<Detokenizer> text;
  };
  using Streams = std::map<uint64_t, Stream>;  // by id of the sample
  // The streams of a request, made before it is submitted, since nothing may fail afterwards. None
  // for one with more samples than an engine accepts.
  Streams streams_of(const Request& request) const;
  // The request was accepted.
  void submitted(Streams streams) noexcept;
  // A step has ended.
  void stepped(const EngineSet& engine);
  // Room for so many calls of finished(), which then do not fail.
  void reserve(size_t samples);
  // A sample has finished. kept: nobody changes it from now on; otherwise its event has a copy.
  void finished(const SamplePtr& sample, bool kept) noexcept;
  // Sends the events of finished samples. If memory runs out, those that are left are sent by the
  // next call.
  void send_finished();
  void failed(const std::string& why);

 private:
  struct Finished {
    SamplePtr sample;
    bool kept;
  };
  void send_tokens(const Sample& sample, Stream& stream, bool last);
  std::string text_of(std::span<const int32_t> ids, Stream& stream, bool last) const;

  const LoadedModel& model_;
  const int64_t stream_tokens_;
  std::shared_ptr<EventQueue> queue_;
  uint64_t source_ = 0;
  Streams streams_;                 // of unfinished samples
  std::vector<Finished> finished_;  // whose events are to be sent
};

}  // namespace rl

// The text of a token that ends within a character comes with the token that completes it.
#include "pipeline/session/engine_events.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/sample_document.h"

namespace rl {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";  // for an id without a token

// The tokens from ids[begin] on, as a sample without a prompt.
SamplePtr piece_of(const Sample& from, int64_t begin) {
  auto piece = std::make_shared<Sample>();
  piece->id = from.id;
  piece->ordinal = from.ordinal;
  piece->slot = from.slot;
  piece->temperature = from.temperature;
  const auto take = [](const auto& all, auto& into, int64_t first) {
    into.assign(all.begin() + first, all.end());
  };
  const int64_t first = begin - from.prompt_tokens;
  take(from.ids, piece->ids, begin);
  take(from.logprobs, piece->logprobs, first);
  take(from.logprobs_sampled, piece->logprobs_sampled, first);
  take(from.versions, piece->versions, first);
  take(from.loss_mask, piece->loss_mask, first);
  return piece;
}

}  // namespace

void EngineEvents::set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
  queue_ = std::move(queue);
  source_ = source;
  streams_.clear();
}

EngineEvents::Streams EngineEvents::streams_of(const Request& request) const {
  Streams streams;
  if (!on() || stream_tokens_ == 0) return streams;
  if (request.num_samples > static_cast<int64_t>(kMaxGroupSamples)) return streams;
  const std::vector<int32_t>& ids = request.resume ? request.resume->ids : request.prompt;
  for (int64_t i = 0; i < request.num_samples; ++i) {
    Stream stream{static_cast<int64_t>(ids.size()), std::nullopt};
    if (model_.has_tokenizer()) stream.text.emplace(model_.tokenizer(), true);
    streams.emplace(request.first_sample_id + static_cast<uint64_t>(i), std::move(stream));
  }
  return streams;
}

void EngineEvents::submitted(Streams streams) noexcept {
  for (const auto& [id, stream] : streams) streams_.erase(id);
  streams_.merge(streams);
}

void EngineEvents::stepped(const EngineSet& engine) {
  if (!on() || streams_.empty()) return;
  engine.visit_running([&](const Sample& sample) {
    const auto found = streams_.find(sample.id);
    if (found == streams_.end()) return;
    const int64_t count = static_cast<int64_t>(sample.ids.size()) - found->second.sent;
    if (count >= stream_tokens_) send_tokens(sample, found->second, false);
  });
}

std::string EngineEvents::text_of(std::span<const int32_t> ids, Stream& stream, bool last) const {
  std::string text;
  if (!stream.text) return text;
  for (const int32_t id : ids) {
    text += model_.tokenizer().has_token(id) ? stream.text->feed(id) : kReplacement;
  }
  if (last) text += stream.text->finish();
  return text;
}

void EngineEvents::send_tokens(const Sample& sample, Stream& stream, bool last) {
  EventSample piece{piece_of(sample, stream.sent), {}, {}};
  piece.text = text_of(piece.sample->ids, stream, last);
  stream.sent = static_cast<int64_t>(sample.ids.size());
  queue_->push(std::make_shared<TokensEvent>(source_, std::move(piece)));
}

void EngineEvents::reserve(size_t samples) {
  const size_t needed = finished_.size() + samples;
  if (on() && needed > finished_.capacity()) {
    finished_.reserve(std::max(needed, 2 * finished_.capacity()));
  }
}

void EngineEvents::finished(const SamplePtr& sample, bool kept) noexcept {
  if (on()) finished_.push_back({sample, kept});
}

void EngineEvents::send_finished() {
  size_t sent = 0;
  const auto drop_sent = [&] {
    finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(sent));
  };
  try {
    for (; on() && sent < finished_.size(); ++sent) {
      const auto& [sample, kept] = finished_[sent];
      if (const auto found = streams_.find(sample->id); found != streams_.end()) {
        if (static_cast<int64_t>(sample->ids.size()) > found->second.sent) {
          send_tokens(*sample, found->second, true);
        }
        streams_.erase(found);
      }
      queue_->push(std::make_shared<FinishedEvent>(
          source_, kept ? sample : std::make_shared<Sample>(*sample)));
    }
  } catch (...) {
    drop_sent();
    throw;
  }
  sent = finished_.size();
  drop_sent();
}

void EngineEvents::failed(const std::string& why) {
  if (on()) queue_->push(std::make_shared<EngineFailedEvent>(source_, why));
}

}  // namespace rl

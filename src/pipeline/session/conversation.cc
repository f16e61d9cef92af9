// A turn is a request that resumes the sample; its end is noticed on the next call.
#include "pipeline/session/conversation.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/error.h"
#include "rollout/request_check.h"
#include "rollout/sample_edit.h"
#include "rollout/sequence.h"

namespace rl {

struct Conversation::Members {
  uint64_t ordinal = 0;
  std::atomic<uint32_t> next_slot{0};
};

namespace {

// name: what the interface calls them.
void check_added(const EngineSession& engine, int64_t before, std::span<const int32_t> ids,
                 const char* name) {
  if (ids.empty()) {
    throw Error(Code::kInvalidArgument, "no tokens are given").with_key(name);
  }
  check_ids(name, ids, engine.vocab());
  const int64_t room = engine.max_model_len() - before;
  if (static_cast<int64_t>(ids.size()) <= room) return;
  throw Error(Code::kOutOfRange, str(ids.size(), " tokens after ", before,
                                     " exceed engine.max_model_len ", engine.max_model_len()))
      .with_key(name)
      .with_expected(str("at most ", room, " tokens"));
}

// Before the model's first turn, the sample gets the settings that all its log-probs will share.
void adopt(Sample& s, const SamplingParams& params) {
  if (std::count(s.loss_mask.begin(), s.loss_mask.end(), 1) > 0) return;
  s.temperature = stored_temperature(params);
  s.num_top = static_cast<uint32_t>(params.top_logprobs);
  s.top_ids.assign(s.loss_mask.size() * s.num_top, -1);
  s.top_logprobs.assign(s.loss_mask.size() * s.num_top, 0.0f);
}

}  // namespace

Conversation::Conversation(std::shared_ptr<EngineSession> engine, std::span<const int32_t> prompt,
                           const EngineSession::Naming& naming, std::string tag)
    : engine_(std::move(engine)),
      group_(std::make_shared<Members>()),
      sample_(std::make_shared<Sample>()) {
  check_added(*engine_, 0, prompt, "prompt.ids");
  const auto [ordinal, id] = engine_->new_identity(naming);
  group_->ordinal = ordinal;
  sample_->id = id;
  sample_->ordinal = ordinal;
  sample_->slot = group_->next_slot++;
  sample_->tag = std::move(tag);
  sample_->ids.assign(prompt.begin(), prompt.end());
  sample_->prompt_tokens = static_cast<int32_t>(prompt.size());
}

Conversation::Conversation(std::shared_ptr<EngineSession> engine, std::shared_ptr<Members> group,
                           const Sample& start)
    : engine_(std::move(engine)),
      group_(std::move(group)),
      sample_(std::make_shared<Sample>(start)) {
  sample_->id = engine_->new_sample_id();
  sample_->slot = group_->next_slot++;
}

Conversation::~Conversation() {
  try {
    end();
  } catch (...) {
    // The turn then ends with its engine.
  }
}

void Conversation::end() {
  const std::lock_guard lock(mutex_);
  if (generating_) engine_->drop_turn(sample_->id);
  generating_ = false;
}

// Takes the sample of a turn that has ended.
void Conversation::settle() const {
  if (!generating_) return;
  SamplePtr ended = engine_->take_turn(sample_->id);
  if (ended == nullptr) return;
  sample_ = std::move(ended);
  generating_ = false;
  ++turns_;
}

void Conversation::require_ready() const {
  settle();
  if (!generating_) return;
  throw Error(Code::kFailedPrecondition, str("the conversation of sample ", sample_->id,
                                             " is generating; it waits for steps of its engine"))
      .with_key("conversation");
}

std::shared_ptr<Conversation> Conversation::fork() const {
  const std::lock_guard lock(mutex_);
  require_ready();
  std::shared_ptr<Conversation> other(new Conversation(engine_, group_, *sample_));
  other->turns_ = turns_;
  return other;
}

void Conversation::append(std::span<const int32_t> ids) {
  const std::lock_guard lock(mutex_);
  require_ready();
  check_added(*engine_, static_cast<int64_t>(sample_->ids.size()), ids, "content.ids");
  for (const int32_t id : ids) append_given(*sample_, id);
}

void Conversation::generate(Request sampling) {
  const std::lock_guard lock(mutex_);
  require_ready();
  adopt(*sample_, sampling.sampling);
  sampling.prompt.clear();
  sampling.num_samples = 1;
  sampling.resume = std::make_shared<Sample>(*sample_);
  engine_->submit_turn(std::move(sampling));
  generating_ = true;
}

ConversationInfo Conversation::info() const {
  const std::lock_guard lock(mutex_);
  settle();
  const Sample& s = *sample_;
  return {.sample_id = s.id,
          .ordinal = s.ordinal,
          .slot = s.slot,
          .generating = generating_,
          .num_ids = static_cast<int64_t>(s.ids.size()),
          .turns = turns_,
          .finish = s.finish};
}

SamplePtr Conversation::sample() const {
  const std::lock_guard lock(mutex_);
  require_ready();
  return std::make_shared<Sample>(*sample_);
}

}  // namespace rl

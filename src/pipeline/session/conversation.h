// A conversation: one sample whose tokens come alternately from the model and from its
// environment. Ids are kept exactly as sampled or as the host gave them; nothing is tokenised
// again. Tokens of the environment carry no loss, log-probs of 0 and no version.
// Invariants:
// 1. While a turn of the model is generated the conversation does not change; afterwards it has
//    the turn's tokens, all of them or those sampled before an abort.
// 2. Conversations of one group share an ordinal and have different slots, so their random numbers
//    are independent.
// Keys and values are in the engine's prefix cache only: kept while nobody else needs the blocks.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "pipeline/session/engine_session.h"

namespace rl {

struct ConversationInfo {
  uint64_t sample_id = 0, ordinal = 0;
  uint32_t slot = 0;
  bool generating = false;  // the rest then describes the state before the turn
  int64_t num_ids = 0, turns = 0;
  FinishReason finish = FinishReason::kNone;  // of the last turn
};

class Conversation {
 public:
  // Starts with a prompt, as the first conversation of a group. The tag is for all of the group.
  Conversation(std::shared_ptr<EngineSession> engine, std::span<const int32_t> prompt,
               const EngineSession::Naming& naming = {}, std::string tag = {});
  ~Conversation();  // end()
  Conversation(const Conversation&) = delete;

  // While a turn is generated, calls that need or change the tokens are
  // Error(kFailedPrecondition).

  // Another conversation of the group, in the next slot, with the tokens so far.
  std::shared_ptr<Conversation> fork() const;
  // Appends tokens of the environment.
  void append(std::span<const int32_t> ids);
  // Queues a turn of the model; `sampling` holds the request's fields except its start. All turns
  // of a conversation have the same temperature and number of top ids.
  void generate(Request sampling);
  ConversationInfo info() const;
  // A copy, without a reward.
  SamplePtr sample() const;
  // Aborts a turn under way; its tokens are dropped.
  void end();

 private:
  struct Members;
  Conversation(std::shared_ptr<EngineSession> engine, std::shared_ptr<Members> group,
               const Sample& start);
  void settle() const;
  void require_ready() const;

  const std::shared_ptr<EngineSession> engine_;
  const std::shared_ptr<Members> group_;
  mutable std::mutex mutex_;
  mutable SamplePtr sample_;
  mutable bool generating_ = false;
  mutable int64_t turns_ = 0;
};

}  // namespace rl

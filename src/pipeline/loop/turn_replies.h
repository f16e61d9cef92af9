// Which turns of the model ask the host for a reply (pipeline.turns), and the replies on their way
// to the engine. A sample with its reply is a copy: the host may still read the sample of the
// event. Tokens of a reply have no loss, log-probs of 0 and no version, as in a conversation.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/sample.h"
#include "pipeline/groups/score_board.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

class TurnReplies {
 public:
  struct Answered {
    SamplePtr sample;     // with the reply
    bool finish = false;  // the sample has no further turn
  };

  TurnReplies(Control& control, LoadedModel& model);

  // For the host: see Pipeline. board: of the sample.
  void reply(ScoreBoard& board, const Reply& reply);
  // A reply that the first of several ranks was given. Called under control's lock.
  void apply(ScoreBoard& board, const ScheduledEvent& input);

  // Whether a sample that the engine has just finished asks for a reply.
  bool asks(const ScoreBoard& board, const Sample& sample, const Control::Lock& lock) const;
  bool empty(const Control::Lock&) const { return answered_.empty(); }
  std::vector<Answered> take(const Control::Lock&);
  int64_t max_model_len() const { return max_model_len_; }

 private:
  std::vector<int32_t> ids_of(const Reply& reply) const;
  void require_room(const Sample& sample, size_t num_ids) const;
  void go_on(ScoreBoard& board, const Sample& asked, std::span<const int32_t> ids);

  Control& control_;
  LoadedModel& model_;
  const PipelineTurns turns_;  // fixed at creation
  const int64_t max_model_len_;
  std::vector<Answered> answered_;  // in the order of the replies
};

}  // namespace rl

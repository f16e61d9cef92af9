// Text is encoded outside the lock.
#include "pipeline/loop/turn_replies.h"

#include <utility>

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "rollout/request_check.h"
#include "rollout/sample_edit.h"

namespace rl {

TurnReplies::TurnReplies(Control& control, LoadedModel& model)
    : control_(control),
      model_(model),
      turns_(control.settings().pipeline.turns),
      max_model_len_(effective_model_len(control.settings(), model.config().max_position)) {}

std::vector<int32_t> TurnReplies::ids_of(const Reply& reply) const {
  if (reply.text) {
    return model_
        .encode(*reply.text,
                {.add_special = reply.add_special, .allow_special = reply.allow_special})
        .ids;
  }
  check_ids("ids", reply.ids, model_.config().vocab);
  return {reply.ids.begin(), reply.ids.end()};
}

// For the reply and one token of the model.
void TurnReplies::require_room(const Sample& sample, size_t num_ids) const {
  const int64_t room = max_model_len_ - static_cast<int64_t>(sample.ids.size()) - 1;
  if (static_cast<int64_t>(num_ids) <= room) return;
  throw Error(Code::kOutOfRange, str("a reply of ", num_ids, " tokens to sample ", sample.id,
                                     " of ", sample.ids.size(), " leaves no token within ",
                                     "engine.max_model_len ", max_model_len_))
      .with_key("ids")
      .with_expected(str("at most ", room, " tokens, or finish"));
}

void TurnReplies::reply(ScoreBoard& board, const Reply& reply) {
  if (turns_ == PipelineTurns::kNone) {
    throw Error(Code::kFailedPrecondition, "pipeline.turns is none, so no sample asks for a reply")
        .with_key("pipeline.turns");
  }
  const std::vector<int32_t> ids = ids_of(reply);
  if (ids.empty() != reply.finish) {
    throw Error(Code::kInvalidArgument,
                reply.finish ? "a reply that finishes its sample has tokens"
                             : "a reply has no tokens and does not finish its sample")
        .with_key("ids");
  }
  {
    const Control::Lock lock = control_.lock();
    const Sample& asked =
        board.turn(reply.sample_id, reply.turn, model_.runtime().clock().now_ns());
    if (!reply.finish) require_room(asked, ids.size());
    go_on(board, asked, ids);
    std::vector<uint64_t> numbers = {reply.sample_id};
    numbers.insert(numbers.end(), ids.begin(), ids.end());
    control_.schedule(lock).input(ScheduledKind::kReply, std::move(numbers));
  }
  control_.notify();
}

// Without ids the sample ends.
void TurnReplies::go_on(ScoreBoard& board, const Sample& asked, std::span<const int32_t> ids) {
  auto next = std::make_shared<Sample>(asked);
  for (const int32_t id : ids) append_given(*next, id);
  board.go_on(asked.id);
  answered_.push_back({std::move(next), ids.empty()});
}

void TurnReplies::apply(ScoreBoard& board, const ScheduledEvent& input) {
  constexpr int64_t kNoTime = 0;
  if (input.numbers.empty()) throw Error(Code::kDataLoss, "the event is not a reply");
  const std::vector<int32_t> ids(input.numbers.begin() + 1, input.numbers.end());
  check_ids("ids", ids, model_.config().vocab);
  go_on(board, board.turn(input.numbers[0], 0, kNoTime), ids);
}

// A turn that leaves no room for a reply and a token after it is the last one.
bool TurnReplies::asks(const ScoreBoard& board, const Sample& sample, const Control::Lock&) const {
  if (turns_ == PipelineTurns::kNone) return false;
  const bool ended = turns_ == PipelineTurns::kAlways ? sample.finish != FinishReason::kAborted
                                                      : sample.finish == FinishReason::kStopString;
  if (!ended || board.is_dropped(sample.ordinal)) return false;
  if (static_cast<int64_t>(sample.ids.size()) + 2 > max_model_len_) return false;
  const int64_t most = control_.settings().pipeline.max_turns;
  return most == 0 || board.turns(sample) + 1 < most;
}

std::vector<TurnReplies::Answered> TurnReplies::take(const Control::Lock&) {
  return std::exchange(answered_, {});
}

}  // namespace rl

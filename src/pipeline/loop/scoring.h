// The groups of a run from their submission to the end of their step: those of steps and those of
// evaluations have a score board each. Finished samples are scored by the host, through an event,
// or by the run's reward model; a turn that asks the host for a reply is not the end of its sample.
// The groups of a step that are scored and kept are committed to the experience buffer, one by one,
// until the update takes them. Boards and buffer change under Control's lock; the loop's thread
// calls what is not for the host.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/experience_buffer.h"
#include "core/function_ref.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/events.h"
#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/score_board.h"
#include "pipeline/loop/turn_replies.h"
#include "pipeline/prompts/prompt_row.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

class Scoring {
 public:
  Scoring(Control& control, LoadedModel& model, const PhaseArena& phases);

  // For the host: see Pipeline.
  void score(const Score& score);
  void fail(uint64_t sample_id, std::string_view reason);
  void reply(const Reply& reply) { turns_.reply(board_of(reply.sample_id), reply); }
  int64_t unscored(const Control::Lock&) const { return board_.unscored() + evals_.unscored(); }
  int64_t unreplied(const Control::Lock&) const { return board_.unreplied() + evals_.unreplied(); }
  // Of the steps.
  const LedgerCounts& ledger(const Control::Lock&) const { return board_.ledger().counts(); }

  // Before a run that resumes.
  void restore(const RunState& state);

  int64_t group_size(Purpose purpose) const { return board(purpose).group_size(); }
  uint64_t sample_id(Purpose purpose, uint64_t ordinal, uint32_t slot) const {
    return board(purpose).sample_id(ordinal, slot);
  }
  // A group is about to be generated.
  void open(Purpose purpose, uint64_t ordinal, const Prompt& prompt);
  // A group of a step whose responses are given: it needs no scores, and is committed.
  void add_given(uint64_t ordinal, const Prompt& prompt);
  // The samples that the engine has finished wait for a reward or a reply from now on; one with
  // non-finite logits drops its group.
  void deliver(Purpose purpose);
  // Whether samples wait for a reply, or to be generated on after one.
  bool has_turns(Purpose purpose) const;
  // The samples that are generated on, with their replies. Those that the host finished wait for a
  // reward.
  std::vector<SamplePtr> take_replies(Purpose purpose);
  // Waits for a reply, the deadline of one, pause or stop.
  void await_reply(Purpose purpose);
  int64_t max_model_len() const { return turns_.max_model_len(); }
  // Waits until every open group is complete, with the loop in this state. False if the loop is to
  // end first.
  bool run(PipelineState state, Purpose purpose);

  // Commits each complete group of a step to the buffer, or drops it with kFiltered if why_dropped
  // returns a reason for its rewards. Returns how many were dropped.
  int64_t commit_groups(FunctionRef<std::string(std::span<const double> rewards)> why_dropped);
  // Drops groups from the buffer with kFiltered: filter returns, for a batch of all that it holds,
  // those to drop. Returns how many.
  struct Rejected {
    uint64_t ordinal;
    std::string why;
  };
  using Filter = FunctionRef<std::vector<Rejected>(std::span<const SamplePtr>)>;
  int64_t drop_filtered(Filter filter);
  // Takes the groups that the buffer holds, by (ordinal, slot), for a step that trains on them.
  std::vector<SamplePtr> take_batch();
  // The step was undone: its groups return to the buffer.
  void give_back(std::vector<SamplePtr> batch);
  // Ends the groups taken: as trained on, or as dropped because no weight changed.
  void commit_batch(const Control::Lock&) { board_.commit(); }
  void drop_batch(DropReason reason, std::string_view why, const Control::Lock&) {
    board_.abandon(reason, {}, why);
  }
  // Takes the groups of an evaluation, which are complete, by (ordinal, slot), and ends them.
  std::vector<SamplePtr> take_evaluated();
  // Nothing is open: forgets the rows of the groups that were.
  void clear_rows() { rows_.clear(); }
  // Groups dropped so far in the run.
  int64_t num_dropped(Purpose purpose) const;
  // Sends an event for each group dropped since the last call.
  void push_dropped();

  // The host stops the run: ends the engine's requests and every open group.
  void shut_down();
  // The run failed: ends every open group, so that later scores are late. A violated invariant of
  // the ledger may be the failure itself, so a second one is ignored.
  void close(const Control::Lock&) noexcept;

 private:
  ScoreBoard& board(Purpose purpose) { return purpose == Purpose::kEval ? evals_ : board_; }
  const ScoreBoard& board(Purpose purpose) const {
    return purpose == Purpose::kEval ? evals_ : board_;
  }
  ScoreBoard& board_of(uint64_t sample_id) { return evals_.owns(sample_id) ? evals_ : board_; }
  int64_t now() const { return model_.runtime().clock().now_ns(); }
  int64_t deadline_from_now(int64_t timeout_ns) const;
  bool wait(Purpose purpose);
  void settle(ScoreBoard& to, const SamplePtr& sample, bool may_ask);
  std::vector<SamplePtr> await_score(ScoreBoard& to, const SamplePtr& sample);
  EventSample event_sample(const SamplePtr& sample) const;
  void send_turn_event(const SamplePtr& sample, int64_t turn);
  void send_score_events(const std::vector<SamplePtr>& samples);
  void refuse_scores() const;
  void require_parts(uint64_t sample_id, size_t num_parts) const;
  void require_token_rewards(uint64_t sample_id) const;
  void score_with_reward_model(ScoreBoard& of);
  void push_dropped(std::vector<ScoreBoard::Dropped>& dropped, Purpose purpose);
  void commit_group(uint64_t ordinal) { buffer_.put_all(board_.hand_over(ordinal)); }

  Control& control_;
  LoadedModel& model_;
  const PhaseArena& phases_;
  ScoreBoard board_, evals_;
  TurnReplies turns_;
  ExperienceBuffer buffer_;          // scored and kept groups of steps
  std::map<uint64_t, Prompt> rows_;  // of the groups being generated, by ordinal; without ids
};

}  // namespace rl

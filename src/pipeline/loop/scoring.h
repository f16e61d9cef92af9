// The groups of a run from their submission to the end of their step: those of steps and those of
// evaluations have a score board each, and those of steps a buffer (GroupStore). Finished samples
// are scored by the host, through an event, or by the run's reward model; a turn that asks the host
// for a reply is not the end of its sample. Boards and buffer change under Control's lock; the
// loop's thread calls what is not for the host.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "pipeline/groups/board_schedule.h"
#include "pipeline/groups/group_store.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/events.h"
#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/run_state.h"
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
  void reply(const Reply& reply);
  int64_t unscored(const Control::Lock&) const {
    return steps_.board().unscored() + evals_.unscored();
  }
  int64_t unreplied(const Control::Lock&) const {
    return steps_.board().unreplied() + evals_.unreplied();
  }
  // Of the steps.
  const LedgerCounts& ledger(const Control::Lock&) const {
    return steps_.board().ledger().counts();
  }

  // Before a run that resumes. Of several ranks the first counts on what all have done.
  void restore(const RunState& state, bool counts_on);
  // The same in the middle of a replay: whatever is open is forgotten.
  void begin_again(const RunState& state);
  // What a recorded host or clock did, or those of another rank. Called under control's lock.
  void apply(const ScheduledEvent& input);

  int64_t group_size(Purpose purpose) const { return board(purpose).group_size(); }
  uint64_t sample_id(Purpose purpose, uint64_t ordinal, uint32_t slot) const {
    return board(purpose).sample_id(ordinal, slot);
  }
  // A group is about to be generated. steps_done: when its prompt was drawn.
  void open(Purpose purpose, uint64_t ordinal, const Prompt& prompt, int64_t steps_done);
  // A group of a step whose responses are given: it needs no scores, and is committed.
  void add_given(uint64_t ordinal, const Prompt& prompt);
  // A group of a step that another process has generated and scored: it is complete.
  void add_stored(uint64_t ordinal, std::span<const SamplePtr> group, int64_t steps_done);
  // The samples that the engine has finished wait for a reward or a reply from now on; one with
  // non-finite logits drops its group.
  void deliver(Purpose purpose);
  // Whether samples wait for a reply, or to be generated on after one.
  bool has_turns(Purpose purpose) const;
  // Whether some of them can be generated on.
  bool has_replies() const;
  // The samples that are generated on, with their replies. Those that the host finished wait for a
  // reward.
  std::vector<SamplePtr> take_replies(Purpose purpose);
  // Waits for a reply, the deadline of one, pause or stop.
  void await_reply(Purpose purpose);
  int64_t max_model_len() const { return turns_.max_model_len(); }
  // Waits until every open group is complete, with the loop in this state. False if the loop is to
  // end first.
  bool run(PipelineState state, Purpose purpose);
  // Frees the lanes of samples that wait for no reward any more.
  void free_lanes();
  // Drops groups whose deadline has passed, and notifies. Whether every open group is complete.
  bool decide(Purpose purpose);
  // The next deadline of a sample of a step.
  std::optional<int64_t> next_expiry(const Control::Lock&) const {
    return steps_.board().next_expiry();
  }
  // The groups of steps that no step has taken.
  FlowGroups groups();
  // The same, for who may not act on what has changed.
  FlowGroups groups(const Control::Lock&) const { return steps_.board().waiting_groups(); }
  // Those that are open, in order.
  std::vector<uint64_t> open_ordinals(const Control::Lock&) const {
    return steps_.board().ledger().open_ordinals();
  }
  // Cancels the groups of steps that are being generated and were drawn before so many steps were
  // done.
  void cancel_drawn_before(int64_t steps_done);

  // For steps: what GroupStore does.
  FlowJudged commit_groups(FunctionRef<std::string(std::span<const double> rewards)> why_dropped);
  int64_t drop_filtered(int64_t max_groups, GroupStore::Filter filter);
  int64_t drop_older_than(uint64_t version);
  std::vector<SamplePtr> take_batch(uint64_t step, int64_t max_groups);
  void give_back(std::vector<SamplePtr> batch);
  // Ends the groups taken: as trained on, or as dropped because no weight changed.
  void commit_batch(const Control::Lock&) { steps_.board().commit(); }
  void drop_batch(DropReason reason, std::string_view why, const Control::Lock&) {
    steps_.board().drop_reserved(reason, why);
  }
  // Takes the groups of an evaluation, which are complete, by (ordinal, slot), and ends them.
  std::vector<SamplePtr> take_evaluated();
  bool is_open(uint64_t ordinal) const;  // of a step
  // Forgets the rows of groups that are not being generated any more.
  void forget_rows();
  // Groups dropped so far in the run.
  int64_t num_dropped(Purpose purpose) const;
  // Sends an event for each group dropped since the last call. Whether there was one.
  bool push_dropped();

  // The host stops the run: ends the engine's requests and every open group.
  void shut_down();
  // The run failed: ends every open group, so that later scores are late. A violated invariant of
  // the ledger may be the failure itself, so a second one is ignored.
  void close(const Control::Lock&) noexcept;

 private:
  ScoreBoard& board(Purpose purpose) { return purpose == Purpose::kEval ? evals_ : steps_.board(); }
  const ScoreBoard& board(Purpose purpose) const {
    return purpose == Purpose::kEval ? evals_ : steps_.board();
  }
  ScoreBoard& board_of(uint64_t sample_id) {
    return evals_.owns(sample_id) ? evals_ : steps_.board();
  }
  int64_t now() const { return model_.runtime().clock().now_ns(); }
  int64_t deadline_from_now(int64_t timeout_ns) const;
  bool wait(Purpose purpose);
  void await_input(uint64_t seen, const ScoreBoard& of);
  void settle(ScoreBoard& to, const SamplePtr& sample, bool may_ask);
  std::vector<SamplePtr> await_score(ScoreBoard& to, const SamplePtr& sample);
  EventSample event_sample(const SamplePtr& sample) const;
  void send_turn_event(const SamplePtr& sample, int64_t turn);
  void send_score_events(const std::vector<SamplePtr>& samples);
  void refuse_on_other_ranks() const;
  void refuse_scores() const;
  void require_parts(uint64_t sample_id, size_t num_parts) const;
  void require_token_rewards(uint64_t sample_id) const;
  void score_with_reward_model(ScoreBoard& of);
  void push_dropped(std::vector<ScoreBoard::Dropped>& dropped, Purpose purpose);

  Control& control_;
  LoadedModel& model_;
  const PhaseArena& phases_;
  BoardSchedule schedule_;  // outlives the boards
  GroupStore steps_;
  ScoreBoard evals_;
  TurnReplies turns_;
  std::map<uint64_t, Prompt> rows_;  // of the groups being generated, by ordinal; without ids
};

}  // namespace rl

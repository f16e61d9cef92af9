// The rollout of a pipeline: what its producer does (pipeline/flow), by prompts, engine, scores and
// filters. The host's pause and stop take effect before each forward and in each wait. In the role
// train its groups come from a store; in the role rollout they go to one as soon as they are
// complete, so that no step ever takes any. Of several ranks the first one has that store. The
// loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "pipeline/flow/ports.h"
#include "pipeline/loop/control.h"
#include "pipeline/loop/generation.h"
#include "pipeline/loop/group_filter.h"
#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/prompt_supply.h"
#include "pipeline/loop/run_state.h"
#include "pipeline/loop/scoring.h"
#include "pipeline/loop/step_record.h"
#include "pipeline/ranks/rank_batches.h"
#include "pipeline/roles/run_role.h"

namespace rl {

class RolloutDriver final : public RolloutPort, public WaitPort {
 public:
  struct Uses {
    Control& control;
    LoadedModel& model;
    const PhaseArena& phases;
    PromptSupply& prompts;
    Scoring& scoring;
    Generation& generation;
    RunProgress& progress;
  };
  RolloutDriver(const Uses& uses, RunRole role);

  // Of the ranks of a run over a store.
  const FirstRank& first() const { return role_.first; }
  // Whether groups come from a store, which one trainer at a time has.
  bool claims() const { return role_.claims != nullptr; }
  // Of such a run, before it: waits until no other trainer has the store. False if the host ends
  // the run meanwhile.
  bool take_store();
  // Then: its next prompts are those of the state that it continues.
  void begin(const RunState& state);
  // Ordinal of the next prompt, but for those that a checkpoint left open.
  uint64_t next_ordinal() const { return next_ordinal_; }
  const FlowRules& rules() const { return rules_; }
  // After a change of options.
  void set_rules();
  GroupFilter& filter() { return filter_; }
  StepRecord& step() { return step_; }
  RankBatches& batches() { return batches_; }
  bool generates() const;  // responses are generated here, not given or taken from a store

  // The weights of this step are durable: a store forgets the groups that they were trained on.
  void acknowledge(uint64_t step);
  // The step is over for these groups.
  void end_step(std::span<const SamplePtr> batch);
  // Throws if another process takes from the store of this run, which then trains no more. On any
  // thread.
  void require_own_store();
  // Of the store; none without one.
  MetricList store_metrics() const;

  FlowGroups groups() override { return uses_.scoring.groups(); }
  int64_t draw(int64_t count, bool all) override;
  bool source_ended() override { return source_ended_; }
  bool can_generate() override;
  bool generating() override { return uses_.generation.active(); }
  Turn generate() override;
  bool decide() override;
  FlowJudged commit() override;
  void end_batch(int64_t rounds, int64_t not_replaced) override;
  int64_t max_rounds() override;
  void hold_back(bool held) override;
  int64_t num_bound() override;
  void cancel_drawn_before(int64_t steps_done) override;
  // The counters of a trace, of a run that generates ahead.
  void trace_groups() const;

  uint64_t num_changes() override;
  Turn wait(uint64_t seen) override;

 private:
  const Settings& settings() const { return uses_.control.settings(); }
  int64_t now() const { return uses_.model.runtime().clock().now_ns(); }
  int64_t open_drawn(int64_t count, bool all);
  int64_t open_claimed(int64_t count);
  int64_t open_ahead(int64_t count);
  void deliver(int64_t groups);
  bool waits_for_weights(bool now);
  void note_weights();
  bool is_over() const;
  std::optional<int64_t> next_look(const Control::Lock& lock) const;
  void open(const Prompt& prompt, uint64_t ordinal);

  const Uses uses_;
  FlowRules rules_;
  GroupFilter filter_;
  StepRecord step_;
  RankBatches batches_;
  uint64_t next_ordinal_ = 0;
  std::deque<uint64_t> reopened_;  // drawn before the checkpoint, and to be drawn again
  bool source_ended_ = false;
  int64_t generated_ns_ = 0;  // when the last forward ended
  RunRole role_;
};

}  // namespace rl

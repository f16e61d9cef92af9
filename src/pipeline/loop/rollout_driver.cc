#include "pipeline/loop/rollout_driver.h"

#include <algorithm>

#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/loop/flow_metrics.h"

namespace rl {
namespace {

// In sync all samples of a step come from the weights that it trains, in one_step_off from those
// before.
FlowRules rules_of(const Settings& settings) {
  const PipelineSettings& o = settings.pipeline;
  FlowRules rules;
  rules.batch_groups = o.prompts_per_step;
  rules.max_staleness = generates_ahead(settings) ? 1 : 0;
  rules.rollout_turns = o.rollout_turns;
  rules.train_turns = o.train_turns;
  if (!flows_by_group(settings)) return rules;
  rules.by_batch = false;
  rules.max_staleness = o.max_staleness;
  rules.queue_batches = o.queue_size;
  rules.surplus_groups = o.over_sampling_prompts;
  rules.max_off_policy = o.max_off_policy_steps;
  return rules;
}

}  // namespace

RolloutDriver::RolloutDriver(const Uses& uses)
    : uses_(uses),
      rules_(rules_of(uses.control.settings())),
      filter_(uses.control.settings(), uses.scoring, uses.phases.update()),
      batches_(uses.model.runtime().data_ranks()) {}

void RolloutDriver::begin(const RunState& state) {
  next_ordinal_ = state.cursor;
  reopened_.assign(state.open_ordinals.begin(), state.open_ordinals.end());
  source_ended_ = false;
}

void RolloutDriver::set_rules() { rules_ = rules_of(settings()); }

bool RolloutDriver::generates() const { return is_rl(settings().algo.objective); }

int64_t RolloutDriver::draw(int64_t count, bool all) {
  if (source_ended_) return 0;
  const int64_t start = now();
  const int64_t drawn = open_drawn(count, all);
  step_.times.drawing_ns += now() - start;
  if (drawn > 0) trace_groups();
  return drawn;
}

void RolloutDriver::trace_groups() const {
  const Tracer& tracer = uses_.model.runtime().tracer();
  if (tracer.sink() == nullptr || !generates_ahead(settings())) return;
  const Control::Lock lock = uses_.control.lock();
  trace_flow(tracer, uses_.scoring.groups(lock), uses_.scoring.ledger(lock));
}

int64_t RolloutDriver::open_drawn(int64_t count, bool all) {
  const ScopedSpan span(&uses_.model.runtime().tracer(), "pipeline.draw", TraceLane::kPipeline);
  int64_t drawn = 0;
  for (; drawn < count && !reopened_.empty(); ++drawn, reopened_.pop_front()) {
    open(uses_.prompts.draw(reopened_.front(), 1).prompts.front(), reopened_.front());
  }
  if (drawn == count) return drawn;
  const PromptSupply::Drawn more = all ? uses_.prompts.draw(next_ordinal_, count - drawn)
                                       : uses_.prompts.draw_some(next_ordinal_, count - drawn);
  source_ended_ = more.ended;
  for (const Prompt& prompt : more.prompts) open(prompt, next_ordinal_++);
  return drawn + static_cast<int64_t>(more.prompts.size());
}

// All ranks draw every prompt, so that they know the next one.
void RolloutDriver::open(const Prompt& prompt, uint64_t ordinal) {
  if (!batches_.owns(ordinal)) return;
  if (generates()) {
    uses_.generation.submit(prompt, ordinal, static_cast<int64_t>(uses_.progress.boundary.step));
  } else {
    uses_.scoring.add_given(ordinal, prompt);
  }
}

bool RolloutDriver::can_generate() {
  if (!settings().pipeline.free_lane_after_generation) uses_.scoring.free_lanes();
  return uses_.generation.can_advance();
}

Turn RolloutDriver::generate() {
  const int64_t start = now();
  if (!uses_.generation.advance(uses_.progress.boundary.step)) return Turn::kEnd;
  generated_ns_ = now();
  step_.times.generating_ns += generated_ns_ - start;
  return Turn::kWorked;
}

bool RolloutDriver::decide() {
  const int64_t start = now();
  const bool decided = uses_.scoring.decide(Purpose::kTrain);
  step_.times.scoring_ns += now() - start;
  return decided;
}

FlowJudged RolloutDriver::commit() {
  const FlowJudged judged = filter_.commit_by_score();
  step_.filtered.score += judged.filtered;
  if (judged.kept + judged.filtered > 0) trace_groups();
  return judged;
}

void RolloutDriver::end_batch(int64_t rounds, int64_t not_replaced) {
  step_.filtered.rounds += rounds;
  step_.filtered.missing += not_replaced;
  if (!generates()) return;
  uses_.model.runtime().tracer().span(
      {"reward.wait", TraceLane::kReward, generated_ns_, now(), nullptr, 0});
}

int64_t RolloutDriver::max_rounds() { return settings().pipeline.filter_max_rounds; }

void RolloutDriver::hold_back(bool held) {
  if (EngineSet* const engine = uses_.phases.engine(); engine != nullptr) {
    engine->set_admitting(!held);
  }
}

// What has begun, unless samples may go on under other weights; then what has gone through as many
// publications as it may.
int64_t RolloutDriver::num_bound() {
  const PipelineSettings& o = settings().pipeline;
  const EngineSet& engine = *uses_.phases.engine();
  if (!o.partial_rollout) return engine.num_begun();
  return o.partial_rollout_max_aborts == 0 ? 0 : engine.num_across(o.partial_rollout_max_aborts);
}

void RolloutDriver::cancel_drawn_before(int64_t steps_done) {
  uses_.scoring.cancel_drawn_before(steps_done);
  trace_groups();
}

uint64_t RolloutDriver::num_changes() { return uses_.control.num_changes(uses_.control.lock()); }

// For rows of the feed, replies or scores.
Turn RolloutDriver::wait(uint64_t seen) {
  const FlowGroups groups = this->groups();
  const bool generating = this->generating(), scoring = !groups.unfinished.empty();
  const PipelineState state = generating ? PipelineState::kGenerating
                              : scoring  ? PipelineState::kScoring
                                         : PipelineState::kFetching;
  if (!uses_.control.enter(state)) return Turn::kEnd;
  const int64_t start = now();
  {
    Control::Lock lock = uses_.control.lock();
    if (uses_.control.replays()) {
      uses_.control.schedule(lock).check_waiting();
    } else if (!uses_.control.follows() && !uses_.control.must_act(lock)) {
      uses_.control.wait_after(seen, lock, uses_.scoring.next_expiry(lock));
    }
  }
  if (generating) step_.times.generating_ns += now() - start;
  if (!generating && scoring) step_.times.scoring_ns += now() - start;
  return Turn::kWorked;
}

}  // namespace rl

#include "pipeline/loop/rollout_driver.h"

#include <algorithm>
#include <utility>

#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/loop/flow_metrics.h"

namespace rl {
namespace {

constexpr int64_t kLookNs = 10'000'000;  // between two looks at a store or a directory

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
  // Of groups from a store a step takes what it needs: their tokens say how old they are.
  rules.max_staleness = 0;
  rules.rests_while_training = o.role == PipelineRole::kTrain;
  if (rules.rests_while_training) return rules;
  rules.max_staleness = o.max_staleness;
  rules.queue_batches = o.queue_size;
  rules.surplus_groups = o.over_sampling_prompts;
  rules.max_off_policy = o.max_off_policy_steps;
  return rules;
}

}  // namespace

RolloutDriver::RolloutDriver(const Uses& uses, RunRole role)
    : uses_(uses),
      rules_(rules_of(uses.control.settings())),
      filter_(uses.control.settings(), uses.scoring, uses.phases),
      batches_(uses.model.runtime().rollout_ranks(), role.claims != nullptr),
      role_(std::move(role)) {}

bool RolloutDriver::take_store() {
  for (;;) {
    const uint64_t seen = num_changes();
    if (role_.claims->begin()) return true;
    if (wait(seen) == Turn::kEnd) return false;
  }
}

void RolloutDriver::begin(const RunState& state) {
  next_ordinal_ = state.cursor;
  reopened_.assign(state.open_ordinals.begin(), state.open_ordinals.end());
  source_ended_ = false;
  if (role_.deliveries != nullptr) role_.deliveries->begin();
  if (role_.claims == nullptr) return;
  reopened_.clear();  // the store has them
  role_.claims->resume(state.step);
}

void RolloutDriver::set_rules() { rules_ = rules_of(settings()); }

bool RolloutDriver::generates() const {
  return is_rl(settings().algo.objective) && role_.claims == nullptr;
}

int64_t RolloutDriver::draw(int64_t count, bool all) {
  if (source_ended_) return 0;
  const int64_t start = now();
  const int64_t drawn = role_.claims != nullptr       ? open_claimed(count)
                        : role_.deliveries != nullptr ? open_ahead(count)
                                                      : open_drawn(count, all);
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

int64_t RolloutDriver::open_claimed(int64_t count) {
  SharedClaims& claims = *role_.claims;
  claims.settle([&](uint64_t ordinal) { return uses_.scoring.is_open(ordinal); });
  const uint64_t done = uses_.progress.boundary.step;
  const uint64_t version = uses_.model.version();
  const auto most = static_cast<uint64_t>(settings().pipeline.max_staleness);
  const uint64_t oldest = version > most ? version - most : 0;
  const auto groups = claims.take({count, done + 1, version, oldest, next_ordinal_});
  for (const std::vector<SamplePtr>& group : groups) {
    uses_.scoring.add_stored(next_ordinal_++, group, static_cast<int64_t>(done));
  }
  return static_cast<int64_t>(groups.size());
}

// Weights are looked for after the book was read, so that they are no older than it says.
int64_t RolloutDriver::open_ahead(int64_t count) {
  if (uses_.control.apply_staged()) set_rules();
  SharedDeliveries& deliveries = *role_.deliveries;
  deliveries.settle([&](uint64_t ordinal) { return uses_.scoring.is_open(ordinal); });
  count = std::min(count, deliveries.room({rules_.batch_groups, rules_.max_staleness}));
  if (count == 0 || waits_for_weights(true) || is_over()) return 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t ordinal = deliveries.draw(next_ordinal_);
    next_ordinal_ = ordinal + 1;
    open(uses_.prompts.draw(ordinal, 1).prompts.front(), ordinal);
  }
  return count;
}

void RolloutDriver::deliver(int64_t groups) {
  for (; groups > 0; --groups) {
    role_.deliveries->put(uses_.scoring.take_batch(uses_.progress.boundary.step + 1, 1));
    uses_.scoring.commit_batch(uses_.control.lock());
  }
  uses_.scoring.forget_rows();
  uses_.generation.forget_requests();
}

// True while newer weights wait for samples under way. now: looks for them at once.
bool RolloutDriver::waits_for_weights(bool now) {
  if (role_.weights == nullptr) return false;
  const bool newer = role_.weights->has_newer(now), waits = newer && num_bound() > 0;
  if (newer && !waits) role_.weights->take_up();
  if (newer) hold_back(waits);
  note_weights();
  return waits;
}

// A step that changed no weights counts as well.
void RolloutDriver::note_weights() {
  const Control::Lock lock = uses_.control.lock();
  uses_.progress.version = uses_.model.version();
  uses_.progress.boundary.step = static_cast<uint64_t>(role_.weights->step());
}

// The weights that are followed have all their steps.
bool RolloutDriver::is_over() const {
  const auto total = static_cast<uint64_t>(settings().pipeline.total_steps);
  return role_.deliveries != nullptr && total != 0 && uses_.progress.boundary.step >= total;
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
  waits_for_weights(false);
  if (!settings().pipeline.free_lane_after_generation) uses_.scoring.free_lanes();
  return uses_.generation.can_advance();
}

Turn RolloutDriver::generate() {
  const int64_t start = now();
  if (is_over() || !uses_.generation.advance(uses_.progress.boundary.step)) return Turn::kEnd;
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
  if (role_.deliveries != nullptr && judged.kept > 0) deliver(judged.kept);
  return judged;
}

void RolloutDriver::acknowledge(uint64_t step) {
  if (role_.claims != nullptr) role_.claims->acknowledge(step);
}

void RolloutDriver::end_step(std::span<const SamplePtr> batch) {
  if (role_.claims != nullptr) role_.claims->end_step(batch);
}

void RolloutDriver::require_own_store() {
  if (role_.claims != nullptr) role_.claims->require_own();
}

MetricList RolloutDriver::store_metrics() const {
  MetricList m;
  if (role_.claims == nullptr) return m;
  const StoreCounts counts = role_.claims->counts();
  m.set("pipeline/store_duplicates", static_cast<double>(counts.duplicates));
  m.set("pipeline/store_damaged", static_cast<double>(counts.damaged));
  return m;
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
  if (uses_.phases.engine() == nullptr) return 0;
  const EngineSet& engine = *uses_.phases.engine();
  if (!o.partial_rollout) return engine.num_begun();
  return o.partial_rollout_max_aborts == 0 ? 0 : engine.num_across(o.partial_rollout_max_aborts);
}

void RolloutDriver::cancel_drawn_before(int64_t steps_done) {
  uses_.scoring.cancel_drawn_before(steps_done);
  trace_groups();
}

uint64_t RolloutDriver::num_changes() { return uses_.control.num_changes(uses_.control.lock()); }

// A store and the weights that are followed are looked at again soon.
std::optional<int64_t> RolloutDriver::next_look(const Control::Lock& lock) const {
  const std::optional<int64_t> expiry = uses_.scoring.next_expiry(lock);
  if (role_.claims == nullptr && role_.deliveries == nullptr) return expiry;
  return std::min(expiry.value_or(INT64_MAX), now() + kLookNs);
}

// For rows of the feed, replies or scores, or for a store.
Turn RolloutDriver::wait(uint64_t seen) {
  const FlowGroups groups = this->groups();
  const bool generating = this->generating(), scoring = !groups.unfinished.empty();
  const PipelineState state = generating ? PipelineState::kGenerating
                              : scoring  ? PipelineState::kScoring
                                         : PipelineState::kFetching;
  if (is_over() || !uses_.control.enter(state)) return Turn::kEnd;
  const int64_t start = now();
  {
    Control::Lock lock = uses_.control.lock();
    if (uses_.control.replays()) {
      uses_.control.schedule(lock).check_waiting();
    } else if (!uses_.control.follows() && !uses_.control.must_act(lock)) {
      uses_.control.wait_after(seen, lock, next_look(lock));
    }
  }
  if (generating) step_.times.generating_ns += now() - start;
  if (!generating && scoring) step_.times.scoring_ns += now() - start;
  return Turn::kWorked;
}

}  // namespace rl

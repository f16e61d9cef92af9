// Events are pushed outside the lock.
#include "pipeline/loop/scoring.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/loop/events.h"
#include "pipeline/update/reward_parts.h"
#include "rollout/sequence.h"

namespace rl {
namespace {

// Evaluations have ids of their own.
constexpr uint64_t kEvalBit = uint64_t{1} << 63;

uint64_t first_sample_id(const Settings& settings) {
  return SampleIds::first_of(settings.runtime.instance);
}

}  // namespace

Scoring::Scoring(Control& control, LoadedModel& model, const PhaseArena& phases)
    : control_(control),
      model_(model),
      phases_(phases),
      schedule_(control.schedule(control.lock())),
      steps_(attempts_per_prompt(control.settings()), first_sample_id(control.settings()),
             most_complete_groups(control.settings())),
      evals_(control.settings().eval.samples_per_prompt,
             kEvalBit + first_sample_id(control.settings()) - 1),
      turns_(control, model) {
  steps_.board().observe(schedule_);
  evals_.observe(schedule_);
}

void Scoring::restore(const RunState& state, bool counts_on) {
  steps_.board().restore(counts_on ? state.ledger : LedgerCounts(),
                         state.open_ordinals.empty() ? state.cursor : state.open_ordinals.front());
  evals_.restore({}, state.next_eval_ordinal);
}

void Scoring::begin_again(const RunState& state) {
  const Control::Lock lock = control_.lock();
  steps_.abandon(DropReason::kShutdown, {});
  steps_.board().take_dropped();
  rows_.clear();
  restore(state, true);
}

void Scoring::apply(const ScheduledEvent& input) {
  RL_CHECK(!input.numbers.empty());
  const uint64_t id = input.numbers[0];
  ScoreBoard& board = board_of(id);
  // The first rank has dropped the group since then, and this one before.
  if (control_.follows() && board.is_dropped(board.ordinal_of(id))) return;
  if (input.kind == ScheduledKind::kReply) return turns_.apply(board, input);
  apply_input(board, input);
}

// A trainer over a store has no samples that await scores, on any rank.
void Scoring::refuse_on_other_ranks() const {
  if (!control_.follows() || control_.settings().pipeline.role == PipelineRole::kTrain) return;
  Runtime& runtime = model_.runtime();
  const int rank = runtime.ranks().rank();
  const ParallelSettings& parallel = control_.settings().parallel;
  const int64_t of_stage = parallel.tensor * parallel.context * parallel.data;
  throw Error(Code::kFailedPrecondition,
              str("rank ", rank % of_stage - runtime.tensor_ranks().rank(),
                  " is given the scores and replies of the ranks that divide its "
                  "model, and this is rank ",
                  rank))
      .with_key(partner_axis_of(control_.settings()))
      .with_location(str("rank ", rank));
}

void Scoring::reply(const Reply& reply) {
  refuse_on_other_ranks();
  turns_.reply(board_of(reply.sample_id), reply);
}

void Scoring::refuse_scores() const {
  refuse_on_other_ranks();
  if (control_.replays()) {
    throw Error(Code::kFailedPrecondition,
                "the samples of a replay have the rewards of its record, not those of the host")
        .with_key("pipeline.replay_path");
  }
  if (phases_.reward() == nullptr) return;
  throw Error(Code::kFailedPrecondition,
              "model.reward_path scores the samples of this pipeline, not the host")
      .with_key("model.reward_path");
}

void Scoring::require_parts(uint64_t sample_id, size_t num_parts) const {
  require_reward_parts(control_.settings().algo.gdpo_weights.size(), str("sample ", sample_id),
                       num_parts);
}

void Scoring::require_token_rewards(uint64_t sample_id) const {
  const Advantage kind = control_.settings().algo.advantage;
  if (kind == Advantage::kCustom || has_token_rewards(kind)) return;
  throw Error(Code::kInvalidArgument,
              str("sample ", sample_id, " is given token rewards, but algo.advantage = ",
                  advantage_name(kind), " reads none"))
      .with_key("algo.advantage");
}

void Scoring::score(const Score& given) {
  refuse_scores();
  const uint64_t id = given.sample_id;
  {
    const Control::Lock lock = control_.lock();
    if (!evals_.owns(id)) {
      require_parts(id, given.parts.size());
      if (!given.token_rewards.empty()) require_token_rewards(id);
    }
    SampleRewards rewards{
        .scored = true,
        .reward = given.reward,
        .parts = {given.parts.begin(), given.parts.end()},
        .token_rewards = {given.token_rewards.begin(), given.token_rewards.end()}};
    board_of(id).score(id, rewards, now());
    schedule_.scored(id, rewards);
  }
  control_.notify();
}

void Scoring::fail(uint64_t sample_id, std::string_view reason) {
  refuse_scores();
  {
    const Control::Lock lock = control_.lock();
    board_of(sample_id).fail(sample_id, reason, now());
    schedule_.failed(sample_id, reason);
  }
  control_.notify();
}

void Scoring::open(Purpose purpose, uint64_t ordinal, const Prompt& prompt, int64_t steps_done) {
  {
    const Control::Lock lock = control_.lock();
    board(purpose).open(ordinal, prompt.data_row, steps_done);
    schedule_.drawn(sample_id(purpose, ordinal, 0), steps_done, prompt.ids);
  }
  rows_[ordinal] = {{}, {}, prompt.tag, prompt.data_row};
}

void Scoring::add_given(uint64_t ordinal, const Prompt& prompt) {
  const Control::Lock lock = control_.lock();
  steps_.board().open(ordinal, prompt.data_row);
  for (uint32_t slot = 0; slot < prompt.responses.size(); ++slot) {
    SamplePtr s = response_sample(prompt, ordinal, slot);
    s->id = steps_.board().sample_id(ordinal, slot);
    steps_.board().finish(s, -1);
    steps_.board().score(s->id, 0, now());
  }
  steps_.commit(ordinal, false);
}

void Scoring::add_stored(uint64_t ordinal, std::span<const SamplePtr> group, int64_t steps_done) {
  const Control::Lock lock = control_.lock();
  ScoreBoard& board = steps_.board();
  for (const SamplePtr& s : group) {
    require_parts(s->id, s->reward_parts.size());
    if (!s->token_rewards.empty()) require_token_rewards(s->id);
  }
  board.open(ordinal, group.front()->data_row, steps_done);
  for (const SamplePtr& s : group) {
    board.finish(s, -1);
    board.score(board.sample_id(ordinal, s->slot), rewards_of(*s), now());
  }
}

int64_t Scoring::deadline_from_now(int64_t timeout_ns) const {
  const int64_t start = now();
  if (timeout_ns == 0 || timeout_ns > INT64_MAX - start || !control_.has_host()) return -1;
  return start + timeout_ns;
}

void Scoring::deliver(Purpose purpose) {
  EngineSet& engine = *phases_.engine();
  ScoreBoard& to = board(purpose);
  for (const Error& e : engine.take_errors()) {
    model_.runtime().logger().log_error(LogLevel::kError, "engine", e);
  }
  for (const SamplePtr& sample : engine.take_finished()) {
    const Prompt& row = rows_.at(sample->ordinal);
    sample->slot = to.slot_of(sample->id);
    sample->tag = row.tag;
    sample->data_row = row.data_row;
    settle(to, sample, true);
  }
  const Control::Lock lock = control_.lock();
  to.expire(now());
}

// may_ask: the end of a turn, which may ask for a reply; otherwise the end of the sample.
void Scoring::settle(ScoreBoard& to, const SamplePtr& sample, bool may_ask) {
  int64_t turn = 0;
  std::vector<SamplePtr> to_score;
  {
    const Control::Lock lock = control_.lock();
    schedule_.finished(*sample);
    if (sample->finish == FinishReason::kAborted) {
      to.drop(sample->ordinal, DropReason::kNonFinite,
              str("the logits of sample ", sample->id, " were not finite"));
    }
    if (may_ask && turns_.asks(to, *sample, lock)) {
      to.await_reply(sample, deadline_from_now(control_.settings().pipeline.reply_timeout_ns));
      turn = to.turns(*sample);
    } else {
      to_score = await_score(to, sample);
    }
  }
  if (!control_.has_host()) return;
  if (turn != 0) send_turn_event(sample, turn);
  if (phases_.reward() == nullptr) send_score_events(to_score);
}

// The samples that now ask the host for their rewards.
std::vector<SamplePtr> Scoring::await_score(ScoreBoard& to, const SamplePtr& sample) {
  const PipelineSettings& pipeline = control_.settings().pipeline;
  const int64_t deadline_ns = deadline_from_now(pipeline.reward_timeout_ns);
  if (pipeline.score_events == PipelineScoreEvents::kSample) {
    if (!to.finish(sample, deadline_ns)) return {};
    return {sample};
  }
  to.finish(sample, -1);
  std::vector<SamplePtr> group = to.generated(sample->ordinal);
  if (!group.empty()) to.set_deadline(sample->ordinal, deadline_ns);
  return group;
}

EventSample Scoring::event_sample(const SamplePtr& sample) const {
  EventSample made{.sample = sample, .prompt_text = {}, .text = {}};
  if (model_.has_tokenizer()) {
    const auto split = static_cast<size_t>(sample->prompt_tokens);
    const std::span<const int32_t> ids(sample->ids);
    made.prompt_text = model_.decode_sampled(ids.first(split), false);
    made.text = model_.decode_sampled(ids.subspan(split), true);
  }
  return made;
}

void Scoring::send_turn_event(const SamplePtr& sample, int64_t turn) {
  auto event = std::make_shared<TurnEvent>(event_sample(sample));
  event->turn = turn;
  if (model_.has_tokenizer()) {
    const auto begin = static_cast<size_t>(response_begin(*sample));
    event->turn_text =
        model_.decode_sampled(std::span<const int32_t>(sample->ids).subspan(begin), true);
  }
  control_.push(std::move(event));
}

void Scoring::send_score_events(const std::vector<SamplePtr>& samples) {
  if (samples.empty()) return;
  if (control_.settings().pipeline.score_events == PipelineScoreEvents::kSample) {
    for (const SamplePtr& s : samples) {
      control_.push(std::make_shared<ScoreEvent>(event_sample(s)));
    }
    return;
  }
  auto event = std::make_shared<GroupEvent>();
  for (const SamplePtr& s : samples) event->samples.push_back(event_sample(s));
  control_.push(std::move(event));
}

bool Scoring::has_turns(Purpose purpose) const {
  bool has = false;
  control_.see([&](const Control::Lock& lock) {
    has = board(purpose).unreplied() > 0 || !turns_.empty(lock);
  });
  return has;
}

bool Scoring::has_replies() const {
  bool has = false;
  control_.see([&](const Control::Lock& lock) { has = !turns_.empty(lock); });
  return has;
}

std::vector<SamplePtr> Scoring::take_replies(Purpose purpose) {
  ScoreBoard& of = board(purpose);
  std::vector<SamplePtr> going_on, ended;
  control_.see([&](const Control::Lock& lock) {
    of.expire(now());
    for (TurnReplies::Answered& answered : turns_.take(lock)) {
      const bool ends = answered.finish || of.is_dropped(answered.sample->ordinal);
      (ends ? ended : going_on).push_back(std::move(answered.sample));
    }
  });
  for (const SamplePtr& sample : ended) settle(of, sample, false);
  return going_on;
}

void Scoring::await_reply(Purpose purpose) {
  Control::Lock lock = control_.lock();
  const ScoreBoard& of = board(purpose);
  if (of.unreplied() == 0 || !turns_.empty(lock) || control_.must_act(lock)) return;
  if (control_.follows()) return;  // it waits for the first rank where it sees
  control_.wait(lock, of.next_expiry());
}

// While a step is training it runs between two micro-batches, on the bytes of their activations. In
// a run whose engine has no bytes of its own it comes after all generation.
void Scoring::score_with_reward_model(ScoreBoard& of) {
  std::vector<SamplePtr> samples;
  {
    const Control::Lock lock = control_.lock();
    samples = of.waiting();
  }
  if (samples.empty()) return;
  const ScopedSpan span(&model_.runtime().tracer(), "reward.model", TraceLane::kReward);
  if (phases_.share_bytes()) phases_.engine()->forget_kv();
  const std::vector<float> scores = phases_.reward()->score(samples);
  const Control::Lock lock = control_.lock();
  // A reply that came too late meanwhile has dropped its group.
  const auto is_dropped = [&](size_t i) { return of.is_dropped(samples[i]->ordinal); };
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(scores[i]) && !is_dropped(i)) of.score(samples[i]->id, scores[i], now());
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(scores[i]) || is_dropped(i)) continue;
    of.fail(samples[i]->id, str("the reward model returned ", scores[i]), now());
  }
}

bool Scoring::run(PipelineState state, Purpose purpose) {
  do {
    if (!control_.enter(state)) return false;
  } while (!wait(purpose));
  return true;
}

void Scoring::free_lanes() {
  control_.see([&](const Control::Lock& lock) {
    control_.schedule(lock).look();
    phases_.engine()->free_lanes([&](uint64_t id) { return !steps_.board().is_unscored(id); });
  });
}

bool Scoring::decide(Purpose purpose) {
  ScoreBoard& of = board(purpose);
  if (phases_.reward() != nullptr) score_with_reward_model(of);
  bool decided = false;
  control_.see([&](const Control::Lock& lock) {
    of.expire(now());
    control_.schedule(lock).look();
    decided = of.decided();
  });
  if (push_dropped()) control_.notify();
  return decided;
}

FlowGroups Scoring::groups() {
  FlowGroups groups;
  control_.see([&](const Control::Lock& lock) {
    control_.schedule(lock).look();
    groups = steps_.board().waiting_groups();
  });
  return groups;
}

// What the engine has of such a group ends now, and the rest when it would go on.
void Scoring::cancel_drawn_before(int64_t steps_done) {
  EngineSet& engine = *phases_.engine();
  control_.see([&](const Control::Lock& lock) {
    control_.schedule(lock).look();
    for (const uint64_t ordinal : steps_.board().generating_since(steps_done)) {
      const std::vector<uint64_t> running = steps_.board().running(ordinal);
      steps_.board().drop(
          ordinal, DropReason::kCancelled,
          "it was being generated for more steps than pipeline.max_off_policy_steps");
      for (const uint64_t id : running) {
        if (const auto request = engine.find(id)) engine.abort(*request);
      }
    }
  });
  deliver(Purpose::kTrain);
  push_dropped();
}

bool Scoring::is_open(uint64_t ordinal) const {
  const Control::Lock lock = control_.lock();
  return steps_.board().ledger().is_open(ordinal);
}

void Scoring::forget_rows() {
  const Control::Lock lock = control_.lock();
  std::erase_if(rows_, [&](const auto& row) {
    return !steps_.board().ledger().is_open(row.first) && !evals_.ledger().is_open(row.first);
  });
}

// Waits for scores, a deadline of one, pause or stop. True if every open group is complete.
bool Scoring::wait(Purpose purpose) {
  ScoreBoard& of = board(purpose);
  if (phases_.reward() != nullptr) score_with_reward_model(of);
  bool decided = false;
  uint64_t seen = 0;
  control_.see([&](const Control::Lock& lock) {
    of.expire(now());
    control_.schedule(lock).look();
    decided = of.decided();
    seen = control_.num_changes(lock);
  });
  if (!decided) await_input(seen, of);
  push_dropped();
  return decided;
}

// A replay has its next input at hand. A rank that follows waits for the first one where it sees.
void Scoring::await_input(uint64_t seen, const ScoreBoard& of) {
  Control::Lock lock = control_.lock();
  if (control_.replays()) {
    control_.schedule(lock).check_waiting();
  } else if (!control_.follows() && !control_.must_act(lock)) {
    control_.wait_after(seen, lock, of.next_expiry());
  }
}

FlowJudged Scoring::commit_groups(FunctionRef<std::string(std::span<const double>)> why_dropped) {
  FlowJudged judged;
  control_.see([&](const Control::Lock& lock) {
    control_.schedule(lock).look();
    judged = steps_.commit_all(why_dropped, control_.settings().pipeline.mask_off_policy_tokens);
  });
  return judged;
}

int64_t Scoring::drop_filtered(int64_t max_groups, GroupStore::Filter filter) {
  const Control::Lock lock = control_.lock();
  return steps_.drop_filtered(max_groups, filter);
}

int64_t Scoring::drop_older_than(uint64_t version) {
  int64_t dropped = 0;
  {
    const Control::Lock lock = control_.lock();
    dropped = steps_.drop_older_than(version);
  }
  push_dropped();
  return dropped;
}

std::vector<SamplePtr> Scoring::take_batch(uint64_t step, int64_t max_groups) {
  const Control::Lock lock = control_.lock();
  std::vector<SamplePtr> batch = steps_.take(max_groups);
  schedule_.taken(step, batch);
  return batch;
}

void Scoring::give_back(std::vector<SamplePtr> batch) {
  const Control::Lock lock = control_.lock();
  steps_.give_back(std::move(batch));
}

std::vector<SamplePtr> Scoring::take_evaluated() {
  const Control::Lock lock = control_.lock();
  RL_CHECK(evals_.decided());
  std::vector<SamplePtr> batch;
  for (const uint64_t ordinal : evals_.complete()) {
    const std::vector<SamplePtr> group = evals_.hand_over(ordinal);
    batch.insert(batch.end(), group.begin(), group.end());
  }
  evals_.reserve(batch);
  evals_.commit();
  return batch;
}

int64_t Scoring::num_dropped(Purpose purpose) const {
  const Control::Lock lock = control_.lock();
  return board(purpose).ledger().counts().dropped();
}

bool Scoring::push_dropped() {
  std::vector<ScoreBoard::Dropped> train, eval;
  {
    const Control::Lock lock = control_.lock();
    train = steps_.board().take_dropped();
    eval = evals_.take_dropped();
  }
  push_dropped(train, Purpose::kTrain);
  push_dropped(eval, Purpose::kEval);
  return !train.empty() || !eval.empty();
}

void Scoring::push_dropped(std::vector<ScoreBoard::Dropped>& dropped, Purpose purpose) {
  if (control_.follows()) return;
  for (ScoreBoard::Dropped& d : dropped) {
    auto event = std::make_shared<GroupDroppedEvent>();
    event->purpose = purpose;
    event->ordinal = d.ordinal;
    event->data_row = d.data_row;
    event->reason = d.reason;
    event->message = std::move(d.message);
    control_.push(std::move(event));
  }
}

void Scoring::shut_down() {
  std::vector<SamplePtr> train, eval;
  if (EngineSet* const engine = phases_.engine(); engine != nullptr) {
    engine->abort_all();
    for (SamplePtr& s : engine->take_finished()) {
      (s->purpose == Purpose::kEval ? eval : train).push_back(std::move(s));
    }
  }
  {
    const Control::Lock lock = control_.lock();
    for (TurnReplies::Answered& answered : turns_.take(lock)) {
      const bool of_eval = answered.sample->purpose == Purpose::kEval;
      (of_eval ? eval : train).push_back(std::move(answered.sample));
    }
    steps_.abandon(DropReason::kShutdown, train);
    evals_.abandon(DropReason::kShutdown, eval);
  }
  forget_rows();
  push_dropped();
}

void Scoring::close(const Control::Lock& lock) noexcept {
  try {
    turns_.take(lock);
    steps_.abandon(DropReason::kAborted, {});
    evals_.abandon(DropReason::kAborted, {});
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace rl

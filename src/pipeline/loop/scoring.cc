// Events are pushed outside the lock.
#include "pipeline/loop/scoring.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/loop/events.h"

namespace rl {
namespace {

// Evaluations have ids of their own.
constexpr uint64_t kEvalBit = uint64_t{1} << 63;

uint64_t first_sample_id(const Settings& settings) {
  return SampleIds::first_of(settings.runtime.instance);
}

// Samples of a step.
int64_t step_attempts(const Settings& settings) {
  return settings.pipeline.prompts_per_step * attempts_per_prompt(settings);
}

}  // namespace

Scoring::Scoring(Control& control, LoadedModel& model, const PhaseArena& phases)
    : control_(control),
      model_(model),
      phases_(phases),
      board_(attempts_per_prompt(control.settings()), first_sample_id(control.settings())),
      evals_(control.settings().eval.samples_per_prompt,
             kEvalBit + first_sample_id(control.settings()) - 1),
      buffer_(attempts_per_prompt(control.settings()), step_attempts(control.settings())) {}

void Scoring::restore(const RunState& state) {
  board_.restore(state.ledger, state.cursor);
  evals_.restore({}, state.next_eval_ordinal);
}

void Scoring::refuse_scores() const {
  if (phases_.reward() == nullptr) return;
  throw Error(Code::kFailedPrecondition,
              "model.reward_path scores the samples of this pipeline, not the host")
      .with_key("model.reward_path");
}

void Scoring::require_parts(uint64_t sample_id, size_t num_parts) const {
  const size_t expected = control_.settings().algo.gdpo_weights.size();
  if (expected == 0 || num_parts == expected) return;
  throw Error(Code::kInvalidArgument,
              str("the reward of sample ", sample_id, " has ", num_parts,
                  " parts, but algo.gdpo_weights has ", expected, " entries"))
      .with_key("algo.gdpo_weights");
}

void Scoring::score(uint64_t sample_id, double reward, std::span<const double> parts) {
  refuse_scores();
  {
    const Control::Lock lock = control_.lock();
    if (!evals_.owns(sample_id)) require_parts(sample_id, parts.size());
    board_of(sample_id).score(sample_id, reward, {parts.begin(), parts.end()}, now());
  }
  control_.notify();
}

void Scoring::fail(uint64_t sample_id, std::string_view reason) {
  refuse_scores();
  {
    const Control::Lock lock = control_.lock();
    board_of(sample_id).fail(sample_id, reason, now());
  }
  control_.notify();
}

void Scoring::open(Purpose purpose, uint64_t ordinal, const Prompt& prompt) {
  {
    const Control::Lock lock = control_.lock();
    board(purpose).open(ordinal, prompt.data_row);
  }
  rows_[ordinal] = {{}, {}, prompt.tag, prompt.data_row};
}

void Scoring::add_given(uint64_t ordinal, const Prompt& prompt) {
  const Control::Lock lock = control_.lock();
  board_.open(ordinal, prompt.data_row);
  for (uint32_t slot = 0; slot < prompt.responses.size(); ++slot) {
    SamplePtr s = response_sample(prompt, ordinal, slot);
    s->id = board_.sample_id(ordinal, slot);
    board_.finish(s, -1);
    board_.score(s->id, 0, now());
  }
  commit_group(ordinal);
}

int64_t Scoring::deadline_from_now() const {
  const int64_t timeout = control_.settings().pipeline.reward_timeout_ns;
  const int64_t start = now();
  if (timeout == 0 || timeout > INT64_MAX - start) return -1;
  return start + timeout;
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
    {
      const Control::Lock lock = control_.lock();
      if (sample->finish == FinishReason::kAborted) {
        to.drop(sample->ordinal, DropReason::kNonFinite,
                str("the logits of sample ", sample->id, " were not finite"));
      }
      if (!to.finish(sample, deadline_from_now())) continue;
    }
    if (phases_.reward() == nullptr) send_score_event(sample);
  }
  const Control::Lock lock = control_.lock();
  to.expire(now());
}

void Scoring::send_score_event(const SamplePtr& sample) {
  auto event = std::make_shared<ScoreEvent>();
  event->sample = sample;
  if (model_.has_tokenizer()) {
    const auto split = static_cast<size_t>(sample->prompt_tokens);
    const std::span<const int32_t> ids(sample->ids);
    event->prompt_text = model_.decode_sampled(ids.first(split), false);
    event->text = model_.decode_sampled(ids.subspan(split), true);
  }
  control_.push(std::move(event));
}

// Runs only when no generation is active: the reward model's workspace overlays keys and values.
void Scoring::score_with_reward_model(ScoreBoard& of) {
  std::vector<SamplePtr> samples;
  {
    const Control::Lock lock = control_.lock();
    samples = of.waiting();
  }
  if (samples.empty()) return;
  const ScopedSpan span(&model_.runtime().tracer(), "reward.model", TraceLane::kReward);
  phases_.engine()->forget_kv();
  const std::vector<float> scores = phases_.reward()->score(samples);
  const Control::Lock lock = control_.lock();
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(scores[i])) of.score(samples[i]->id, scores[i], now());
  }
  std::optional<uint64_t> dropped;  // the group dropped last: its other samples go with it
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(scores[i]) || dropped == samples[i]->ordinal) continue;
    dropped = samples[i]->ordinal;
    of.fail(samples[i]->id, str("the reward model returned ", scores[i]), now());
  }
}

bool Scoring::run(PipelineState state, Purpose purpose) {
  do {
    if (!control_.enter(state)) return false;
  } while (!wait(purpose));
  return true;
}

// Waits for scores, a deadline of one, pause or stop. True if every open group is complete.
bool Scoring::wait(Purpose purpose) {
  ScoreBoard& of = board(purpose);
  if (phases_.reward() != nullptr) score_with_reward_model(of);
  bool decided;
  {
    Control::Lock lock = control_.lock();
    of.expire(now());
    decided = of.decided();
    if (!decided && !control_.must_act(lock)) control_.wait(lock, of.next_expiry());
  }
  push_dropped();
  return decided;
}

int64_t Scoring::commit_groups(FunctionRef<std::string(std::span<const double>)> why_dropped) {
  const Control::Lock lock = control_.lock();
  int64_t dropped = 0;
  for (const uint64_t ordinal : board_.complete()) {
    std::string why = why_dropped(board_.rewards(ordinal));
    if (why.empty()) {
      commit_group(ordinal);
    } else {
      board_.drop(ordinal, DropReason::kFiltered, std::move(why));
      ++dropped;
    }
  }
  return dropped;
}

int64_t Scoring::drop_filtered(Filter filter) {
  const Control::Lock lock = control_.lock();
  std::vector<SamplePtr> batch;
  buffer_.visit([&](const Group& group) {
    batch.insert(batch.end(), group.samples.begin(), group.samples.end());
  });
  std::vector<Rejected> rejected = filter(batch);
  for (Rejected& group : rejected) {
    buffer_.erase(group.ordinal);
    board_.drop(group.ordinal, DropReason::kFiltered, std::move(group.why));
  }
  return static_cast<int64_t>(rejected.size());
}

std::vector<SamplePtr> Scoring::take_batch() {
  const Control::Lock lock = control_.lock();
  std::vector<SamplePtr> batch = buffer_.take(buffer_.num_whole_groups());
  board_.reserve(batch);
  return batch;
}

void Scoring::give_back(std::vector<SamplePtr> batch) {
  const Control::Lock lock = control_.lock();
  buffer_.put_all(std::move(batch));
  board_.unreserve();
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

void Scoring::push_dropped() {
  std::vector<ScoreBoard::Dropped> train, eval;
  {
    const Control::Lock lock = control_.lock();
    train = board_.take_dropped();
    eval = evals_.take_dropped();
  }
  push_dropped(train, Purpose::kTrain);
  push_dropped(eval, Purpose::kEval);
}

void Scoring::push_dropped(std::vector<ScoreBoard::Dropped>& dropped, Purpose purpose) {
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
    board_.abandon(DropReason::kShutdown, train);
    evals_.abandon(DropReason::kShutdown, eval);
    buffer_.clear();
  }
  clear_rows();
  push_dropped();
}

void Scoring::close(const Control::Lock&) noexcept {
  try {
    board_.abandon(DropReason::kAborted, {});
    evals_.abandon(DropReason::kAborted, {});
    buffer_.clear();
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace rl

// score and fail look up their sample in one place, slot_to_score, so that both refuse alike.
#include "pipeline/groups/score_board.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {
// Dropped groups remembered so that late scores get kLate.
constexpr size_t kDroppedRemembered = 65536;
}  // namespace

ScoreBoard::ScoreBoard(int64_t group_size, uint64_t first_id)
    : group_size_(group_size), first_id_(first_id) {
  RL_CHECK(group_size > 0);
}

uint64_t ScoreBoard::sample_id(uint64_t ordinal, uint32_t slot) const {
  return first_id_ + ordinal * static_cast<uint64_t>(group_size_) + slot;
}

uint64_t ScoreBoard::ordinal_of(uint64_t sample_id) const {
  RL_CHECK(owns(sample_id));
  return (sample_id - first_id_) / static_cast<uint64_t>(group_size_);
}

uint32_t ScoreBoard::slot_of(uint64_t sample_id) const {
  RL_CHECK(owns(sample_id));
  return static_cast<uint32_t>((sample_id - first_id_) % static_cast<uint64_t>(group_size_));
}

ScoreBoard::Group& ScoreBoard::find_open(uint64_t ordinal) {
  const auto found = groups_.find(ordinal);
  RL_CHECK(found != groups_.end());
  return found->second;
}

void ScoreBoard::open(uint64_t ordinal, int64_t data_row, int64_t steps_done) {
  ledger_.open_group(ordinal, group_size_);
  Group& g = groups_[ordinal];
  g.data_row = data_row;
  g.steps_done = steps_done;
  g.slots.resize(static_cast<size_t>(group_size_));
  next_ordinal_ = ordinal + 1;
  ledger_.check_invariants();
}

bool ScoreBoard::finish(SamplePtr sample, int64_t deadline_ns) {
  const uint64_t ordinal = sample->ordinal;
  Group& g = find_open(ordinal);
  RL_CHECK(sample->slot < g.slots.size() && g.slots[sample->slot].sample == nullptr);
  ledger_.finished(ordinal, sample->slot, sample->generated());
  Slot& s = g.slots[sample->slot];
  s.sample = std::move(sample);
  ++g.generated;
  const bool waits = !g.dropped;
  if (waits) {
    s.waiting = true;
    s.deadline_ns = deadline_ns;
    note_deadline(deadline_ns);
    ++unscored_;
  }
  leave_if_complete(ordinal);
  ledger_.check_invariants();
  return waits;
}

void ScoreBoard::note_deadline(int64_t deadline_ns) {
  if (deadline_ns >= 0) earliest_ns_ = std::min(earliest_ns_, deadline_ns);
}

std::vector<SamplePtr> ScoreBoard::generated(uint64_t ordinal) const {
  std::vector<SamplePtr> samples;
  const auto found = groups_.find(ordinal);
  if (found == groups_.end() || found->second.dropped) return samples;
  if (found->second.generated < group_size_) return samples;
  for (const Slot& s : found->second.slots) samples.push_back(s.sample);
  return samples;
}

void ScoreBoard::set_deadline(uint64_t ordinal, int64_t deadline_ns) {
  for (Slot& s : find_open(ordinal).slots) {
    if (s.waiting) s.deadline_ns = deadline_ns;
  }
  note_deadline(deadline_ns);
}

void ScoreBoard::drop(uint64_t ordinal, DropReason reason, std::string message) {
  Group& g = find_open(ordinal);
  if (g.dropped) return;
  g.dropped = true;
  g.reason = reason;
  if (observer_ != nullptr) observer_->dropped(sample_id(ordinal, 0), reason);
  for (Slot& s : g.slots) {
    unscored_ -= s.waiting;
    s.waiting = false;
  }
  end_turns(g);
  dropped_.push_back({ordinal, g.data_row, reason, std::move(message)});
  dropped_ordinals_.push_back(ordinal);
  if (dropped_ordinals_.size() > kDroppedRemembered) dropped_ordinals_.pop_front();
  leave_if_complete(ordinal);
  ledger_.check();
}

// A dropped group is removed when none of its samples is being generated.
void ScoreBoard::leave_if_complete(uint64_t ordinal) {
  const Group& g = find_open(ordinal);
  if (!g.dropped || g.generated < group_size_) return;
  ledger_.drop(ordinal, g.reason, 0);
  groups_.erase(ordinal);
}

bool ScoreBoard::is_dropped(uint64_t ordinal) const {
  const auto found = groups_.find(ordinal);
  if (found != groups_.end()) return found->second.dropped;
  return std::find(dropped_ordinals_.begin(), dropped_ordinals_.end(), ordinal) !=
         dropped_ordinals_.end();
}

void ScoreBoard::refuse_closed(uint64_t sample_id, uint64_t ordinal) {
  if (is_dropped(ordinal)) {
    ledger_.count_late();
    throw Error(Code::kLate, str("the score of sample ", sample_id, " is late: its group, ordinal ",
                                 ordinal, ", was dropped"));
  }
  if (ordinal < next_ordinal_ && !groups_.contains(ordinal)) {
    ledger_.count_duplicate();
    throw Error(Code::kDuplicate, str("sample ", sample_id, " has already been scored and used"));
  }
}

ScoreBoard::Slot* ScoreBoard::find_slot(uint64_t sample_id) {
  if (!owns(sample_id)) return nullptr;
  const auto found = groups_.find(ordinal_of(sample_id));
  return found != groups_.end() ? &found->second.slots[slot_of(sample_id)] : nullptr;
}

ScoreBoard::Slot& ScoreBoard::slot_to_score(uint64_t sample_id, int64_t now_ns) {
  const uint64_t ordinal = owns(sample_id) ? ordinal_of(sample_id) : 0;
  if (owns(sample_id)) refuse_closed(sample_id, ordinal);
  Slot* const s = find_slot(sample_id);
  if (s == nullptr || (s->sample == nullptr && !s->rewards.scored)) {
    ledger_.count_unknown();
    throw Error(Code::kNotFound, str("no sample ", sample_id, " is waiting for a score"));
  }
  if (s->rewards.scored) {
    ledger_.count_duplicate();
    throw Error(Code::kDuplicate,
                str("sample ", sample_id, " already has a score, ", s->rewards.reward));
  }
  if (s->deadline_ns >= 0 && now_ns > s->deadline_ns) {
    expire(now_ns);
    refuse_closed(sample_id, ordinal);
  }
  return *s;
}

void ScoreBoard::refuse_non_finite(uint64_t sample_id, const char* what, double value) {
  if (std::isfinite(value)) return;
  ledger_.count_nonfinite();
  throw Error(Code::kNonFinite, str(what, " of sample ", sample_id, " is ", value,
                                    "; the sample is still waiting for one"));
}

void ScoreBoard::refuse_wrong_count(const Sample& sample, size_t num_token_rewards) const {
  const auto tokens = static_cast<size_t>(sample.generated());
  if (num_token_rewards == 0 || num_token_rewards == tokens) return;
  throw Error(Code::kInvalidArgument,
              str(sample_name(sample), " has ", tokens, " tokens after its prompt, but ",
                  num_token_rewards, " token rewards are given"))
      .with_key("token_rewards")
      .with_expected(str(tokens, " token rewards, or none"));
}

void ScoreBoard::score(uint64_t sample_id, SampleRewards given, int64_t now_ns) {
  Slot& s = slot_to_score(sample_id, now_ns);
  if (s.replying) {
    ledger_.count_unknown();
    throw Error(Code::kNotFound, str("sample ", sample_id, " waits for a reply, not for a score"));
  }
  refuse_wrong_count(*s.sample, given.token_rewards.size());
  refuse_non_finite(sample_id, "the score", given.reward);
  for (const double part : given.parts) refuse_non_finite(sample_id, "a part of the score", part);
  for (const double reward : given.token_rewards) {
    refuse_non_finite(sample_id, "a token reward", reward);
  }
  s.rewards = std::move(given);
  s.rewards.scored = true;
  s.waiting = false;
  --unscored_;
  ++find_open(s.sample->ordinal).scored;
  ledger_.scored(s.sample->ordinal, s.sample->slot);
  ledger_.check_invariants();
}

void ScoreBoard::fail(uint64_t sample_id, std::string_view reason, int64_t now_ns) {
  const Slot& s = slot_to_score(sample_id, now_ns);
  const std::string why = reason.empty() ? "no reason given" : std::string(reason);
  drop(s.sample->ordinal, DropReason::kRewardError,
       str("sample ", sample_id, " has no reward: ", why));
}

int64_t ScoreBoard::turns(const Sample& sample) const {
  const auto found = groups_.find(sample.ordinal);
  RL_CHECK(found != groups_.end());
  return found->second.slots.at(sample.slot).turns;
}

void ScoreBoard::await_reply(SamplePtr sample, int64_t deadline_ns) {
  Group& g = find_open(sample->ordinal);
  RL_CHECK(!g.dropped && sample->slot < g.slots.size());
  Slot& s = g.slots[sample->slot];
  RL_CHECK(s.sample == nullptr);
  s.sample = std::move(sample);
  s.replying = true;
  ++s.turns;
  s.deadline_ns = deadline_ns;
  note_deadline(deadline_ns);
  ++unreplied_;
}

// Samples of a dropped group that wait for a reply are not generated on.
void ScoreBoard::end_turns(Group& g) {
  for (Slot& s : g.slots) {
    if (!s.replying) continue;
    s.replying = false;
    --unreplied_;
    ++g.generated;
    ledger_.finished(s.sample->ordinal, s.sample->slot, s.sample->generated());
  }
}

void ScoreBoard::refuse_late_reply(uint64_t sample_id) const {
  const uint64_t ordinal = ordinal_of(sample_id);
  if (!is_dropped(ordinal)) return;
  throw Error(Code::kLate, str("the reply to sample ", sample_id, " is late: its group, ordinal ",
                               ordinal, ", was dropped"));
}

const Sample& ScoreBoard::turn(uint64_t sample_id, uint64_t turn, int64_t now_ns) {
  if (owns(sample_id)) refuse_late_reply(sample_id);
  const Slot* const s = find_slot(sample_id);
  const uint64_t asked = s != nullptr ? static_cast<uint64_t>(s->turns) : 0;
  const bool present = turn == 0 || turn == asked;
  if (s != nullptr && s->replying && present) {
    if (s->deadline_ns < 0 || now_ns <= s->deadline_ns) return *s->sample;
    expire(now_ns);
    refuse_late_reply(sample_id);
  }
  const bool ended = s == nullptr && owns(sample_id) && ordinal_of(sample_id) < next_ordinal_;
  if (ended || (asked > 0 && turn <= asked)) {
    throw Error(Code::kDuplicate, str("sample ", sample_id, " does not wait for a reply any more"));
  }
  throw Error(Code::kNotFound, str("no turn ", turn == 0 ? std::string() : str(turn, " "),
                                   "of sample ", sample_id, " is waiting for a reply"));
}

void ScoreBoard::go_on(uint64_t sample_id) {
  Slot* const s = find_slot(sample_id);
  RL_CHECK(s != nullptr && s->replying);
  s->replying = false;
  s->sample.reset();
  --unreplied_;
}

bool ScoreBoard::is_unscored(uint64_t sample_id) const {
  const auto found = groups_.find(ordinal_of(sample_id));
  return found != groups_.end() && found->second.slots[slot_of(sample_id)].waiting;
}

std::vector<SamplePtr> ScoreBoard::waiting() const {
  std::vector<SamplePtr> samples;
  for (const auto& [ordinal, g] : groups_) {
    for (const Slot& s : g.slots) {
      if (s.waiting) samples.push_back(s.sample);
    }
  }
  return samples;
}

void ScoreBoard::expire(int64_t now_ns) {
  if (now_ns <= earliest_ns_) return;
  std::vector<std::pair<uint64_t, std::string>> late;  // ordinal, why
  for (const auto& [ordinal, g] : groups_) {
    for (const Slot& s : g.slots) {
      if (!s.awaited() || s.deadline_ns < 0 || now_ns <= s.deadline_ns) continue;
      const char* const what = s.replying ? " got no reply within pipeline.reply_timeout_ns"
                                          : " was not scored within pipeline.reward_timeout_ns";
      late.emplace_back(ordinal, str("sample ", s.sample->id, what));
      break;
    }
  }
  for (auto& [ordinal, why] : late) {
    if (observer_ != nullptr) observer_->expired(sample_id(ordinal, 0), why);
    drop(ordinal, DropReason::kRewardTimeout, std::move(why));
  }
  find_earliest_deadline();
}

void ScoreBoard::find_earliest_deadline() {
  earliest_ns_ = kNever;
  for (const auto& [ordinal, g] : groups_) {
    for (const Slot& s : g.slots) {
      if (s.awaited()) note_deadline(s.deadline_ns);
    }
  }
}

std::optional<int64_t> ScoreBoard::next_expiry() const {
  if (earliest_ns_ == kNever || unscored_ + unreplied_ == 0) return std::nullopt;
  return earliest_ns_;
}

bool ScoreBoard::decided() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [&](const auto& item) { return item.second.scored == group_size_; });
}

FlowGroups ScoreBoard::waiting_groups() const {
  FlowGroups out;
  for (const auto& [ordinal, g] : groups_) {
    if (g.dropped || g.reserved) continue;
    (g.handed_over ? out.complete : out.unfinished).push_back(g.steps_done);
  }
  return out;
}

std::vector<uint64_t> ScoreBoard::generating_since(int64_t steps_done) const {
  std::vector<uint64_t> out;
  for (const auto& [ordinal, g] : groups_) {
    const bool generates = !g.dropped && g.generated < group_size_;
    if (generates && g.steps_done < steps_done) out.push_back(ordinal);
  }
  return out;
}

std::vector<uint64_t> ScoreBoard::running(uint64_t ordinal) const {
  std::vector<uint64_t> ids;
  const Group& g = groups_.at(ordinal);
  for (uint32_t slot = 0; slot < g.slots.size(); ++slot) {
    if (g.slots[slot].sample == nullptr) ids.push_back(sample_id(ordinal, slot));
  }
  return ids;
}

std::vector<uint64_t> ScoreBoard::complete() const {
  std::vector<uint64_t> ordinals;
  for (const auto& [ordinal, g] : groups_) {
    if (g.scored == group_size_ && !g.handed_over) ordinals.push_back(ordinal);
  }
  return ordinals;
}

const ScoreBoard::Group& ScoreBoard::find_complete(uint64_t ordinal) const {
  const auto found = groups_.find(ordinal);
  RL_CHECK(found != groups_.end() && found->second.scored == group_size_);
  return found->second;
}

std::vector<double> ScoreBoard::rewards(uint64_t ordinal) const {
  std::vector<double> rewards;
  for (const Slot& s : find_complete(ordinal).slots) rewards.push_back(s.rewards.reward);
  return rewards;
}

std::vector<SamplePtr> ScoreBoard::hand_over(uint64_t ordinal) {
  RL_CHECK(!find_complete(ordinal).handed_over);
  Group& g = find_open(ordinal);
  std::vector<SamplePtr> samples;
  for (const Slot& s : g.slots) {
    samples.push_back(with_rewards(*s.sample, s.rewards));
  }
  g.handed_over = true;
  for (Slot& s : g.slots) s.sample.reset();
  return samples;
}

void ScoreBoard::reserve(std::span<const SamplePtr> batch) {
  for (const SamplePtr& s : batch) {
    Group& g = find_open(s->ordinal);
    if (g.reserved) continue;
    RL_CHECK(g.handed_over);
    ledger_.reserve(s->ordinal);
    g.reserved = true;
  }
  ledger_.check();
}

void ScoreBoard::unreserve() {
  ledger_.unreserve();
  for (auto& [ordinal, g] : groups_) g.reserved = false;
  ledger_.check();
}

void ScoreBoard::commit() {
  ledger_.commit();
  std::erase_if(groups_, [](const auto& item) { return item.second.reserved; });
  ledger_.check();
}

void ScoreBoard::note_abandoned(uint64_t ordinal, const Group& g, DropReason reason,
                                std::string_view detail) {
  dropped_.push_back({ordinal, g.data_row, reason,
                      str("the step ended: ", detail.empty() ? drop_reason_name(reason) : detail)});
  dropped_ordinals_.push_back(ordinal);
  if (dropped_ordinals_.size() > kDroppedRemembered) dropped_ordinals_.pop_front();
}

void ScoreBoard::drop_reserved(DropReason reason, std::string_view detail) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    if (!it->second.reserved) {
      ++it;
      continue;
    }
    ledger_.drop(it->first, reason, 0);
    note_abandoned(it->first, it->second, reason, detail);
    it = groups_.erase(it);
  }
  ledger_.check();
}

void ScoreBoard::abandon(DropReason reason, const std::vector<SamplePtr>& aborted,
                         std::string_view detail) {
  std::map<uint64_t, int64_t> running;
  for (const SamplePtr& s : aborted) running[s->ordinal] += s->generated();
  for (const auto& [ordinal, g] : groups_) {
    for (const Slot& s : g.slots) {
      if (s.replying) running[ordinal] += s.sample->generated();
    }
    const DropReason why = g.dropped ? g.reason : reason;
    ledger_.drop(ordinal, why, running[ordinal]);
    if (!g.dropped) note_abandoned(ordinal, g, reason, detail);
  }
  groups_.clear();
  unscored_ = unreplied_ = 0;
  ledger_.check();
}

std::vector<ScoreBoard::Dropped> ScoreBoard::take_dropped() { return std::exchange(dropped_, {}); }

void ScoreBoard::restore(const LedgerCounts& counts, uint64_t next_ordinal) {
  RL_CHECK(groups_.empty());
  ledger_.restore(counts, next_ordinal);
  next_ordinal_ = next_ordinal;
}

}  // namespace rl

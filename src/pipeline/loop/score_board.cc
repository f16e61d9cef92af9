// score and fail look up their sample in one place, slot_to_score, so that both refuse alike.
#include "pipeline/loop/score_board.h"

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

uint32_t ScoreBoard::slot_of(uint64_t sample_id) const {
  RL_CHECK(owns(sample_id));
  return static_cast<uint32_t>((sample_id - first_id_) % static_cast<uint64_t>(group_size_));
}

ScoreBoard::Group& ScoreBoard::find_open(uint64_t ordinal) {
  const auto found = groups_.find(ordinal);
  RL_CHECK(found != groups_.end());
  return found->second;
}

void ScoreBoard::open(uint64_t ordinal, int64_t data_row) {
  ledger_.open_group(ordinal, group_size_);
  Group& g = groups_[ordinal];
  g.data_row = data_row;
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
    if (deadline_ns >= 0) earliest_ns_ = std::min(earliest_ns_, deadline_ns);
    ++unscored_;
  }
  leave_if_complete(ordinal);
  ledger_.check_invariants();
  return waits;
}

void ScoreBoard::drop(uint64_t ordinal, DropReason reason, std::string message) {
  Group& g = find_open(ordinal);
  if (g.dropped) return;
  g.dropped = true;
  g.reason = reason;
  for (Slot& s : g.slots) {
    unscored_ -= s.waiting;
    s.waiting = false;
  }
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

void ScoreBoard::refuse_closed(uint64_t sample_id, uint64_t ordinal) {
  if (std::find(dropped_ordinals_.begin(), dropped_ordinals_.end(), ordinal) !=
      dropped_ordinals_.end()) {
    ledger_.count_late();
    throw Error(Code::kLate, str("the score of sample ", sample_id, " is late: its group, ordinal ",
                                 ordinal, ", was dropped"));
  }
  if (ordinal < next_ordinal_ && !groups_.contains(ordinal)) {
    ledger_.count_duplicate();
    throw Error(Code::kDuplicate, str("sample ", sample_id, " has already been scored and used"));
  }
}

ScoreBoard::Slot& ScoreBoard::slot_to_score(uint64_t sample_id, int64_t now_ns) {
  const auto size = static_cast<uint64_t>(group_size_);
  const bool known = sample_id >= first_id_;
  const uint64_t ordinal = known ? (sample_id - first_id_) / size : 0;
  if (known) refuse_closed(sample_id, ordinal);
  const auto found = groups_.find(ordinal);
  Slot* s = known && found != groups_.end() ? &found->second.slots[(sample_id - first_id_) % size]
                                            : nullptr;
  if (s == nullptr || (s->sample == nullptr && !s->scored)) {
    ledger_.count_unknown();
    throw Error(Code::kNotFound, str("no sample ", sample_id, " is waiting for a score"));
  }
  if (s->scored) {
    ledger_.count_duplicate();
    throw Error(Code::kDuplicate, str("sample ", sample_id, " already has a score, ", s->reward));
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

void ScoreBoard::score(uint64_t sample_id, double reward, std::vector<double> parts,
                       int64_t now_ns) {
  Slot& s = slot_to_score(sample_id, now_ns);
  refuse_non_finite(sample_id, "the score", reward);
  for (const double part : parts) refuse_non_finite(sample_id, "a part of the score", part);
  s.scored = true;
  s.waiting = false;
  s.reward = reward;
  s.parts = std::move(parts);
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
  std::vector<std::pair<uint64_t, uint64_t>> late;  // ordinal, sample
  for (const auto& [ordinal, g] : groups_) {
    for (const Slot& s : g.slots) {
      if (!s.waiting || s.deadline_ns < 0 || now_ns <= s.deadline_ns) continue;
      late.emplace_back(ordinal, s.sample->id);
      break;
    }
  }
  for (const auto& [ordinal, sample] : late) {
    drop(ordinal, DropReason::kRewardTimeout,
         str("sample ", sample, " was not scored within pipeline.reward_timeout_ns"));
  }
  find_earliest_deadline();
}

void ScoreBoard::find_earliest_deadline() {
  earliest_ns_ = kNever;
  for (const auto& [ordinal, g] : groups_) {
    for (const Slot& s : g.slots) {
      if (s.waiting && s.deadline_ns >= 0) earliest_ns_ = std::min(earliest_ns_, s.deadline_ns);
    }
  }
}

std::optional<int64_t> ScoreBoard::next_expiry() const {
  if (earliest_ns_ == kNever) return std::nullopt;
  return earliest_ns_;
}

bool ScoreBoard::decided() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [&](const auto& item) { return item.second.scored == group_size_; });
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
  for (const Slot& s : find_complete(ordinal).slots) rewards.push_back(s.reward);
  return rewards;
}

std::vector<SamplePtr> ScoreBoard::hand_over(uint64_t ordinal) {
  RL_CHECK(!find_complete(ordinal).handed_over);
  Group& g = find_open(ordinal);
  std::vector<SamplePtr> samples;
  for (const Slot& s : g.slots) {
    auto copy = std::make_shared<Sample>(*s.sample);
    copy->scored = true;
    copy->reward = s.reward;
    copy->reward_parts = s.parts;
    samples.push_back(std::move(copy));
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

void ScoreBoard::abandon(DropReason reason, const std::vector<SamplePtr>& aborted,
                         std::string_view detail) {
  std::map<uint64_t, int64_t> running;
  for (const SamplePtr& s : aborted) running[s->ordinal] += s->generated();
  for (const auto& [ordinal, g] : groups_) {
    const DropReason why = g.dropped ? g.reason : reason;
    ledger_.drop(ordinal, why, running[ordinal]);
    if (g.dropped) continue;
    dropped_.push_back(
        {ordinal, g.data_row, reason,
         str("the step ended: ", detail.empty() ? drop_reason_name(reason) : detail)});
    dropped_ordinals_.push_back(ordinal);
    if (dropped_ordinals_.size() > kDroppedRemembered) dropped_ordinals_.pop_front();
  }
  groups_.clear();
  unscored_ = 0;
  ledger_.check();
}

std::vector<ScoreBoard::Dropped> ScoreBoard::take_dropped() { return std::exchange(dropped_, {}); }

void ScoreBoard::restore(const LedgerCounts& counts, uint64_t next_ordinal) {
  RL_CHECK(groups_.empty());
  ledger_.restore(counts, next_ordinal);
  next_ordinal_ = next_ordinal;
}

}  // namespace rl

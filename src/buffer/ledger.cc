// Every transition checks its source state and updates the counts of the invariants; check()
// recounts the open groups and compares, in time linear in the number of open samples.
#include "buffer/ledger.h"

#include <numeric>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

size_t index_of(DropReason reason) {
  const auto index = static_cast<size_t>(reason);
  RL_CHECK(index > 0 && index < kNumDropReasons);
  return index;
}

int64_t sum(const std::array<int64_t, kNumDropReasons>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

LedgerCounts LedgerCounts::without_open() const {
  LedgerCounts out = *this;
  out.attempts_started -= std::exchange(out.attempts_in_flight, 0);
  out.tokens_generated -= std::exchange(out.tokens_in_flight, 0);
  out.prompts_drawn -= std::exchange(out.prompts_open, 0);
  return out;
}

LedgerCounts& LedgerCounts::operator+=(const LedgerCounts& o) {
  using Count = int64_t LedgerCounts::*;
  for (const Count count : {&LedgerCounts::attempts_started, &LedgerCounts::attempts_trained,
                            &LedgerCounts::attempts_in_flight, &LedgerCounts::tokens_generated,
                            &LedgerCounts::tokens_trained, &LedgerCounts::tokens_discarded,
                            &LedgerCounts::tokens_in_flight, &LedgerCounts::prompts_drawn,
                            &LedgerCounts::prompts_trained, &LedgerCounts::prompts_open,
                            &LedgerCounts::late_scores, &LedgerCounts::duplicate_scores,
                            &LedgerCounts::unknown_scores, &LedgerCounts::nonfinite_scores}) {
    this->*count += o.*count;
  }
  for (size_t i = 0; i < kNumDropReasons; ++i) {
    attempts_discarded[i] += o.attempts_discarded[i];
    prompts_dropped[i] += o.prompts_dropped[i];
  }
  return *this;
}

int64_t LedgerCounts::discarded() const { return sum(attempts_discarded); }
int64_t LedgerCounts::dropped() const { return sum(prompts_dropped); }

Ledger::OpenGroup& Ledger::group(uint64_t ordinal) {
  const auto found = open_.find(ordinal);
  RL_CHECK(found != open_.end());
  return found->second;
}

Ledger::Attempt& Ledger::attempt(uint64_t ordinal, uint32_t slot) {
  OpenGroup& g = group(ordinal);
  RL_CHECK(slot < g.attempts.size());
  return g.attempts[slot];
}

void Ledger::open_group(uint64_t ordinal, int64_t group_size) {
  RL_CHECK(group_size > 0 && !open_.contains(ordinal));
  RL_CHECK(ordinal >= next_ordinal_);  // an ordinal is used once
  next_ordinal_ = ordinal + 1;
  open_[ordinal].attempts.resize(static_cast<size_t>(group_size));
  counts_.attempts_started += group_size;
  counts_.attempts_in_flight += group_size;
  ++counts_.prompts_drawn;
  ++counts_.prompts_open;
}

void Ledger::finished(uint64_t ordinal, uint32_t slot, int64_t tokens) {
  Attempt& a = attempt(ordinal, slot);
  RL_CHECK(a.state == AttemptState::kRunning && tokens >= 0);
  a = {AttemptState::kFinished, tokens};
  counts_.tokens_generated += tokens;
  counts_.tokens_in_flight += tokens;
}

void Ledger::scored(uint64_t ordinal, uint32_t slot) {
  Attempt& a = attempt(ordinal, slot);
  RL_CHECK(a.state == AttemptState::kFinished);
  a.state = AttemptState::kScored;
}

void Ledger::reserve(uint64_t ordinal) {
  OpenGroup& g = group(ordinal);
  RL_CHECK(!g.reserved);
  for (Attempt& a : g.attempts) {
    RL_CHECK(a.state == AttemptState::kScored);
    a.state = AttemptState::kReserved;
  }
  g.reserved = true;
}

void Ledger::unreserve() {
  for (auto& [ordinal, g] : open_) {
    if (!g.reserved) continue;
    for (Attempt& a : g.attempts) a.state = AttemptState::kScored;
    g.reserved = false;
  }
}

void Ledger::commit() {
  for (auto it = open_.begin(); it != open_.end();) {
    if (!it->second.reserved) {
      ++it;
      continue;
    }
    for (const Attempt& a : it->second.attempts) {
      ++counts_.attempts_trained;
      --counts_.attempts_in_flight;
      counts_.tokens_trained += a.tokens;
      counts_.tokens_in_flight -= a.tokens;
    }
    ++counts_.prompts_trained;
    --counts_.prompts_open;
    it = open_.erase(it);
  }
}

void Ledger::drop(uint64_t ordinal, DropReason reason, int64_t running_tokens) {
  const size_t index = index_of(reason);
  RL_CHECK(running_tokens >= 0);
  for (const Attempt& a : group(ordinal).attempts) {
    ++counts_.attempts_discarded[index];
    --counts_.attempts_in_flight;
    counts_.tokens_discarded += a.tokens;
    counts_.tokens_in_flight -= a.tokens;
  }
  counts_.tokens_generated += running_tokens;
  counts_.tokens_discarded += running_tokens;
  ++counts_.prompts_dropped[index];
  --counts_.prompts_open;
  open_.erase(ordinal);
}

std::vector<uint64_t> Ledger::open_ordinals() const {
  std::vector<uint64_t> out;
  for (const auto& [ordinal, group] : open_) out.push_back(ordinal);
  return out;
}

void Ledger::restore(const LedgerCounts& counts, uint64_t next_ordinal) {
  RL_CHECK(open_.empty());
  counts_ = counts;
  next_ordinal_ = next_ordinal;
  check();
}

void Ledger::check_invariants() const {
  const LedgerCounts& c = counts_;
  RL_CHECK(c.prompts_open == static_cast<int64_t>(open_.size()));
  RL_CHECK(c.attempts_started == c.attempts_trained + c.discarded() + c.attempts_in_flight);
  RL_CHECK(c.tokens_generated == c.tokens_trained + c.tokens_discarded + c.tokens_in_flight);
  RL_CHECK(c.prompts_drawn == c.prompts_trained + c.dropped() + c.prompts_open);
}

void Ledger::check() const {
  int64_t attempts = 0, tokens = 0;
  for (const auto& [ordinal, g] : open_) {
    attempts += static_cast<int64_t>(g.attempts.size());
    for (const Attempt& a : g.attempts) tokens += a.tokens;
  }
  RL_CHECK(counts_.attempts_in_flight == attempts);
  RL_CHECK(counts_.tokens_in_flight == tokens);
  check_invariants();
}

}  // namespace rl

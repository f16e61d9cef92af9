// Accounting of a run: every attempt at a sample and every prompt taken is in exactly one state.
// States of an attempt: running -> finished -> scored <-> reserved -> trained | discarded(reason);
// only the last two are final. Invariants, checked after every event (Code::kInternal if
// violated):
//   attempts started = trained + sum of discarded + in flight
//   tokens generated = trained + discarded + in flight
//   prompts drawn    = trained + dropped + open
//   every (ordinal, slot) is trained at most once, and all slots of an ordinal share their fate.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "data/sample.h"

namespace rl {

inline constexpr size_t kNumDropReasons = static_cast<size_t>(DropReason::kShutdown) + 1;

struct LedgerCounts {
  int64_t attempts_started = 0, attempts_trained = 0, attempts_in_flight = 0;
  std::array<int64_t, kNumDropReasons> attempts_discarded{};  // by DropReason
  int64_t tokens_generated = 0, tokens_trained = 0, tokens_discarded = 0, tokens_in_flight = 0;
  int64_t prompts_drawn = 0, prompts_trained = 0, prompts_open = 0;
  std::array<int64_t, kNumDropReasons> prompts_dropped{};
  int64_t late_scores = 0, duplicate_scores = 0, unknown_scores = 0, nonfinite_scores = 0;

  LedgerCounts& operator+=(const LedgerCounts& other);
  // The same as if what is in flight had never been drawn.
  LedgerCounts without_open() const;
  int64_t discarded() const;
  int64_t dropped() const;
  bool operator==(const LedgerCounts&) const = default;
};

enum class AttemptState : uint8_t { kRunning, kFinished, kScored, kReserved };

class Ledger {
 public:
  // A prompt was taken and group_size attempts at it began.
  void open_group(uint64_t ordinal, int64_t group_size);
  void finished(uint64_t ordinal, uint32_t slot, int64_t tokens);
  void scored(uint64_t ordinal, uint32_t slot);
  // All slots are scored: the group joins the batch of this step.
  void reserve(uint64_t ordinal);
  // The step was undone: every reserved group is scored again, as before.
  void unreserve();
  // The step committed: every reserved group is trained.
  void commit();
  // The whole group ends with this reason, whatever state its attempts are in. running_tokens:
  // tokens of attempts that were running.
  void drop(uint64_t ordinal, DropReason reason, int64_t running_tokens);

  void count_late() { ++counts_.late_scores; }
  void count_duplicate() { ++counts_.duplicate_scores; }
  void count_unknown() { ++counts_.unknown_scores; }
  void count_nonfinite() { ++counts_.nonfinite_scores; }

  const LedgerCounts& counts() const { return counts_; }
  std::vector<uint64_t> open_ordinals() const;
  bool is_open(uint64_t ordinal) const { return open_.contains(ordinal); }
  // Sets counts from a checkpoint; nothing may be open. Error(kInternal) if they violate an
  // invariant.
  void restore(const LedgerCounts& counts, uint64_t next_ordinal);
  // Checks the counts, after an event of one sample. Throws unless every invariant holds.
  void check_invariants() const;
  // Also checks that the open groups add up to the counts, after events of whole groups.
  void check() const;

 private:
  struct Attempt {
    AttemptState state = AttemptState::kRunning;
    int64_t tokens = 0;
  };
  struct OpenGroup {
    std::vector<Attempt> attempts;
    bool reserved = false;
  };
  Attempt& attempt(uint64_t ordinal, uint32_t slot);
  OpenGroup& group(uint64_t ordinal);

  LedgerCounts counts_;
  std::map<uint64_t, OpenGroup> open_;
  uint64_t next_ordinal_ = 0;  // lower ordinals were opened already
};

}  // namespace rl

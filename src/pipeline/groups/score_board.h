// Tracks groups from their submission to the end of their step: which samples wait for a reward or
// for a reply to a turn, which groups are complete, reserved by a step, dropped. It owns the
// samples of a group until the group is complete and handed over. Invariant: a group is open,
// trained on, or dropped with a reason; the ledger sees every change, and its invariants are
// checked after each.
//
// A group that is dropped while some of its samples are still being generated is marked dropped at
// once (its scores are late from then on) and removed when the last of them is finished. Not
// thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer/ledger.h"
#include "data/sample.h"
#include "pipeline/flow/flow_rules.h"

namespace rl {

// Is told what a board does beside what its functions say, under the lock of their caller.
class BoardObserver {
 public:
  virtual ~BoardObserver() = default;
  // A deadline has passed, and the group of this sample is about to be dropped.
  virtual void expired(uint64_t first_sample_id, const std::string& why) = 0;
  virtual void dropped(uint64_t first_sample_id, DropReason reason) = 0;
};

class ScoreBoard {
 public:
  // Sample ids are first_id + ordinal * group_size + slot.
  ScoreBoard(int64_t group_size, uint64_t first_id);

  // Tells it from now on, which outlives the board.
  void observe(BoardObserver& observer) { observer_ = &observer; }

  uint64_t sample_id(uint64_t ordinal, uint32_t slot) const;
  uint64_t ordinal_of(uint64_t sample_id) const;
  uint32_t slot_of(uint64_t sample_id) const;
  int64_t group_size() const { return group_size_; }
  bool owns(uint64_t sample_id) const { return sample_id >= first_id_; }

  // steps_done: when its prompt was drawn.
  void open(uint64_t ordinal, int64_t data_row, int64_t steps_done = 0);
  // A sample of an open group is generated. True if it now waits for a reward; deadline_ns < 0: no
  // deadline.
  bool finish(SamplePtr sample, int64_t deadline_ns);
  // The samples of an open group by slot once all of them are generated, else none.
  std::vector<SamplePtr> generated(uint64_t ordinal) const;
  // Sets the deadline of the samples of a group that wait for a reward.
  void set_deadline(uint64_t ordinal, int64_t deadline_ns);

  // Turns that the sample has ended by await_reply.
  int64_t turns(const Sample& sample) const;
  bool is_dropped(uint64_t ordinal) const;
  // A turn of a sample of an open group is generated; the sample waits for a reply. The group is
  // not dropped.
  void await_reply(SamplePtr sample, int64_t deadline_ns);
  // The sample that waits for a reply to this turn; turn 0: to the present one. Errors: kNotFound,
  // kDuplicate, kLate.
  const Sample& turn(uint64_t sample_id, uint64_t turn, int64_t now_ns);
  // The sample, which turn() has returned, is generated on.
  void go_on(uint64_t sample_id);
  int64_t unreplied() const { return unreplied_; }
  // Drops the group.
  void drop(uint64_t ordinal, DropReason reason, std::string message);

  // Errors, which are counted: kNotFound, kDuplicate, kLate, kNonFinite; and kInvalidArgument for
  // token rewards of another number than the sample's tokens, which is not.
  void score(uint64_t sample_id, SampleRewards given, int64_t now_ns);
  void score(uint64_t sample_id, double reward, std::vector<double> parts, int64_t now_ns) {
    score(sample_id, {.scored = true, .reward = reward, .parts = std::move(parts)}, now_ns);
  }
  void score(uint64_t sample_id, double reward, int64_t now_ns) {
    score(sample_id, reward, std::vector<double>(), now_ns);
  }
  // Same errors as score; then the group is dropped with kRewardError. The sample may also wait for
  // a reply.
  void fail(uint64_t sample_id, std::string_view reason, int64_t now_ns);

  // Drops groups whose deadline has passed.
  void expire(int64_t now_ns);
  // Latest time of the next expire() call; none while no sample has a deadline.
  std::optional<int64_t> next_expiry() const;
  int64_t unscored() const { return unscored_; }
  // Whether a sample waits for a reward.
  bool is_unscored(uint64_t sample_id) const;
  // The samples that wait for a reward, by (ordinal, slot).
  std::vector<SamplePtr> waiting() const;
  // True if every open group is complete, that is, all its samples are scored.
  bool decided() const;
  // The groups that are neither dropped nor reserved. Those that were handed over are complete.
  FlowGroups waiting_groups() const;
  // Groups with samples that are not generated yet, drawn before so many steps were done.
  std::vector<uint64_t> generating_since(int64_t steps_done) const;
  // The samples of a group that are not generated yet.
  std::vector<uint64_t> running(uint64_t ordinal) const;

  // The complete groups that have not been handed over, in order.
  std::vector<uint64_t> complete() const;
  // The rewards of a complete group, by slot.
  std::vector<double> rewards(uint64_t ordinal) const;
  // The scored samples of a complete group, by slot. They are copies, since the host may still read
  // the samples that it scored. The group stays open until it is trained on or dropped.
  std::vector<SamplePtr> hand_over(uint64_t ordinal);
  // A step takes these groups, which were handed over; unreserve: it was undone; commit: it has
  // trained on them.
  void reserve(std::span<const SamplePtr> batch);
  void unreserve();
  void commit();
  // The step has not trained on them: they end with this reason. detail: as of abandon().
  void drop_reserved(DropReason reason, std::string_view detail);
  // Ends every open group with this reason. aborted: the samples that were running, with the
  // tokens they have so far. detail: for the message; if empty, the name of the reason.
  void abandon(DropReason reason, const std::vector<SamplePtr>& aborted,
               std::string_view detail = {});

  struct Dropped {
    uint64_t ordinal;
    int64_t data_row;
    DropReason reason;
    std::string message;
  };
  // Groups dropped since the last call, in the order of dropping.
  std::vector<Dropped> take_dropped();

  const Ledger& ledger() const { return ledger_; }
  void restore(const LedgerCounts& counts, uint64_t next_ordinal);

 private:
  struct Slot {
    SamplePtr sample;       // null while it is being generated, and after it was handed over
    bool waiting = false;   // for a reward
    bool replying = false;  // waits for a reply; the attempt still runs
    int64_t turns = 0;      // that asked for a reply
    SampleRewards rewards;
    int64_t deadline_ns = -1;

    bool awaited() const { return waiting || replying; }
  };
  struct Group {
    int64_t data_row = -1;
    int64_t steps_done = 0;
    std::vector<Slot> slots;
    bool dropped = false;
    DropReason reason = DropReason::kNone;
    int64_t generated = 0, scored = 0;
    bool handed_over = false, reserved = false;
  };
  Group& find_open(uint64_t ordinal);
  const Group& find_complete(uint64_t ordinal) const;
  Slot* find_slot(uint64_t sample_id);
  Slot& slot_to_score(uint64_t sample_id, int64_t now_ns);
  void refuse_late_reply(uint64_t sample_id) const;
  void end_turns(Group& group);
  void note_deadline(int64_t deadline_ns);
  void refuse_wrong_count(const Sample& sample, size_t num_token_rewards) const;
  void refuse_non_finite(uint64_t sample_id, const char* what, double value);
  void refuse_closed(uint64_t sample_id, uint64_t ordinal);
  void leave_if_complete(uint64_t ordinal);
  void note_abandoned(uint64_t ordinal, const Group& group, DropReason reason,
                      std::string_view detail);
  void find_earliest_deadline();

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  const int64_t group_size_;
  const uint64_t first_id_;
  BoardObserver* observer_ = nullptr;
  Ledger ledger_;
  std::map<uint64_t, Group> groups_;
  uint64_t next_ordinal_ = 0;
  int64_t unscored_ = 0, unreplied_ = 0;
  // No deadline is earlier. Saves a search: expire() is called after every forward.
  int64_t earliest_ns_ = kNever;
  std::deque<uint64_t> dropped_ordinals_;  // ordinals of the most recently dropped groups
  std::vector<Dropped> dropped_;
};

}  // namespace rl

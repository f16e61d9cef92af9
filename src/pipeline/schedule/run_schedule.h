// The schedule of a run while it is recorded, or while a record is replayed; otherwise it does
// nothing. Inputs of the host and the clock come at any time. The loop sees them when it looks at
// its groups, and all else follows from what it saw, so an input has the number of looks before it:
// a replay applies it before the next one. Outcomes are compared in their order.
//
// A replay ends where its record does. It has no use for the host's scores and for the clock.
// Not thread-safe: used under the lock of what it is about.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/schedule/schedule_file.h"

namespace rl {

class RunSchedule {
 public:
  using Apply = std::function<void(const ScheduledEvent&)>;

  void record(std::unique_ptr<ScheduleWriter> writer) { writer_ = std::move(writer); }
  // apply: does what an input says.
  void replay(std::unique_ptr<ScheduleReader> reader, Apply apply);
  bool recording() const { return writer_ != nullptr; }
  bool replaying() const { return reader_ != nullptr; }
  bool active() const { return recording() || replaying(); }
  // From now on inputs are kept for other ranks, until they are taken (SharedInputs).
  void keep_inputs() { keeps_inputs_ = true; }
  bool takes_inputs() const { return recording() || keeps_inputs_; }
  std::vector<ScheduledEvent> take_kept() { return std::exchange(kept_, {}); }

  // An input; a replay ignores it.
  void input(ScheduledKind kind, std::vector<uint64_t> numbers, std::string text = {});
  // Before the loop reads what inputs change.
  void look();
  // An outcome. Error(kIncompatible) if the record of a replay has another one.
  void note(ScheduledKind kind, std::vector<uint64_t> numbers = {}, std::string text = {});
  // Replays only: the next outcome if it is of this kind and comes now.
  std::optional<ScheduledEvent> take(ScheduledKind kind);
  // Whether the loop stops here: the host has requested it, a record says so, or it ends here.
  bool stops(bool requested);
  // Replays only: nothing is left to do before an input. Error(kIncompatible) if none comes, unless
  // one came since the last wait: then a part of what the loop read is from before it.
  void check_waiting();

  // The replay has come to the end of its record, or to where the run was resumed.
  bool halts() const { return used_up_ || resumes_; }
  bool resumes() const { return resumes_; }
  // A run is resumed at this state, with these options: a record gets both. A replay has come
  // there, or to Error(kIncompatible); the options are those of its record. It goes on from there.
  std::string resume(std::vector<uint64_t> numbers, std::string options = {});
  // Replays only, before the run: the same for the resumption with these numbers, wherever it is.
  // Error(kNotFound) if there is none.
  std::string skip_to(const std::vector<uint64_t>& numbers);
  // The host ends a replay early: nothing more is compared.
  void detach();

  // Before a checkpoint becomes visible.
  void sync();
  // The run has ended: a record gets its closing record; that of a replay must end here.
  void finish();
  // The run has failed: what was recorded is written.
  void abandon();

 private:
  ScheduledEvent made(ScheduledKind kind, std::vector<uint64_t> numbers, std::string text) const;
  const ScheduledEvent* next_outcome();
  void find_end();
  void apply(const ScheduledEvent& event, uint64_t index);
  [[noreturn]] void diverge(uint64_t index, const std::string& expected,
                            const std::string& seen) const;

  struct Pending {
    ScheduledEvent event;
    uint64_t index;
  };
  std::unique_ptr<ScheduleWriter> writer_;
  std::unique_ptr<ScheduleReader> reader_;
  Apply apply_;
  std::vector<Pending> pending_;  // inputs for the next look
  bool keeps_inputs_ = false;
  std::vector<ScheduledEvent> kept_;
  uint64_t looks_ = 0;
  bool applied_ = false;  // inputs, since the last wait
  bool used_up_ = false, resumes_ = false, stopped_ = false, ended_ = false;
};

}  // namespace rl

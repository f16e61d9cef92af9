// What the boards of a run tell its schedule, and what a replay does to them. Used under the lock
// of the boards.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pipeline/groups/score_board.h"
#include "pipeline/schedule/run_schedule.h"

namespace rl {

class BoardSchedule final : public BoardObserver {
 public:
  explicit BoardSchedule(RunSchedule& schedule) : schedule_(schedule) {}

  // Inputs: what a host has done.
  void scored(uint64_t sample_id, const SampleRewards& rewards);
  void failed(uint64_t sample_id, std::string_view reason);
  void expired(uint64_t first_sample_id, const std::string& why) override;
  // Outcomes.
  void drawn(uint64_t first_sample_id, int64_t steps_done, std::span<const int32_t> prompt);
  void finished(const Sample& sample);
  void dropped(uint64_t first_sample_id, DropReason reason) override;
  // The batch of a step, by (ordinal, slot).
  void taken(uint64_t step, std::span<const SamplePtr> batch);

 private:
  RunSchedule& schedule_;
};

// Does to the board of its sample what an input of a record says. Errors are those of the board.
void apply_input(ScoreBoard& board, const ScheduledEvent& input);

}  // namespace rl

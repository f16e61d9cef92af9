// The groups of steps on their way from the scorers to the trainer: a score board, and the
// experience buffer for those that are scored and kept. A group that leaves the buffer untrained is
// dropped on the board with a reason, and one that is taken is reserved there, so both always
// agree. Not thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "buffer/experience_buffer.h"
#include "core/function_ref.h"
#include "pipeline/groups/score_board.h"

namespace rl {

class GroupStore {
 public:
  // At most max_complete groups are complete and not taken.
  GroupStore(int64_t group_size, uint64_t first_id, int64_t max_complete)
      : board_(group_size, first_id), buffer_(group_size, group_size * max_complete) {}

  ScoreBoard& board() { return board_; }
  const ScoreBoard& board() const { return board_; }

  // Moves a complete group to the buffer. mask: tokens that are older than the last of their sample
  // carry no loss.
  void commit(uint64_t ordinal, bool mask);
  // Moves each complete group, or drops it with kFiltered if why_dropped returns a reason for its
  // rewards.
  FlowJudged commit_all(FunctionRef<std::string(std::span<const double> rewards)> why_dropped,
                        bool mask);
  struct Rejected {
    uint64_t ordinal;
    std::string why;
  };
  using Filter = FunctionRef<std::vector<Rejected>(std::span<const SamplePtr>)>;
  // Drops groups from the buffer with kFiltered: filter returns, for a batch of its oldest groups,
  // at most so many, those to drop. Returns how many.
  int64_t drop_filtered(int64_t max_groups, Filter filter);
  // Drops from the buffer, with kStale, groups with an older version of a token that is trained on.
  // Returns how many.
  int64_t drop_older_than(uint64_t version);
  // Takes the oldest groups that the buffer holds, at most so many, by (ordinal, slot), for a step
  // that trains on them.
  std::vector<SamplePtr> take(int64_t max_groups);
  // The step was undone: its groups return to the buffer.
  void give_back(std::vector<SamplePtr> batch);
  // Ends everything that is open (ScoreBoard::abandon).
  void abandon(DropReason reason, const std::vector<SamplePtr>& aborted);

 private:
  ScoreBoard board_;
  ExperienceBuffer buffer_;
};

}  // namespace rl

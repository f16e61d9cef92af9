// The evaluations of a run: their ordinals, and the evaluation in progress. Ordinals count on over
// the whole run, so an evaluation never repeats the random numbers of an earlier one. The loop's
// thread alone uses it.
#pragma once
#include <cstdint>
#include <span>

#include "pipeline/loop/events.h"
#include "pipeline/loop/score_board.h"

namespace rl {

class Evaluation {
 public:
  // dropped: groups of all evaluations so far.
  void begin(int64_t now_ns, int64_t dropped);
  bool in_progress() const { return in_progress_; }
  uint64_t take_ordinal() { return next_ordinal_++; }
  uint64_t next_ordinal() const { return next_ordinal_; }
  void restore(uint64_t next_ordinal) { next_ordinal_ = next_ordinal; }
  int64_t first_ns() const { return first_ns_; }
  // Ends the evaluation; fills the event except for step and version.
  void finish(std::span<const ScoreBoard::Scored> scored, int64_t dropped, int64_t now_ns,
              EvalEvent& event);

 private:
  bool in_progress_ = false;
  uint64_t next_ordinal_ = 0;
  int64_t first_ns_ = 0;
  int64_t dropped_before_ = 0;
};

}  // namespace rl

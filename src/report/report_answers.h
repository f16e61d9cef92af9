// Which answers of metrics.samples the report shows: rows that the last evaluation answers
// otherwise than the first one, and the best and the worst answers of training. Memory is bounded
// by two evaluations, whatever the length of the file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "profile/kept_answer.h"
#include "report/report_series.h"

namespace rl {

struct AnswerChange {
  KeptAnswer first, last;  // of one row
};

struct AnswerDigest {
  uint64_t first_step = 0, last_step = 0;  // of the two evaluations compared
  size_t num_evals = 0;
  size_t num_compared = 0, num_better = 0, num_worse = 0, num_reworded = 0;
  std::vector<AnswerChange> better, worse, reworded;  // the largest differences of reward first
  std::vector<KeptAnswer> best, worst;                // of training, one for each prompt
};

AnswerDigest read_answers(FileSystem& fs, const std::string& path, ReadNotes& notes);

}  // namespace rl

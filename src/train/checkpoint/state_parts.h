// Tensors of a checkpoint that the ranks of a run have in parts (parallel.zero_stage). Rank 0
// writes them: each part comes to it when its bytes are due, so no rank has memory for the whole.
//
// All ranks make one with the same tensors, together. On rank 0 visit() is then called for each
// tensor in that order; the others give theirs in give(). What is not visited, because writing
// failed, comes at the end of the object all the same: a checkpoint that fails ends no run.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "train/checkpoint/array_file.h"
#include "train/ranks/data_ranks.h"

namespace rl {

class StateParts {
 public:
  // Of these, those in parts. They outlive it.
  StateParts(const DataRanks& ranks, std::vector<StateTensor> tensors);
  ~StateParts();
  StateParts(const StateParts&) = delete;
  StateParts& operator=(const StateParts&) = delete;

  // All bytes of the next tensor, or of one that is not in parts.
  void visit(const StateTensor& tensor, PartVisitor visit);
  // On the other ranks: their parts of all tensors.
  void give();

 private:
  void pass_next(PartVisitor visit);

  const DataRanks ranks_;
  const std::vector<StateTensor> tensors_;
  size_t next_ = 0;
};

// Rank 0 tells the others whether a checkpoint comes, and they hear it.
bool announce_checkpoint(const DataRanks& ranks, bool comes);

}  // namespace rl

// A copy, in the host's memory, of all that the optimizer steps of an update change: weights,
// states and averages of the trained models, and their counters. With it an update is undone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena.h"
#include "train/checkpoint/array_file.h"
#include "train/checkpoint/checkpoint_draft.h"

namespace rl {

class WeightsBackup {
 public:
  // bytes: at least those of every take() to come; 0 reserves nothing.
  WeightsBackup(uint64_t bytes, ArenaLedger* ledger);

  struct Trained {
    TrainerCounters counters;
    TensorList tensors;  // the memory that take() copies and restore() writes
  };
  // Whether there is memory for a copy, and whether it holds one.
  bool reserved() const { return arena_.bytes() != 0; }
  bool taken() const { return !models_.empty(); }
  void take(std::vector<Trained> models);
  // Writes everything back and returns the counters, in the order of the models. The copy stays.
  std::vector<TrainerCounters> restore() const;
  // What was copied is of no more use.
  void drop() { models_.clear(); }

  std::span<std::byte> memory() const { return arena_.span(); }

 private:
  Arena arena_;
  std::vector<Trained> models_;
};

}  // namespace rl

// A copy of what a checkpoint holds of its models, in the host's memory: it can be written while
// the models are trained on.
#pragma once
#include <cstdint>
#include <span>

#include "core/arena.h"
#include "train/checkpoint/checkpoint_draft.h"

namespace rl {

class CheckpointCopy {
 public:
  // bytes: at least those of every draft to come; 0 reserves nothing.
  CheckpointCopy(uint64_t bytes, ArenaLedger* ledger);

  // Copies the tensors of the draft, which refers to the copies from then on: until the next call.
  // Those in the draft's own memory are copies already.
  void take(CheckpointDraft& draft);
  std::span<std::byte> memory() const { return arena_.span(); }

 private:
  Arena arena_;
};

}  // namespace rl

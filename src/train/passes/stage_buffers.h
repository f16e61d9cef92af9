// What a rank that has one stage of a model holds of several micro-batches at once, beside the
// buffers of one (train/passes/train_buffers.h). Stage s of S has the activations of up to S - s
// micro-batches: those that went forward and have not come back.
//
// The gradient of an embedding that is the head too is added up on the last stage, in the order of
// one rank: head, then embedding, of one micro-batch after the other. The embedding's part of a
// micro-batch comes from the first stage when the last has gone on to later ones; so this one keeps
// what the head read, and the first one what it sends.
#pragma once
#include <cstddef>
#include <vector>

#include "core/arena.h"
#include "model/transformer.h"
#include "train/options/step_options.h"

namespace rl {

struct TrainShape;

class StageBuffers {
 public:
  // The bytes, 0 for an undivided model.
  static uint64_t bytes(const TrainShape& shape, const StepOptions& options);
  StageBuffers(const TrainShape& shape, const StepOptions& options, std::byte* data);

  struct InFlight {
    SavedActivations saved;
    KvPool kv;
  };
  std::vector<InFlight> others;    // of micro-batches beside the first one
  std::vector<std::byte*> hidden;  // (train_rows, C) compute dtype each; of the last stage
  std::vector<float*> embedding;   // (train_rows, C) each; of the first stage
};

}  // namespace rl

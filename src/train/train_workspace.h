// The trainer's view of its workspace: activations, forward, backward and head buffers, hidden
// gradients and the KV blocks of one micro-batch. Any content is valid before a call.
#pragma once
#include <cstddef>

#include "model/head.h"
#include "model/transformer.h"
#include "train/step_options.h"

namespace rl {

struct TrainShape {
  const ModelConfig& config;
  KvShape kv;
  int num_threads;
  Dtype compute() const { return kv.attention.dtype; }
};
TrainShape shape_of(const Model& model);

// Blocks of the training KV pool, those of padding not counted, and of padding. A sequence wastes
// less than one block, so micro-batches of sequences of at least one block of rows fill the token
// budget; shorter ones may use up the blocks first.
int64_t training_kv_blocks(const StepOptions& options, int64_t block_size);
int64_t padding_kv_blocks(const StepOptions& options, int64_t block_size);
// The same of a forward-only pass over so many rows.
int64_t forward_kv_blocks(int64_t rows, int64_t block_size);

ArenaPlan plan_train_workspace(const TrainShape& shape, const StepOptions& options);

// What a forward-only pass works in. Its bytes are those of training, as the two never meet.
struct ScoringBuffers {
  ScoringBuffers(const TrainShape& shape, const StepOptions& options, std::byte* data);
  static uint64_t bytes(const TrainShape& shape, const StepOptions& options);
  ForwardBuffers forward;
  HeadBuffers head;
  KvPool kv;
};

class TrainWorkspace {
 public:
  TrainWorkspace(const TrainShape& shape, const StepOptions& options, std::byte* data);

  SavedActivations saved;
  ForwardBuffers forward;
  BackwardBuffers backward;
  HeadBuffers head;
  float* d_hidden;  // (train_rows, C)
  KvPool kv;
  ScoringBuffers scoring;

 private:
  TrainWorkspace(const TrainShape& shape, const StepOptions& options, const ArenaPlan& plan,
                 std::byte* data);
};

}  // namespace rl

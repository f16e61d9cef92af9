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

// Blocks of the training KV pool, those of padding not counted, and of padding. They hold every
// micro-batch of up to so many rows that has up to kv_sequences of them, so that the budget of tokens
// is what a micro-batch ends at.
int64_t training_kv_blocks(const StepOptions& options, int64_t block_size);
int64_t padding_kv_blocks(const StepOptions& options, int64_t block_size);
// The same of a forward-only pass over so many rows.
int64_t forward_kv_blocks(const StepOptions& options, int64_t rows, int64_t block_size);
// The samples of a pass where they are known, but no more than 64, or one for each 16 rows: blocks
// for any number of sequences of one row would be many times the rest of the workspace. What is
// shorter than that on average may be cut by its blocks.
int64_t kv_sequences(int64_t rows, int64_t samples);

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

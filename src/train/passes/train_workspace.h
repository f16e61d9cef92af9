// The trainer's view of its workspace: activations, forward, backward and head buffers, hidden
// gradients and the KV blocks of one micro-batch. Any content is valid before a call.
#pragma once
#include <cstddef>

#include "model/head.h"
#include "model/transformer.h"
#include "train/options/step_options.h"

namespace rl {

struct TrainShape {
  const ModelConfig& config;
  KvShape kv;
  int num_threads;
  Dtype compute() const { return kv.attention.dtype; }
};
TrainShape shape_of(const Model& model);

// Blocks of the training KV pool, those of padding not counted, of padding, and both. They hold
// every micro-batch of up to so many rows in up to kv_sequences() sequences, so that the budget of
// tokens is what such a micro-batch ends at.
int64_t training_kv_blocks(const StepOptions& options, int64_t block_size);
int64_t padding_kv_blocks(const StepOptions& options, int64_t block_size);
int64_t all_kv_blocks(const TrainShape& shape, const StepOptions& options);
// The same of a forward-only pass over so many rows.
int64_t forward_kv_blocks(const StepOptions& options, int64_t rows, int64_t block_size);
// The sequences of a micro-batch that have blocks: the samples of a pass where they are known, but
// at most max(64, rows / 16). Blocks for any number of sequences of one row would be many times the
// rest of the workspace: where sequences are more and shorter, blocks may end a micro-batch before
// tokens do.
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

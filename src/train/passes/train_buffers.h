// Buffers of the passes over one micro-batch: activations, forward, backward and head buffers, and
// KV blocks. They are views of the workspace that the caller gives, and own no bytes. Any content
// is valid before a call.
#pragma once
#include <cstddef>

#include "model/head.h"
#include "model/transformer.h"
#include "train/options/step_options.h"
#include "train/passes/stage_buffers.h"

namespace rl {

struct TrainShape {
  const ModelConfig& config;
  KvShape kv;
  int num_threads;
  const Device& device = cpu_device();
  Dtype compute() const { return kv.dtype(); }
};
TrainShape shape_of(const Model& model);

// Blocks of the training KV pool: without padding, of padding, and both together. They suffice for
// every micro-batch of up to train_rows() rows in up to kv_sequences() sequences, so that the
// token budget is the limit that such a micro-batch reaches first.
int64_t training_kv_blocks(const StepOptions& options, int64_t block_size);
int64_t padding_kv_blocks(const StepOptions& options, int64_t block_size);
int64_t all_kv_blocks(const TrainShape& shape, const StepOptions& options);
// Those of one of the ranks that divide a micro-batch, and those of a rank's pool: in a ring it has
// its own blocks alone.
int64_t own_kv_blocks(const TrainShape& shape, const StepOptions& options);
int64_t pool_kv_blocks(const TrainShape& shape, const StepOptions& options);
// Most samples of a micro-batch; 0: any number. The blocks of a rank's own rows are planned for no
// more. In a ring, which is for long sequences, they follow from the rows of a rank.
int64_t max_samples(const StepOptions& options, int64_t block_size);
// The same for a forward-only pass over `rows` rows.
int64_t forward_kv_blocks(const StepOptions& options, int64_t rows, int64_t block_size);
// The number of sequences of a micro-batch that blocks are planned for: the samples of a pass if
// they are known, but at most max(64, rows / 16). Planning for any number of one-row sequences
// would make the blocks many times the rest of the workspace. With more and shorter sequences, a
// micro-batch may run out of blocks before it runs out of tokens.
int64_t kv_sequences(int64_t rows, int64_t samples);

// Limits of a rank's training batches, and the shape of its KV pool in training: with ulysses it
// has a part of the heads.
BatchLimits train_limits(const TrainShape& shape, const StepOptions& options);
KvShape train_kv(KvShape shape, const StepOptions& options);

ArenaPlan plan_train_buffers(const TrainShape& shape, const StepOptions& options);
// Of activations that go to host memory.
uint64_t train_host_bytes(const TrainShape& shape, const StepOptions& options);

// Buffers of a forward-only pass. They overlay the training buffers, as the two passes never
// overlap in time.
struct ScoringBuffers {
  ScoringBuffers(const TrainShape& shape, const StepOptions& options, std::byte* data);
  static uint64_t bytes(const TrainShape& shape, const StepOptions& options);
  ForwardBuffers forward;
  HeadBuffers head;
  KvPool kv;
};

class TrainBuffers {
 public:
  // host: train_host_bytes(), or null if there are none.
  TrainBuffers(const TrainShape& shape, const StepOptions& options, std::byte* data,
               std::byte* host = nullptr);

  SavedActivations saved;
  ForwardBuffers forward;
  BackwardBuffers backward;
  HeadBuffers head;
  float* d_hidden;  // (train_rows, C), in the bytes of a backward buffer
  KvPool kv;
  StageBuffers stage;
  ScoringBuffers scoring;

 private:
  struct Memory {
    std::byte *device, *host;
  };
  TrainBuffers(const TrainShape& shape, const StepOptions& options, const ArenaPlan& plan,
               const Memory& memory);
};

}  // namespace rl

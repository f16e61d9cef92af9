// Runs micro-batches through a model with the trainer's workspace: forward of the whole batch,
// then the head over its wanted rows in chunks, or all at once if the head is scalar. Training and
// forward-only passes share the code. Each call ends with PassContext::end_micro_batch(). The
// stages of a model make all calls together; chunks are visited on the last one. They train with
// StagePass.
#pragma once
#include <vector>

#include "train/batch/micro_batch.h"
#include "train/passes/phase_timer.h"
#include "train/passes/train_buffers.h"

namespace rl {

// Rows of one head chunk, in the order of MicroBatch::wanted().
struct HeadChunk {
  std::span<const WantedRow> wanted;
  std::span<const float> logprobs;
  std::span<const float> entropies;
  const HeadBuffers* head;  // logits and statistics of the rows, or of their last part
};

// For a model with a scalar head: all wanted rows of a micro-batch.
struct ValueChunk {
  std::span<const WantedRow> wanted;
  std::span<const float> values;
};

struct HeadGradient {
  std::span<const float> d_logprob, d_entropy;  // one per row of the chunk
  // (rows, V): gradient in the tempered logits, added to the above.
  const float* d_tempered = nullptr;
};

class MicroBatchPass {
 public:
  MicroBatchPass(TrainBuffers& workspace, const PassContext& context)
      : workspace_(workspace), context_(context) {}

  // Forward without gradients: visit is called with every chunk. The micro-batch may be as large
  // as StepOptions::forward_rows.
  void score(const Model& model, const MicroBatch& micro,
             FunctionRef<void(const HeadChunk& chunk)> visit);
  void score_values(const Model& model, const MicroBatch& micro,
                    FunctionRef<void(const ValueChunk& chunk)> visit);

  struct Training {
    Model& model;
    BackwardWeights& packed;
    GradientSink gradients;                 // accumulated
    const WeightLayout* layout = nullptr;   // what is trained; null: everything
    const LayerDone* layer_done = nullptr;  // BackwardArgs::layer_done
  };
  struct Times {
    int64_t& forward_ns;
    int64_t& head_ns;
    int64_t& backward_ns;
  };
  // Forward and backward. loss returns the gradient of each chunk; its spans must stay valid until
  // its next call.
  void train(const Training& training, const MicroBatch& micro,
             FunctionRef<HeadGradient(const HeadChunk& chunk)> loss, const Times& times);
  // The same for values; loss returns d_value, one per wanted row.
  void train_values(const Training& training, const MicroBatch& micro,
                    FunctionRef<std::span<const float>(const ValueChunk& chunk)> loss,
                    const Times& times);

 private:
  friend class StagePass;
  // Calls visit with the wanted rows of each chunk.
  void for_chunks(const MicroBatch& micro,
                  FunctionRef<void(std::span<const WantedRow> wanted)> visit) const;
  size_t chunk_rows() const { return static_cast<size_t>(workspace_.head.max_rows); }
  // hidden: what forward() leaves in its buffers.
  HeadChunk forward_chunk(const Model& model, const std::byte* hidden, HeadBuffers& head,
                          std::span<const WantedRow> wanted);
  void backward_chunk(const Training& training, const HeadChunk& chunk, const HeadGradient& grad,
                      HeadGradients wanted = HeadGradients::kBoth);
  void run_head(const Training& training, const MicroBatch& micro,
                FunctionRef<HeadGradient(const HeadChunk& chunk)> loss);
  void run_layers(const Training& training, const MicroBatch& micro, FunctionRef<void()> head,
                  const Times& times);
  ValueChunk forward_values(const Model& model, const ForwardBuffers& forward,
                            std::span<const WantedRow> wanted);

  TrainBuffers& workspace_;
  const PassContext context_;
  std::vector<int32_t> rows_, ids_;
  std::vector<float> inv_temperature_, logprobs_, entropies_, values_;
};

}  // namespace rl

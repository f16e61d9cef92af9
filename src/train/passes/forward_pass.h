// Outputs of forwards without gradients over whole samples, as a host asks for them. They run in
// micro-batches by tokens, and equal prompts of neighbours are computed once; no output depends on
// the split. The stages of a model make all calls together, and each has the outputs. Every sample
// is checked before anything runs: an error names its id, the field and the limit. Outputs per
// token are those of the generated tokens, sample after sample.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "data/sample.h"
#include "train/batch/micro_batch.h"
#include "train/options/step_options.h"
#include "train/passes/train_buffers.h"

namespace rl {

class ForwardPass {
 public:
  using Samples = std::span<const Sample* const>;
  // Rows of the input, which count the tokens of all samples; none given: all of them in order.
  using Rows = std::optional<std::span<const uint64_t>>;

  // All outlive it. buffers were made for the model and the options.
  ForwardPass(const Model& model, const StepOptions& options, ScoringBuffers& buffers)
      : model_(model), options_(options), buffers_(buffers) {}

  // Log-probs and, unless the span is empty, entropies, at the temperatures of the samples.
  void tokens(Samples samples, std::span<float> logprobs, std::span<float> entropies);
  // With a scalar head: the value of the state before each token, and that at the last token of
  // each sample.
  void values(Samples samples, std::span<float> out);
  void scores(Samples samples, std::span<float> out);
  // The output of the last norm: (rows, C) in the compute dtype. Row t is what the head computes
  // the log-probs of token t + 1 from.
  TensorPtr hidden(Samples samples, Rows rows);
  // The logits of the next token, before temperature: (rows, V) fp32.
  TensorPtr logits(Samples samples, Rows rows);

 private:
  struct Target {  // a row of a micro-batch, and its row of the output
    int32_t row;
    int64_t to;
  };
  std::vector<PackItem> items_of(Samples samples, WantedTokens which) const;
  // Calls visit after the forward of each micro-batch.
  void run(std::span<const PackItem> items, WantedTokens which, FunctionRef<void()> visit);
  // Calls visit with the targets of each micro-batch.
  void run_rows(Samples samples, const Rows& rows,
                FunctionRef<void(std::span<const Target> targets)> visit);
  void head_of(std::span<const WantedRow> chunk);
  void values_of_wanted();
  void share(const OwnedTensor& out) const;
  void copy_logits(std::span<const Target> targets, std::byte* out);

  const Model& model_;
  const StepOptions& options_;
  ScoringBuffers& buffers_;
  MicroBatch micro_;
  std::vector<int32_t> rows_, ids_;
  std::vector<float> inv_temperature_, values_;
};

}  // namespace rl

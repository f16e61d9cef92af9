// The language-model head: logits, temperature, row statistics, log-prob and entropy for a chunk of
// rows, and backward. No [tokens, vocab] tensor is held beyond one chunk. Sampling and training
// both call head_forward; equal rows give equal bits in any chunk.
//
// Ranks that divide the vocabulary have the logits of their tokens. They call all functions below
// together, with the same rows, and each has the statistics, log-probs and choices of all of them
// (model/vocabulary_ranks.h).
#pragma once
#include <span>
#include <vector>

#include "formats/vocabulary_cut.h"
#include "model/backward_weights.h"
#include "model/gradient_sink.h"
#include "model/model.h"
#include "ops/head_ops.h"
#include "ops/sample_ops.h"

namespace rl {

// Rows of a chunk, and how many of them have logits at a time: all, or part after part.
struct HeadRows {
  HeadRows(int64_t chunk) : chunk(chunk), logits(chunk) {}
  HeadRows(int64_t chunk, int64_t logits) : chunk(chunk), logits(logits) {}
  int64_t chunk, logits;
  // Tokens of the vocabulary whose logits have gradients at a time, where logits of all rows are
  // there; at least those of BackwardWeights::head_parts(). 0: all.
  int64_t gradient_tokens = 0;
  bool samples = false;  // whether tokens are sampled from them
};
// Rows of a part, if a chunk has several; a multiple of the rows that products compute at once.
inline constexpr int64_t kLogitRows = 64;

// Working memory of a chunk of up to max_rows rows; d_logits only when a backward follows. Empty
// for a model with a scalar head (model/value_head.h) and for a stage without the head.
class HeadBuffers {
 public:
  static uint64_t bytes(const ModelConfig& config, Dtype compute, const HeadRows& rows,
                        bool with_backward);
  HeadBuffers(const ModelConfig& config, Dtype compute, const HeadRows& rows, bool with_backward,
              std::byte* data);

  int64_t max_rows, logit_rows;
  VocabularyCut cut;
  std::vector<int64_t> parts;  // cut.own_bounds()
  int64_t vocab = 0;           // tokens that this rank has
  int64_t rows = 0;            // of the last head_forward()
  float* z = nullptr;          // (logit rows, vocab) tempered logits
  TileStats* tiles = nullptr;  // (logit rows, tiles of all tokens)
  RowStats* stats = nullptr;   // (logit rows)
  // Null unless ranks divide the vocabulary: the tiles of each rank, (logit rows, its tiles), one
  // rank behind the other; and the same of logits, for the rows that this one samples.
  TileStats* tiles_by_rank = nullptr;
  float* logits_by_rank = nullptr;
  std::byte* hidden = nullptr;  // (padded rows, C) compute dtype: input rows, filled by gather_rows
  int64_t gradient_tokens = 0;
  bool samples = false;
  // (padded rows, tokens of a part) compute dtype, or null; with gradients of all tokens at a time,
  // part after part.
  std::byte* d_logits = nullptr;
  float* d_hidden = nullptr;       // (slots, rows, C), of which the first has the sum; or null
  float* d_hidden_part = nullptr;  // (rows, C) of a part of the vocabulary
};

// Copies the named rows of hidden (N, C) into buffers.hidden.
void gather_rows(const Model& model, const std::byte* hidden, std::span<const int32_t> rows,
                 HeadBuffers& buffers);

// Fills z, tiles and stats for inv_temperature.size() gathered rows from first_row on, a multiple
// of kLogitRows.
void head_forward(const Model& model, const ComputeCopy& weights,
                  std::span<const float> inv_temperature, HeadBuffers& buffers,
                  int64_t first_row = 0);
// Uses the weights that were packed last.
inline void head_forward(const Model& model, std::span<const float> inv_temperature,
                         HeadBuffers& buffers) {
  head_forward(model, model.trained(), inv_temperature, buffers);
}

// Log-probs of one id per row, after head_forward; entropies too unless the span is empty.
struct HeadScores {
  std::span<float> logprobs, entropies;
};
void head_scores(const Model& model, const HeadBuffers& buffers, std::span<const int32_t> ids,
                 const HeadScores& out);
// head_forward and head_scores of a whole chunk, part after part. Afterwards there are logits of
// the last part.
void head_scores_by_part(const Model& model, std::span<const int32_t> ids,
                         std::span<const float> inv_temperature, HeadBuffers& buffers,
                         const HeadScores& out);

// A choice for each of the rows, after head_forward with the inv_temperature() of their parameters.
// scratch: sample_scratch_bytes() of the device's threads. Afterwards z may have other values.
void sample_from_head(const Model& model, const HeadBuffers& buffers,
                      std::span<const SampleRow> rows, std::byte* scratch,
                      std::span<TokenChoice> choices);

// Gradients of the hidden states and of the weights, or one of them alone; each has the bits that
// it has in both.
enum class HeadGradients : uint8_t { kBoth, kHidden, kWeights };

struct HeadBackwardArgs {
  BackwardWeights& packed;
  std::span<const int32_t> ids;            // (rows) target tokens
  std::span<const float> inv_temperature;  // (rows)
  std::span<const float> d_logprob;        // (rows)
  std::span<const float> d_entropy;        // (rows)
  GradientSink grads;                      // the head's is accumulated
  const float* d_tempered = nullptr;     // (rows, vocab) more gradient of the logits z; null: none
  const WeightLayout* layout = nullptr;  // what is trained; null: everything
  HeadGradients wanted = HeadGradients::kBoth;
};
// After head_forward on the same rows: writes buffers.d_hidden, accumulates the head's weight
// gradient, as wanted. The logits of a chunk of several parts are computed again.
void head_backward(const Model& model, const HeadBackwardArgs& args, HeadBuffers& buffers);

}  // namespace rl

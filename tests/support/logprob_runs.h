// Log-probs of whole sequences in every way the library can compute them: packed as in training,
// or fed in chunks with one head row at a time as in decode.
#pragma once
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "support/compare_values.h"
#include "support/tiny_model.h"

namespace rl::testing {

inline std::vector<std::vector<int32_t>> random_sequences(int count, int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<std::vector<int32_t>> out(count);
  for (auto& s : out) {
    s.resize(3 + rng() % 70);
    for (auto& id : s) id = static_cast<int32_t>(rng() % vocab);
  }
  return out;
}

// Log-probs of every next token of every sequence, computed as one packed training batch.
inline std::vector<std::vector<float>> packed_logprobs(
    const TinyModel& tiny, const std::vector<std::vector<int32_t>>& sequences, float temperature) {
  const Model& model = *tiny.model;
  TrainingBatch batch(tiny, sequences);
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const Arena arena("head",
                    HeadBuffers::bytes(model.config(), model.compute_dtype(), batch.rows(), false),
                    Touch::kNow, place_on(*tiny.compute));
  HeadBuffers head(model.config(), model.compute_dtype(), batch.rows(), false, arena.data());
  std::vector<int32_t> rows(batch.rows());
  std::iota(rows.begin(), rows.end(), 0);
  gather_rows(model, batch.buffers->hidden, rows, head);
  head_forward(model, std::vector<float>(batch.rows(), 1.0f / temperature), head);
  std::vector<int32_t> next = batch.ids();  // that each row predicts
  std::rotate(next.begin(), next.begin() + 1, next.end());
  std::vector<float> logprobs(next.size());
  head_scores(model, head, next, {logprobs, {}});
  std::vector<std::vector<float>> out;
  for (const SequenceRows& s : batch.slices()) {
    const auto first = logprobs.begin() + s.first_row;
    out.emplace_back(first, first + s.rows - 1);
  }
  return out;
}

// The same for one sequence fed in chunks without saved activations, one head row at a time.
inline std::vector<float> chunked_logprobs(const TinyModel& tiny, const std::vector<int32_t>& ids,
                                           int32_t chunk, float temperature) {
  const Model& model = *tiny.model;
  TrainingBatch whole(tiny, {ids});  // for its buffers and blocks
  const Arena arena("head", HeadBuffers::bytes(model.config(), model.compute_dtype(), 1, false),
                    Touch::kNow, place_on(*tiny.compute));
  HeadBuffers head(model.config(), model.compute_dtype(), 1, false, arena.data());
  std::vector<float> out;
  const int32_t length = static_cast<int32_t>(ids.size());
  for (int32_t start = 0; start < length; start += chunk) {
    const int32_t rows = std::min(chunk, length - start);
    const SequenceRows slice{0, rows, start, whole.slices()[0].blocks};
    const ForwardBatch batch{.ids = {ids.data() + start, static_cast<size_t>(rows)},
                             .sequences = {&slice, 1},
                             .decode = rows == 1};
    forward(model, batch, whole.pool, *whole.buffers, nullptr);
    for (int32_t r = 0; r < rows && start + r + 1 < length; ++r) {
      gather_rows(model, whole.buffers->hidden, std::vector<int32_t>{r}, head);
      head_forward(model, std::vector<float>{1.0f / temperature}, head);
      out.push_back(0);
      head_scores(model, head, {&ids[start + r + 1], 1}, {{&out.back(), 1}, {}});
    }
  }
  return out;
}

}  // namespace rl::testing

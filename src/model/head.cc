// The head over one chunk: logits and their statistics, and the backward.
#include "model/head.h"

#include <algorithm>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {

uint64_t carve(HeadBuffers& b, const ModelConfig& c, Dtype compute, bool with_backward,
               std::byte* data) {
  if (c.scalar_head) return 0;
  const ColumnSlices slices = slices_of_width(c.vocab, kVocabularyTile);
  b.vocab = c.vocab;
  b.tile_width = slices.width;
  b.num_tiles = slices.count();
  const uint64_t rows = padded_rows(b.max_rows), item = dtype_bytes(compute), n = b.logit_rows;
  ArenaPlan plan;
  const auto take = [&](const char* name, uint64_t bytes) {
    const uint64_t offset = plan.add_region(name, bytes);
    return data ? data + offset : nullptr;
  };
  b.z = reinterpret_cast<float*>(take("logits", n * c.vocab * 4));
  b.tiles =
      reinterpret_cast<TileStats*>(take("tile statistics", n * b.num_tiles * sizeof(TileStats)));
  b.stats = reinterpret_cast<RowStats*>(take("row statistics", n * sizeof(RowStats)));
  b.hidden = take("head input", rows * c.hidden * item);
  b.d_logits = with_backward ? take("d logits", rows * c.vocab * item) : nullptr;
  b.d_hidden = with_backward ? reinterpret_cast<float*>(take("d hidden", b.max_rows * c.hidden * 4))
                             : nullptr;
  return plan.total_bytes();
}

}  // namespace

uint64_t HeadBuffers::bytes(const ModelConfig& config, Dtype compute, const HeadRows& rows,
                            bool with_backward) {
  HeadBuffers b(config, compute, rows, with_backward, nullptr);
  return carve(b, config, compute, with_backward, nullptr);
}
HeadBuffers::HeadBuffers(const ModelConfig& config, Dtype compute, const HeadRows& rows,
                         bool with_backward, std::byte* data)
    : max_rows(rows.chunk), logit_rows(rows.logits) {
  RL_CHECK(rows.logits == rows.chunk || rows.logits % kLogitRows == 0);
  carve(*this, config, compute, with_backward, data);
}

void gather_rows(const Model& model, const std::byte* hidden, std::span<const int32_t> rows,
                 HeadBuffers& buffers) {
  const uint64_t bytes = model.config().hidden * dtype_bytes(model.compute_dtype());
  RL_CHECK(static_cast<int64_t>(rows.size()) <= buffers.max_rows);
  gather_rows(model.compute(), {hidden, rows, bytes, buffers.hidden});
}

namespace {

// Calls visit(first, count) for every part of a chunk.
template <typename Visit>
void for_parts(const HeadBuffers& b, int64_t rows, const Visit& visit) {
  for (int64_t first = 0; first < rows; first += b.logit_rows)
    visit(first, std::min(b.logit_rows, rows - first));
}

}  // namespace

void head_forward(const Model& model, const ComputeCopy& weights,
                  std::span<const float> inv_temperature, HeadBuffers& b, int64_t first_row) {
  const auto rows = static_cast<int64_t>(inv_temperature.size());
  RL_CHECK(rows <= b.logit_rows && first_row + rows <= b.max_rows);
  RL_CHECK(first_row % kLogitRows == 0);
  RL_CHECK(weights.packed().head().shape().slices.count() == b.num_tiles);
  const uint64_t row_bytes = model.config().hidden * dtype_bytes(model.compute_dtype());
  head_logits(model.compute(),
              {weights.packed().head(), b.hidden + static_cast<uint64_t>(first_row) * row_bytes,
               inv_temperature, b.z, b.tiles, b.stats});
}

void head_scores(const Model& model, const HeadBuffers& b, std::span<const int32_t> ids,
                 const HeadScores& out) {
  RL_CHECK(static_cast<int64_t>(ids.size()) <= b.logit_rows && out.logprobs.size() == ids.size());
  head_logprobs(model.compute(), {b.z, b.stats, b.vocab, ids, out.logprobs, out.entropies});
}

void sample_from_head(const Model& model, const HeadBuffers& b, std::span<const SampleRow> rows,
                      std::byte* scratch, std::span<TokenChoice> choices) {
  sample_rows(model.compute(),
              {rows, b.z, b.tiles, b.stats, b.vocab, b.tile_width, scratch, choices});
}

void head_scores_by_part(const Model& model, std::span<const int32_t> ids,
                         std::span<const float> inv_temperature, HeadBuffers& b,
                         const HeadScores& out) {
  for_parts(b, static_cast<int64_t>(ids.size()), [&](size_t first, size_t count) {
    head_forward(model, model.trained(), inv_temperature.subspan(first, count), b,
                 static_cast<int64_t>(first));
    head_scores(model, b, ids.subspan(first, count),
                {out.logprobs.subspan(first, count),
                 out.entropies.empty() ? out.entropies : out.entropies.subspan(first, count)});
  });
}

void head_backward(const Model& model, const HeadBackwardArgs& args, HeadBuffers& b) {
  const int64_t rows = static_cast<int64_t>(args.ids.size()), hidden = model.config().hidden;
  Compute& compute = model.compute();
  RL_CHECK(b.d_logits && rows <= b.max_rows);
  const uint64_t d_row = static_cast<uint64_t>(b.vocab) * dtype_bytes(model.compute_dtype());
  for_parts(b, rows, [&](size_t first, size_t count) {
    const auto part = [&](auto all) { return all.subspan(first, count); };
    if (rows > b.logit_rows) {
      head_forward(model, model.trained(), part(args.inv_temperature), b,
                   static_cast<int64_t>(first));
    }
    head_logits_backward(
        compute,
        {b.z, b.stats, b.vocab, part(args.ids), part(args.d_logprob), part(args.d_entropy),
         part(args.inv_temperature),
         args.d_tempered ? args.d_tempered + first * static_cast<size_t>(b.vocab) : nullptr,
         b.d_logits + first * d_row});
  });
  const WeightLayout& layout = args.layout != nullptr ? *args.layout : model.layout();
  if (const int64_t at = layout.gradient_of(layout.head()); at >= 0) {
    const auto item = static_cast<int64_t>(dtype_bytes(model.compute_dtype()));
    args.grads.add_matrix(
        {at, b.vocab * hidden, hidden}, [&](float* to, int64_t first, int64_t count) {
          std::byte* const columns = b.d_logits + first / hidden * item;
          weight_gradient(compute, {columns, count / hidden, b.hidden, hidden, rows, to, b.vocab});
        });
  }
  project(compute, {args.packed.head(), b.d_logits, rows, b.d_hidden});
}

}  // namespace rl

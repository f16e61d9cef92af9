// The head over one chunk: logits and their statistics, and the backward.
#include "model/head.h"

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
  const uint64_t rows = padded_rows(b.max_rows), item = dtype_bytes(compute), n = b.max_rows;
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
  b.d_hidden =
      with_backward ? reinterpret_cast<float*>(take("d hidden", n * c.hidden * 4)) : nullptr;
  return plan.total_bytes();
}

}  // namespace

uint64_t HeadBuffers::bytes(const ModelConfig& config, Dtype compute, int64_t max_rows,
                            bool with_backward) {
  HeadBuffers b(config, compute, max_rows, with_backward, nullptr);
  return carve(b, config, compute, with_backward, nullptr);
}
HeadBuffers::HeadBuffers(const ModelConfig& config, Dtype compute, int64_t max_rows,
                         bool with_backward, std::byte* data)
    : max_rows(max_rows) {
  carve(*this, config, compute, with_backward, data);
}

void gather_rows(const Model& model, const std::byte* hidden, std::span<const int32_t> rows,
                 HeadBuffers& buffers) {
  const uint64_t bytes = model.config().hidden * dtype_bytes(model.compute_dtype());
  RL_CHECK(static_cast<int64_t>(rows.size()) <= buffers.max_rows);
  gather_rows(model.compute(), {hidden, rows, bytes, buffers.hidden});
}

void head_forward(const Model& model, const ComputeCopy& weights,
                  std::span<const float> inv_temperature, HeadBuffers& b) {
  RL_CHECK(static_cast<int64_t>(inv_temperature.size()) <= b.max_rows);
  RL_CHECK(weights.packed().head().shape().slices.count() == b.num_tiles);
  head_logits(model.compute(),
              {weights.packed().head(), b.hidden, inv_temperature, b.z, b.tiles, b.stats});
}

void head_scores(const Model& model, const HeadBuffers& b, std::span<const int32_t> ids,
                 const HeadScores& out) {
  RL_CHECK(static_cast<int64_t>(ids.size()) <= b.max_rows && out.logprobs.size() == ids.size());
  head_logprobs(model.compute(), {b.z, b.stats, b.vocab, ids, out.logprobs, out.entropies});
}

void sample_from_head(const Model& model, const HeadBuffers& b, std::span<const SampleRow> rows,
                      std::byte* scratch, std::span<TokenChoice> choices) {
  sample_rows(model.compute(),
              {rows, b.z, b.tiles, b.stats, b.vocab, b.tile_width, scratch, choices});
}

void head_backward(const Model& model, const HeadBackwardArgs& args, HeadBuffers& b) {
  const int64_t rows = static_cast<int64_t>(args.ids.size()), hidden = model.config().hidden;
  Compute& compute = model.compute();
  RL_CHECK(b.d_logits && rows <= b.max_rows);
  head_logits_backward(compute, {b.z, b.stats, b.vocab, args.ids, args.d_logprob, args.d_entropy,
                                 args.inv_temperature, args.d_tempered, b.d_logits});
  const WeightLayout& layout = args.layout != nullptr ? *args.layout : model.layout();
  if (const int64_t at = layout.gradient_of(layout.head()); at >= 0)
    weight_gradient(compute, {b.d_logits, b.vocab, b.hidden, hidden, rows, args.grads + at});
  project(compute, {args.packed.head(), b.d_logits, rows, b.d_hidden});
}

}  // namespace rl

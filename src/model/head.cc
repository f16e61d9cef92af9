// The head over one chunk: a GEMM with tile statistics in its epilogue, then their combination; and
// the backward.
#include "model/head.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace rl {
namespace {

uint64_t carve(HeadBuffers& b, const ModelConfig& c, Dtype compute, bool with_backward,
               std::byte* data) {
  if (c.scalar_head) return 0;
  const ColumnSlices slices = slices_of_width(c.vocab, kVocabularyTile);
  b.vocab = c.vocab;
  b.tile_width = slices.width;
  b.num_tiles = slices.count();
  const uint64_t rows = Matmul::padded_rows(b.max_rows), item = dtype_bytes(compute),
                 n = b.max_rows;
  ArenaPlan plan;
  const auto take = [&](const char* name, uint64_t bytes) {
    const uint64_t offset = plan.book(name, bytes);
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
  const size_t bytes = model.config().hidden * dtype_bytes(model.compute_dtype());
  RL_CHECK(static_cast<int64_t>(rows.size()) <= buffers.max_rows);
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(buffers.hidden + i * bytes, hidden + rows[i] * bytes, bytes);
}

void head_forward(const Model& model, const ComputeCopy& weights,
                  std::span<const float> inv_temperature, HeadBuffers& b) {
  const int64_t rows = static_cast<int64_t>(inv_temperature.size());
  RL_CHECK(rows <= b.max_rows);
  const MatmulOutput logits{b.z, b.vocab};
  model.matmul().run_into(
      logits, weights.packed().head(), b.hidden, rows, [&](const MatmulTile& t) {
        for (int64_t r = 0; r < t.rows; ++r) {
          const int64_t row = t.row0 + r;
          b.tiles[row * b.num_tiles + t.slice] =
              scale_and_measure(t.data + r * t.stride, t.cols, inv_temperature[row]);
        }
      });
  for (int64_t row = 0; row < rows; ++row)
    b.stats[row] = combine_tiles(b.tiles + row * b.num_tiles, b.num_tiles);
}

void head_backward(const Model& model, const HeadBackwardArgs& args, HeadBuffers& b) {
  const int64_t rows = static_cast<int64_t>(args.ids.size()), hidden = model.config().hidden;
  const Dtype dtype = model.compute_dtype();
  const size_t item = dtype_bytes(dtype), logits_bytes = b.vocab * item;
  Matmul& matmul = model.matmul();
  RL_CHECK(b.d_logits && rows <= b.max_rows);
  matmul.executor().parallel_for(rows, [&](int64_t r, int) {
    logits_backward({b.z + r * b.vocab, b.vocab, b.stats[r], args.ids[r], args.d_logprob[r],
                     args.d_entropy[r], args.inv_temperature[r], b.d_logits + r * logits_bytes,
                     dtype, args.d_tempered ? args.d_tempered + r * b.vocab : nullptr});
  });
  const int64_t tail = Matmul::padded_depth(rows) - rows;
  std::memset(b.d_logits + rows * logits_bytes, 0, tail * logits_bytes);
  std::memset(b.hidden + rows * hidden * item, 0, tail * hidden * item);
  matmul.accumulate_weight_grad(
      {b.d_logits, b.vocab, b.hidden, rows, b.vocab, hidden, args.grads + model.layout().head()});
  matmul.run_into({b.d_hidden, hidden}, args.packed.head(), b.d_logits, rows);
}

}  // namespace rl

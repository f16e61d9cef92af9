// The head over one chunk: logits and their statistics, and the backward.
#include "model/head.h"

#include <algorithm>

#include "core/error.h"
#include "model/vocabulary_ranks.h"
#include "ops/compute.h"

namespace rl {
namespace {

uint64_t carve(HeadBuffers& b, const ModelConfig& c, Dtype compute, bool with_backward,
               std::byte* data) {
  if (c.scalar_head || !c.has_head()) return 0;
  b.vocab = b.cut.own().count;
  const bool divided = b.cut.ranks() > 1;
  const uint64_t rows = padded_rows(b.max_rows), item = dtype_bytes(compute), n = b.logit_rows;
  const uint64_t tile_bytes = n * b.cut.tiles().count() * sizeof(TileStats);
  const uint64_t sampled =
      divided && b.samples ? most_sampled_rows(b.logit_rows, b.cut) * c.vocab * 4 : uint64_t{0};
  ArenaPlan plan;
  const auto take = [&](const char* name, uint64_t bytes) {
    const uint64_t offset = plan.add_region(name, bytes);
    return data ? data + offset : nullptr;
  };
  b.z = reinterpret_cast<float*>(take("logits", std::max(n * b.vocab * 4, sampled)));
  b.tiles = reinterpret_cast<TileStats*>(take("tile statistics", tile_bytes));
  b.stats = reinterpret_cast<RowStats*>(take("row statistics", n * sizeof(RowStats)));
  if (divided)
    b.tiles_by_rank = reinterpret_cast<TileStats*>(take("tile statistics by rank", tile_bytes));
  if (sampled != 0) b.logits_by_rank = reinterpret_cast<float*>(take("logits by rank", sampled));
  b.hidden = take("head input", rows * c.hidden * item);
  if (!with_backward) return plan.total_bytes();
  if (b.logit_rows < b.max_rows || b.gradient_tokens == 0) b.gradient_tokens = b.vocab;
  b.gradient_tokens = std::min(b.gradient_tokens, b.vocab);
  b.d_logits = take("d logits", rows * b.gradient_tokens * item);
  const uint64_t d_hidden = static_cast<uint64_t>(b.max_rows) * c.hidden * 4;
  b.d_hidden = reinterpret_cast<float*>(take("d hidden", PartSums::slots(c.split) * d_hidden));
  b.d_hidden_part = reinterpret_cast<float*>(take("d hidden of a part", d_hidden));
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
    : max_rows(rows.chunk),
      logit_rows(rows.logits),
      cut(config),
      parts(cut.own_bounds()),
      gradient_tokens(rows.gradient_tokens),
      samples(rows.samples) {
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
  RL_CHECK(weights.packed().head().shape().slices.count() == b.cut.num_own_tiles());
  const uint64_t row_bytes = model.config().hidden * dtype_bytes(model.compute_dtype());
  b.rows = rows;
  head_logits(model.compute(),
              {weights.packed().head(), b.hidden + static_cast<uint64_t>(first_row) * row_bytes,
               inv_temperature, b.z, own_tiles(b), b.stats, b.parts});
  if (b.cut.ranks() > 1) combine_tiles_of_ranks(model.compute(), model.tensor_ranks(), b);
}

void head_scores(const Model& model, const HeadBuffers& b, std::span<const int32_t> ids,
                 const HeadScores& out) {
  RL_CHECK(static_cast<int64_t>(ids.size()) <= b.logit_rows && out.logprobs.size() == ids.size());
  if (b.cut.ranks() > 1) return score_over_ranks(model, b, ids, out);
  head_logprobs(model.compute(), {b.z, b.stats, b.vocab, ids, out.logprobs, out.entropies});
}

void sample_from_head(const Model& model, const HeadBuffers& b, std::span<const SampleRow> rows,
                      std::byte* scratch, std::span<TokenChoice> choices) {
  const SampleRowsArgs args{rows,    b.z,    b.tiles, b.stats, b.cut.tiles().n, b.cut.tiles().width,
                            scratch, choices};
  b.cut.ranks() > 1 ? sample_over_ranks(model, b, args) : sample_rows(model.compute(), args);
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

namespace {

// The vocabulary goes part after part: gradients of its logits, its rows of the weights' gradient,
// and what it adds to the gradient of the hidden states.
class HeadBackward {
 public:
  HeadBackward(const Model& model, const HeadBackwardArgs& args, HeadBuffers& buffers)
      : model_(model),
        compute_(model.compute()),
        args_(args),
        b_(buffers),
        layout_(args.layout != nullptr ? *args.layout : model.layout()),
        parts_(args.packed.head_parts()),
        rows_(static_cast<int64_t>(args.ids.size())),
        hidden_(model.config().hidden),
        item_(static_cast<int64_t>(dtype_bytes(model.compute_dtype()))),
        sums_(b_.d_hidden, model.config().split, rows_ * hidden_),
        ids_(args.ids.begin(), args.ids.end()) {
    RL_CHECK(b_.d_logits && rows_ <= b_.max_rows);
    for (const HeadPart& part : parts_)
      RL_CHECK(has_all_gradients() || part.tokens <= b_.gradient_tokens);
    // Counted from the rank's first token; those of other ranks are outside.
    for (int32_t& id : ids_) id -= static_cast<int32_t>(b_.cut.own().first);
  }

  void run() {
    if (has_all_gradients()) logits_again();
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!has_all_gradients()) logits_gradient(parts_[i], 0, rows_);
      if (args_.wanted != HeadGradients::kHidden) weight_gradient_of(parts_[i]);
      if (args_.wanted != HeadGradients::kWeights) add_to_hidden(static_cast<int64_t>(i));
    }
    if (args_.wanted != HeadGradients::kWeights && model_.config().split.divides())
      model_.tensor_ranks().sum(compute_, sums_);
  }

 private:
  // Logits are there for some rows at a time, so those of all tokens come first.
  bool has_all_gradients() const { return rows_ > b_.logit_rows; }

  void logits_again() {
    for_parts(b_, rows_, [&](int64_t first, int64_t count) {
      head_forward(model_, model_.trained(), some(args_.inv_temperature, first, count), b_, first);
      for (const HeadPart& part : parts_) logits_gradient(part, first, count);
    });
  }

  template <typename T>
  static std::span<T> some(std::span<T> all, int64_t first, int64_t count) {
    return all.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }

  std::byte* d_logits(const HeadPart& part) const {
    return has_all_gradients() ? b_.d_logits + padded_rows(b_.max_rows) * part.first * item_
                               : b_.d_logits;
  }

  // Of rows whose logits are there.
  void logits_gradient(const HeadPart& part, int64_t first, int64_t count) {
    const float* more = args_.d_tempered != nullptr ? args_.d_tempered + first * b_.vocab : nullptr;
    head_logits_backward(
        compute_, {b_.z, b_.stats, b_.vocab, some(std::span<const int32_t>(ids_), first, count),
                   some(args_.d_logprob, first, count), some(args_.d_entropy, first, count),
                   some(args_.inv_temperature, first, count), more,
                   d_logits(part) + first * part.tokens * item_, part.first, part.tokens});
  }

  void weight_gradient_of(const HeadPart& part) {
    const int64_t at = layout_.gradient_of(layout_.head()), tokens = part.tokens;
    if (at < 0) return;
    const GradientRows of{at + part.first * hidden_, tokens * hidden_, hidden_};
    args_.grads.add_matrix(of, [&](float* to, int64_t first, int64_t count) {
      weight_gradient(compute_, {d_logits(part) + first / hidden_ * item_, count / hidden_,
                                 b_.hidden, hidden_, rows_, to, tokens});
    });
  }

  void add_to_hidden(int64_t i) {
    const HeadPart& part = parts_[static_cast<size_t>(i)];
    float* const sum = sums_.part(part.part);
    float* const to = part.begins_part ? sum : b_.d_hidden_part;
    project(compute_, {args_.packed.head(i), d_logits(part), rows_, to});
    if (part.begins_part) return;
    scale_add(compute_, {{1.0f, sum, 1.0f, to}, rows_ * hidden_});
  }

  const Model& model_;
  Compute& compute_;
  const HeadBackwardArgs& args_;
  HeadBuffers& b_;
  const WeightLayout& layout_;
  const std::vector<HeadPart>& parts_;
  const int64_t rows_, hidden_, item_;
  const PartSums sums_;
  std::vector<int32_t> ids_;
};

}  // namespace

void head_backward(const Model& model, const HeadBackwardArgs& args, HeadBuffers& buffers) {
  HeadBackward(model, args, buffers).run();
}

}  // namespace rl

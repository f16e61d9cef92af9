// Pieces are booked in the order of PieceIndex; the constructor carves them by that index.
#include "train/train_workspace.h"

namespace rl {
namespace {

enum PieceIndex : size_t { kSaved, kForward, kBackward, kHead, kDHidden, kKv };

std::byte* piece(const ArenaPlan& plan, std::byte* data, PieceIndex index) {
  return data + plan.pieces()[index].offset;
}

// Rows of the longest sequence: its last token is only a target.
int64_t longest_rows(const TrainerOptions& o) { return o.longest_sample() - 1; }

}  // namespace

int64_t training_kv_blocks(const TrainerOptions& options, int64_t block_size) {
  return 2 * ((options.max_tokens + block_size - 1) / block_size);
}

ArenaPlan plan_train_workspace(const TrainShape& s, const TrainerOptions& o) {
  ArenaPlan plan;
  plan.book("saved activations", SavedActivations::bytes(s.config, s.compute(), o.max_tokens));
  plan.book("forward buffers", ForwardBuffers::bytes(s.config, s.kv, o.max_tokens, s.num_threads));
  plan.book("backward buffers",
            BackwardBuffers::bytes(s.config, s.kv, o.max_tokens, longest_rows(o), s.num_threads));
  plan.book("head buffers", HeadBuffers::bytes(s.config, s.compute(), o.chunk_rows(), true));
  plan.book(
      "hidden gradients",
      (CheckedU64(o.max_tokens) * CheckedU64(s.config.hidden) * CheckedU64(sizeof(float))).get());
  const int64_t blocks = training_kv_blocks(o, s.kv.attention.block_size);
  plan.book("training KV", (CheckedU64(blocks) * CheckedU64(s.kv.block_bytes())).get());
  return plan;
}

TrainWorkspace::TrainWorkspace(const TrainShape& shape, const TrainerOptions& options,
                               std::byte* data)
    : TrainWorkspace(shape, options, plan_train_workspace(shape, options), data) {}

TrainWorkspace::TrainWorkspace(const TrainShape& s, const TrainerOptions& o, const ArenaPlan& plan,
                               std::byte* data)
    : saved(s.config, s.compute(), o.max_tokens, piece(plan, data, kSaved)),
      forward(s.config, s.kv, o.max_tokens, s.num_threads, piece(plan, data, kForward)),
      backward(s.config, s.kv, o.max_tokens, longest_rows(o), s.num_threads,
               piece(plan, data, kBackward)),
      head(s.config, s.compute(), o.chunk_rows(), true, piece(plan, data, kHead)),
      d_hidden(reinterpret_cast<float*>(piece(plan, data, kDHidden))),
      kv{s.kv, piece(plan, data, kKv), training_kv_blocks(o, s.kv.attention.block_size)} {}

}  // namespace rl

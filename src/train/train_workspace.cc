// Pieces are booked in the order of PieceIndex; the constructor carves them by that index. Pieces
// of a forward-only pass lie over them.
#include "train/train_workspace.h"

#include <algorithm>

namespace rl {
namespace {

enum PieceIndex : size_t { kSaved, kForward, kBackward, kHead, kDHidden, kKv };

std::byte* piece(const ArenaPlan& plan, std::byte* data, PieceIndex index) {
  return data + plan.pieces()[index].offset;
}

// Rows of the longest sequence: its last token is only a target.
int64_t longest_rows(const StepOptions& o) { return std::max<int64_t>(1, o.longest_sample() - 1); }

int64_t blocks_of(int64_t rows, int64_t block_size) { return (rows + block_size - 1) / block_size; }

uint64_t kv_bytes(const KvShape& kv, int64_t blocks) {
  return (CheckedU64(blocks) * CheckedU64(kv.block_bytes())).get();
}

int64_t all_kv_blocks(const TrainShape& s, const StepOptions& o) {
  const int64_t block_size = s.kv.attention.block_size;
  return training_kv_blocks(o, block_size) + padding_kv_blocks(o, block_size);
}

int64_t most_forward_rows(const StepOptions& o) {
  return std::max(o.forward_rows(), o.reference_rows());
}

int64_t most_forward_blocks(const TrainShape& s, const StepOptions& o) {
  return forward_kv_blocks(most_forward_rows(o), s.kv.attention.block_size);
}

// The pieces of ScoringBuffers, in the order of its members.
ArenaPlan plan_scoring(const TrainShape& s, const StepOptions& o) {
  ArenaPlan plan;
  plan.book("forward", ForwardBuffers::bytes(s.config, s.kv, most_forward_rows(o), s.num_threads));
  plan.book("head", HeadBuffers::bytes(s.config, s.compute(), o.chunk_rows(), false));
  plan.book("KV", kv_bytes(s.kv, most_forward_blocks(s, o)));
  return plan;
}

}  // namespace

TrainShape shape_of(const Model& m) {
  return {m.config(), m.kv_shape(), m.matmul().executor().num_threads()};
}

int64_t training_kv_blocks(const StepOptions& o, int64_t block_size) {
  const int64_t by_rows = 2 * blocks_of(o.train_rows(), block_size);
  const int64_t count = o.batch.micro_batch_size;
  if (count == 0 && o.batch.packed) return by_rows;
  const int64_t each = blocks_of(o.batch.padded(o.longest_rows()), block_size) + 1;
  return std::max(by_rows, std::max<int64_t>(count, 1) * each);
}

int64_t padding_kv_blocks(const StepOptions& o, int64_t block_size) {
  if (!o.batch.packed || !o.batch.pads()) return 0;
  return blocks_of(o.train_rows(), block_size) + blocks_of(o.train_rows(), longest_rows(o)) + 1;
}

int64_t forward_kv_blocks(int64_t rows, int64_t block_size) {
  return 2 * blocks_of(rows, block_size);
}

ArenaPlan plan_train_workspace(const TrainShape& s, const StepOptions& o) {
  const int64_t rows = o.train_rows();
  ArenaPlan plan;
  plan.book("saved activations", SavedActivations::bytes(s.config, s.compute(), rows));
  plan.book("forward buffers", ForwardBuffers::bytes(s.config, s.kv, rows, s.num_threads));
  plan.book("backward buffers",
            BackwardBuffers::bytes(s.config, s.kv, rows, longest_rows(o), s.num_threads));
  plan.book("head buffers", HeadBuffers::bytes(s.config, s.compute(), o.chunk_rows(), true));
  plan.book("hidden gradients",
            (CheckedU64(rows) * CheckedU64(s.config.hidden) * CheckedU64(sizeof(float))).get());
  plan.book("training KV", kv_bytes(s.kv, all_kv_blocks(s, o)));
  const uint64_t scoring = ScoringBuffers::bytes(s, o), training = plan.total_bytes();
  if (scoring > training) plan.book("log-probs beyond training", scoring - training);
  return plan;
}

uint64_t ScoringBuffers::bytes(const TrainShape& s, const StepOptions& o) {
  return plan_scoring(s, o).total_bytes();
}

ScoringBuffers::ScoringBuffers(const TrainShape& s, const StepOptions& o, std::byte* data)
    : forward(s.config, s.kv, most_forward_rows(o), s.num_threads,
              data + plan_scoring(s, o).pieces()[0].offset),
      head(s.config, s.compute(), o.chunk_rows(), false,
           data + plan_scoring(s, o).pieces()[1].offset),
      kv{s.kv, data + plan_scoring(s, o).pieces()[2].offset, most_forward_blocks(s, o)} {}

TrainWorkspace::TrainWorkspace(const TrainShape& shape, const StepOptions& options, std::byte* data)
    : TrainWorkspace(shape, options, plan_train_workspace(shape, options), data) {}

TrainWorkspace::TrainWorkspace(const TrainShape& s, const StepOptions& o, const ArenaPlan& plan,
                               std::byte* data)
    : saved(s.config, s.compute(), o.train_rows(), piece(plan, data, kSaved)),
      forward(s.config, s.kv, o.train_rows(), s.num_threads, piece(plan, data, kForward)),
      backward(s.config, s.kv, o.train_rows(), longest_rows(o), s.num_threads,
               piece(plan, data, kBackward)),
      head(s.config, s.compute(), o.chunk_rows(), true, piece(plan, data, kHead)),
      d_hidden(reinterpret_cast<float*>(piece(plan, data, kDHidden))),
      kv{s.kv, piece(plan, data, kKv), all_kv_blocks(s, o)},
      scoring(s, o, data) {}

}  // namespace rl

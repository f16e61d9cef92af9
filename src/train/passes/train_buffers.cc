// Regions of the workspace are planned in the order of RegionIndex, and the constructor carves them
// by that index. Regions of a forward-only pass overlay them.
#include "train/passes/train_buffers.h"

#include <algorithm>

#include "train/batch/micro_batch_plan.h"

namespace rl {
namespace {

// The head has no index: it begins among the backward buffers.
enum RegionIndex : size_t { kSaved, kForward, kBackward, kKv = 4, kStage = 5 };

std::byte* region(const ArenaPlan& plan, std::byte* data, RegionIndex index) {
  return data + plan.regions()[index].offset;
}

// Rows of the longest sequence: its last token is only a target.
int64_t longest_rows(const StepOptions& o) { return std::max<int64_t>(1, o.longest_sample() - 1); }

uint64_t kv_bytes(const KvShape& kv, int64_t blocks) {
  return (CheckedU64(blocks) * CheckedU64(kv.block_bytes())).get();
}

int64_t max_forward_rows(const StepOptions& o) {
  return std::max(o.forward_rows(), o.reference_rows());
}

int64_t max_forward_blocks(const TrainShape& s, const StepOptions& o) {
  return forward_kv_blocks(o, max_forward_rows(o), s.kv.block_size());
}

// Most samples of one optimizer step; minibatches are split by samples or by pairs.
int64_t minibatch_samples(const BatchRules& b) {
  if (b.step_samples == 0) return 0;
  if (b.global_batch_size != 0) return std::min(b.step_samples, 2 * b.global_batch_size);
  return std::min(b.step_samples, b.step_samples / b.num_minibatches + 2);
}

// With P rows per block, r rows take at most (r + P - 1) / P blocks. A run of n sequences after a
// prompt that ends t rows into a block takes at most (rows + P - t) / P + n (t + P - 1) / P, which
// is at most (rows + n (2 P - 1)) / P. No sequence takes more blocks than it has rows.
int64_t blocks_of_any(int64_t rows, int64_t sequences, int64_t block_size, bool shares) {
  const int64_t waste = shares ? 2 * block_size - 1 : block_size - 1;
  return std::min(rows, (rows + sequences * waste) / block_size);
}

// Of padding in some rows of a micro-batch.
int64_t padding_blocks_in(const StepOptions& o, int64_t rows, int64_t block_size) {
  if (!o.batch.packed || !o.batch.pads()) return 0;
  const int64_t longest = longest_rows(o);
  const int64_t sequences = (o.train_rows() + longest - 1) / longest;
  return kv_blocks_of(rows, block_size) + sequences + 1;
}

// Of a micro-batch, or of the part of it that has so many rows.
int64_t planned_samples(const StepOptions& o, int64_t rows) {
  const BatchRules& b = o.batch;
  if (b.micro_batch_size != 0) return b.micro_batch_size;
  return kv_sequences(rows, minibatch_samples(b));
}

// The regions of ScoringBuffers, in the order of its members.
ArenaPlan plan_scoring(const TrainShape& s, const StepOptions& o) {
  ArenaPlan plan;
  plan.add_region("forward", ForwardBuffers::bytes(s.config, s.kv, o.limits(max_forward_rows(o)),
                                                   s.num_threads));
  plan.add_region("head", HeadBuffers::bytes(s.config, s.compute(), o.head_rows(), false));
  plan.add_region("KV", kv_bytes(forward_kv(s.kv), max_forward_blocks(s, o)));
  return plan;
}

// Of a head with a backward.
HeadRows trained_head_rows(const TrainShape& s, const StepOptions& o) {
  HeadRows rows = o.head_rows(o.own_train_rows(s.kv.block_size()));
  rows.gradient_tokens = s.device.vocabulary_part();
  return rows;
}

uint64_t bytes_beyond(uint64_t bytes, uint64_t room) { return bytes > room ? bytes - room : 0; }

// The head is done before the backward of the layers begins, so its buffers begin in theirs, behind
// what it hands to them.
uint64_t head_offset(const TrainShape& s, const BatchLimits& rows) {
  return BackwardBuffers(s.config, s.kv, rows, s.num_threads, nullptr).free_before;
}

}  // namespace

TrainShape shape_of(const Model& m) {
  return {m.config(), m.kv_shape(), m.compute().num_threads(), m.compute().device()};
}

int64_t kv_sequences(int64_t rows, int64_t samples) {
  const int64_t many = std::max<int64_t>(64, rows / 16);
  return samples != 0 ? std::min(samples, many) : many;
}

int64_t training_kv_blocks(const StepOptions& o, int64_t block_size) {
  const BatchRules& b = o.batch;
  const int64_t rows = o.train_rows(), count = planned_samples(o, rows);
  if (b.packed) return blocks_of_any(rows, count, block_size, b.shared_prefix);
  // One block more for each, as the padding after it begins a new block.
  const int64_t each = kv_blocks_of(b.padded(o.longest_rows()), block_size) + 1;
  if (b.micro_batch_size != 0) return count * each;
  return std::max(each, std::min(2 * rows, (rows + count * (2 * block_size - 1)) / block_size));
}

int64_t padding_kv_blocks(const StepOptions& o, int64_t block_size) {
  return padding_blocks_in(o, o.train_rows(), block_size);
}

// One block more for the padding row of a rank without rows.
int64_t all_kv_blocks(const TrainShape& s, const StepOptions& o) {
  const int64_t block_size = s.kv.block_size(), stand_in = o.context.divides() ? 1 : 0;
  return training_kv_blocks(o, block_size) + padding_kv_blocks(o, block_size) + stand_in;
}

int64_t max_samples(const StepOptions& o, int64_t block_size) {
  if (o.context.in_ring()) return planned_samples(o, o.own_train_rows(block_size));
  return o.context.by_heads() ? planned_samples(o, o.train_rows()) : 0;
}

// All samples may have rows on one rank, with padding after each if they are not packed. A sequence
// that is cut between ranks is cut at a block.
int64_t own_kv_blocks(const TrainShape& s, const StepOptions& o) {
  const int64_t all = all_kv_blocks(s, o), block_size = s.kv.block_size();
  const int64_t count = max_samples(o, block_size);
  if (count == 0) return all;
  const int64_t rows = o.own_train_rows(block_size);
  const bool wide = o.batch.shared_prefix || !o.batch.packed;
  const int64_t own =
      blocks_of_any(rows, count, block_size, wide) + padding_blocks_in(o, rows, block_size);
  return std::min(all, own + 1);
}

int64_t pool_kv_blocks(const TrainShape& s, const StepOptions& o) {
  return o.context.in_ring() ? own_kv_blocks(s, o) : all_kv_blocks(s, o);
}

int64_t forward_kv_blocks(const StepOptions& o, int64_t rows, int64_t block_size) {
  return blocks_of_any(rows, kv_sequences(rows, o.batch.step_samples), block_size,
                       o.batch.shared_prefix);
}

BatchLimits train_limits(const TrainShape& s, const StepOptions& o) {
  BatchLimits limits = o.limits(o.own_train_rows(s.kv.block_size()), o.train_rows());
  limits.head_ranks = o.context.head_ranks();
  limits.ring_ranks = o.context.ring_ranks();
  limits.own_blocks = own_kv_blocks(s, o);
  if (o.sequence_parallel) limits.row_ranks = s.config.split.ranks();
  return limits;
}

KvShape train_kv(KvShape shape, const StepOptions& o) {
  for (AttentionShape& layer : shape.layers) {
    layer.heads /= o.context.head_ranks();
    layer.kv_heads /= o.context.head_ranks();
  }
  return shape;
}

ArenaPlan plan_train_buffers(const TrainShape& s, const StepOptions& o) {
  const BatchLimits rows = train_limits(s, o);
  const uint64_t backward = BackwardBuffers::bytes(s.config, s.kv, rows, s.num_threads);
  const uint64_t head = HeadBuffers::bytes(s.config, s.compute(), trained_head_rows(s, o), true);
  ArenaPlan plan;
  plan.add_region("saved activations",
                  SavedActivations::bytes(s.config, s.compute(), rows, o.activations));
  plan.add_region("forward buffers", ForwardBuffers::bytes(s.config, s.kv, rows, s.num_threads));
  plan.add_region("backward buffers", backward);
  plan.add_region("head buffers beyond backward",
                  bytes_beyond(head, backward - head_offset(s, rows)));
  plan.add_region("training KV",
                  kv_bytes(training_kv(train_kv(s.kv, o), o.activations), pool_kv_blocks(s, o)));
  if (s.config.stage.divides())
    plan.add_region("micro-batches of a stage", StageBuffers::bytes(s, o));
  const uint64_t beyond = bytes_beyond(ScoringBuffers::bytes(s, o), plan.total_bytes());
  if (beyond != 0) plan.add_region("log-probs beyond training", beyond);
  return plan;
}

uint64_t train_host_bytes(const TrainShape& s, const StepOptions& o) {
  return SavedActivations::host_bytes(s.config, train_limits(s, o), o.activations);
}

uint64_t ScoringBuffers::bytes(const TrainShape& s, const StepOptions& o) {
  return plan_scoring(s, o).total_bytes();
}

ScoringBuffers::ScoringBuffers(const TrainShape& s, const StepOptions& o, std::byte* data)
    : forward(s.config, s.kv, o.limits(max_forward_rows(o)), s.num_threads,
              data + plan_scoring(s, o).regions()[0].offset),
      head(s.config, s.compute(), o.head_rows(), false,
           data + plan_scoring(s, o).regions()[1].offset),
      kv{forward_kv(s.kv), data + plan_scoring(s, o).regions()[2].offset,
         max_forward_blocks(s, o)} {}

TrainBuffers::TrainBuffers(const TrainShape& shape, const StepOptions& options, std::byte* data,
                           std::byte* host)
    : TrainBuffers(shape, options, plan_train_buffers(shape, options), {data, host}) {}

TrainBuffers::TrainBuffers(const TrainShape& s, const StepOptions& o, const ArenaPlan& plan,
                           const Memory& memory)
    : saved(s.config, s.compute(), train_limits(s, o), region(plan, memory.device, kSaved),
            o.activations, memory.host),
      forward(s.config, s.kv, train_limits(s, o), s.num_threads,
              region(plan, memory.device, kForward)),
      backward(s.config, s.kv, train_limits(s, o), s.num_threads,
               region(plan, memory.device, kBackward)),
      head(s.config, s.compute(), trained_head_rows(s, o), true,
           region(plan, memory.device, kBackward) + backward.free_before),
      d_hidden(backward.d_normed),
      kv{training_kv(train_kv(s.kv, o), o.activations), region(plan, memory.device, kKv),
         pool_kv_blocks(s, o)},
      stage(s, o, s.config.stage.divides() ? region(plan, memory.device, kStage) : nullptr),
      scoring(s, o, memory.device) {}

}  // namespace rl
